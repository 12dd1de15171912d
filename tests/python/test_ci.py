"""What continuous integration does before it compiles."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / ".ci/ages.py"
RUN = Path(__file__).parents[2] / ".ci/run"


def clone(folder: Path, files: dict[str, str]) -> Path:
    """Make a repository with these files and a link to a folder, all of them new."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "link").symlink_to("src")
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def ages(folder: Path, kept: Path) -> dict[str, int]:
    """Run the script, and return when each file has changed, as cargo sees it."""
    subprocess.run([sys.executable, SCRIPT, kept], cwd=folder, check=True)
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in (folder / "src").iterdir()}


def test_a_file_that_is_as_it_was_in_the_last_run_is_as_old_as_it_was_then(tmp_path):
    kept = tmp_path / "kept"
    first = ages(clone(tmp_path / "1", {"src/a": "1", "src/b": "1", "src/c": "1"}), kept)
    second = ages(clone(tmp_path / "2", {"src/a": "1", "src/b": "2", "src/d": "1"}), kept)
    assert second["src/a"] == first["src/a"]
    assert min(second["src/b"], second["src/d"]) > max(first.values())
    # What was changed and is changed back is newer than what was built of the change.
    third = ages(clone(tmp_path / "3", {"src/a": "1", "src/b": "1", "src/c": "1", "src/d": "1"}), kept)
    assert (third["src/a"], third["src/d"]) == (first["src/a"], second["src/d"])
    assert min(third["src/b"], third["src/c"]) > max(second.values())


def test_every_command_that_tests_require_is_installed():
    installed = {line.split()[0] for line in re.search(r"<<< '([^']+)'", RUN.read_text())[1].splitlines()}
    calls = re.compile(r"namespaces\.built\(monkeypatch, ([^)]*)\)|shutil\.which\((\"[^\"]+\")")
    found = [call for file in Path(__file__).parent.glob("*.py") for call in calls.findall(file.read_text())]
    required = {name for call in found for name in re.findall(r'"([^"]+)"', "".join(call)) if not name.startswith("flowloom-")}
    assert {"ping", "bpftool", "tshark"} <= required
    # The compiler has two names.
    assert required - {"g++"} <= installed
