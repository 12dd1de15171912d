"""docs/add-a-transport.md: its code is that of the example, and its instructions add a transport."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "add-a-transport.md"
LIST = Path("crates/transports/src/lib.rs")

# A Rust test that the new transport is in the catalogue and runs.
CHECK = """\
use flowloom_lab::{catalogue, run, spec::Scenario};

#[test]
fn it_is_listed_and_runs() {
    let catalogue = catalogue();
    let entry = catalogue["transports"].as_array().unwrap().iter().find(|entry| entry["name"] == "stop_and_wait").unwrap();
    assert_eq!(entry["defaults"]["window"], 1);
    let overrides = ["transport.name=stop_and_wait", "workload.requests=2"].map(str::to_owned);
    let text = std::fs::read_to_string("../../examples/incast.toml").unwrap();
    let scenario = Scenario::load(&text, "../../examples/incast.toml", &overrides).unwrap_or_else(|error| panic!("{error}"));
    let outcome = run(&scenario, &mut |_, _, _| true).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(outcome.rows.iter().filter(|row| row.finish.is_some()).count(), 80);
}
"""


def excerpts() -> list[tuple[Path, str]]:
    """Return the page's code blocks, each with the file that it names."""
    blocks = re.findall(r"^( *)<!-- in (\S+) -->\n *```rust\n(.*?)^ *```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return [(Path(name), re.sub(f"^{indent}", "", code, flags=re.M)) for indent, name, code in blocks]


def test_every_code_block_names_its_file_and_is_in_it():
    assert len(excerpts()) == PAGE.read_text(encoding="utf-8").count("```rust") > 5
    for name, code in excerpts():
        if name != LIST:
            assert code in (ROOT / name).read_text(encoding="utf-8"), f"{name} no longer has:\n{code}"


def test_all_that_is_there_for_transports_is_on_the_page():
    for module in ("toolkit", "disciplines"):
        source = (ROOT / f"crates/transports/src/{module}/mod.rs").read_text(encoding="utf-8")
        exported = re.findall(r"^pub use \w+::\{?([\w, ]+)", source, re.M)
        for name in ", ".join(exported).split(", "):
            assert f"`{name}`" in PAGE.read_text(encoding="utf-8"), f"{module}::{name}"


def test_a_folder_and_a_line_add_a_transport():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    copy = target / "worked-example"
    shutil.rmtree(copy, ignore_errors=True)
    for name in ("crates", "data", "examples"):
        shutil.copytree(ROOT / name, copy / name)
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy2(ROOT / name, copy / name)

    shutil.copytree(ROOT / "examples/stop_and_wait", copy / LIST.parent / "stop_and_wait")
    module, line = (code for name, code in excerpts() if name == LIST)
    source = (ROOT / LIST).read_text(encoding="utf-8")
    after = re.search(r"^pub mod disciplines;\n", source, re.M).end()
    source = source[:after] + module + source[after:]
    after = source.index("$apply,\n", source.index("macro_rules! for_each_transport")) + len("$apply,\n")
    # The transports that are on the list need not be compiled once more.
    rest = re.sub(r"^ +\$crate::\w+::\w+,\n", "", source[after:], flags=re.M)
    (copy / LIST).write_text(source[:after] + line + rest, encoding="utf-8")
    (copy / "crates/lab/tests/added.rs").write_text(CHECK, encoding="utf-8")

    # Sources keep their modification times, so that a second test run rebuilds nothing. The first is fast without optimisation.
    newest = max(path.stat().st_mtime for path in (PAGE, Path(__file__), ROOT / LIST))
    for name in (LIST, "crates/lab/tests/added.rs"):
        os.utime(copy / name, (newest, newest))
    plain = [f"--config=profile.dev.package.flowloom-{crate}.opt-level=0" for crate in ("core", "transports", "fabric", "lab")]
    # All packages, so that what comes from registries has the features with which `make test` has compiled it.
    command = ["cargo", "test", "--locked", "--workspace", "--test", "added", *plain]
    done = subprocess.run(
        command, cwd=copy, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
