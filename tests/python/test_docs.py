"""The documents: link targets and named files exist, and the commands of docs/first-run.md work."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flowloom.claims import ledger
from flowloom.cli import app
from flowloom.figures import catalogue, reader

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "examples").glob("**/*.md"))
FIRST_RUN = (ROOT / "docs/first-run.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page):
    for name in re.findall(r"`((?:crates|tests|docs|examples|papers|data|python)/[\w./-]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


def sessions() -> list[str]:
    """Return the terminal sessions of docs/first-run.md that do not take minutes."""
    return re.findall(r"(?<!<!-- takes minutes -->\n)```console\n(.*?)```", FIRST_RUN, re.S)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A working directory with the files of a fresh clone that commands use."""
    for name in ("examples", "papers"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_first_run_can_be_run(clone):
    asked = 0
    for command, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", "".join(sessions()), re.M):
        if command == "ls results/incast":
            assert sorted(path.name for path in (clone / "results/incast").iterdir()) == shown.split()
            continue
        program, *words = shlex.split(command)
        assert program == "flowloom"
        result = CliRunner().invoke(app, words)
        asked += 1
        if shown.startswith("error:"):
            assert result.exit_code == 2
            assert result.stderr == shown
        else:
            assert result.exit_code == 0, result.output
    assert asked > 8


def test_what_the_demo_says_to_try_next_works(clone):
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2].partition("\n\n")[0]
    commands = re.findall(r"@echo '  \$\(BIN\)/flowloom (.*)'", recipe)
    assert len(commands) == 3
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, result.output
        assert result.stdout.strip()


def test_everybody_names_the_same_least_versions():
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["rust-version"]
    python = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"].removeprefix(
        ">="
    )
    assert f"needs Rust ≥ {rust}, Python ≥ {python}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Rust {rust} or later, Python {python} or later" in FIRST_RUN


def test_the_python_of_the_first_run_runs(clone, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", FIRST_RUN, re.S)
    exec(compile(code, "first-run.md", "exec"), {"__name__": "__main__"})
    assert len(capsys.readouterr().out.splitlines()) == 2 + 8


@pytest.mark.parametrize("paper", ["phost", "pias", "pase", "top", "rivals"])
def test_the_readme_counts_the_verdicts_of_the_ledger(paper):
    figures, errors = reader.read_all(catalogue.figures(paper))
    assert not errors
    verdicts = Counter(entry.verdict for entry in ledger.entries(figures, today=lambda wanted: {}))
    counts = [verdicts.pop(verdict, 0) for verdict in ("holds", "calibrated", "undecided", "differs", "not yet run")]
    assert not verdicts
    row = next(line for line in PAGES[0].read_text(encoding="utf-8").splitlines() if f"(papers/{paper})" in line)
    assert [int(cell) for cell in re.findall(r"\| (\d+) (?=\|)", row)] == [sum(counts), *counts], row
