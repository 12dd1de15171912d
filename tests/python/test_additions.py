"""docs/add-a-transport.md and docs/add-a-kind.md: their code is that of the examples, and their instructions work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE, KINDS = (ROOT / "docs" / name for name in ("add-a-transport.md", "add-a-kind.md"))
LIST = Path("crates/transports/src/lib.rs")
FOLDERS = {"ring": "topologies", "shift": "workload", "flapping": "faults"}

# Rust tests that the new transport and the new kinds are in the catalogue and run.
CHECK = """\
use flowloom_lab::{Plan, catalogue, run, spec::Scenario};

fn load(text: &str, path: &str, overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::load(text, path, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_transport_is_listed_and_runs() {
    let catalogue = catalogue();
    let entry = catalogue["transports"].as_array().unwrap().iter().find(|entry| entry["name"] == "stop_and_wait").unwrap();
    assert_eq!(entry["defaults"]["window"], 1);
    let text = std::fs::read_to_string("../../examples/incast.toml").unwrap();
    let scenario = load(&text, "../../examples/incast.toml", &["transport.name=stop_and_wait", "workload.requests=2"]);
    let outcome = run(&scenario, &mut |_, _, _| true).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(outcome.rows.iter().filter(|row| row.finish.is_some()).count(), 80);
}

const NEW: &str = "
topology = { kind = \\"ring\\", switches = 5, hosts_per_switch = 1 }
workload = { kind = \\"shift\\", by = 2, bytes = \\"1460B\\" }
fault = [{ kind = \\"flapping\\", where = \\"s1-s2\\", from = \\"0s\\", to = \\"8us\\", every = \\"4us\\", down = \\"3us\\" }]
transport = { name = \\"stop_and_wait\\" }
";

/// Data goes to the host two places further on by the next switch, so hosts 0 and 1 send over the link that flaps.
#[test]
fn the_kinds_are_listed_and_run() {
    assert!(catalogue()["topologies"].as_array().unwrap().iter().any(|entry| entry["name"] == "ring"));
    let scenario = load(NEW, "new.toml", &[]);
    let plan = Plan::new(&scenario.validate().unwrap()).unwrap();
    assert_eq!((plan.setup.network.switches().count(), plan.setup.faults.iter().map(Vec::len).sum::<usize>()), (5, 2));
    let outcome = run(&scenario, &mut |_, _, _| true).unwrap_or_else(|error| panic!("{error:?}"));
    let pairs: Vec<(u32, u32)> = outcome.rows.iter().map(|row| (row.flow.src.0, row.flow.dst.0)).collect();
    assert_eq!(pairs, [(0, 2), (1, 3), (2, 4), (3, 0), (4, 1)]);
    let finishes: Vec<_> = outcome.rows.iter().map(|row| row.finish.expect("every flow is received")).collect();
    assert!(finishes[..2].iter().min() > finishes[2..].iter().max(), "{finishes:?}");
    let error = load(NEW, "new.toml", &["fault.0.down=4us"]).validate().map(drop).unwrap_err().to_string();
    assert!(error.contains("fault.0.down: found 4us; an outage ends before the next one begins"), "{error}");
}
"""


def excerpts(page: Path) -> list[tuple[Path, str]]:
    """Return the code blocks of a page, each with the file that it names."""
    blocks = re.findall(r"^( *)<!-- in (\S+) -->\n *```rust\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.M | re.S)
    return [(Path(name), re.sub(f"^{indent}", "", code, flags=re.M)) for indent, name, code in blocks]


@pytest.mark.parametrize("page", [PAGE, KINDS])
def test_every_code_block_names_its_file_and_is_in_it(page):
    assert len(excerpts(page)) == page.read_text(encoding="utf-8").count("```rust") > 5
    for name, code in excerpts(page):
        if name.parts[0] == "examples":
            assert code in (ROOT / name).read_text(encoding="utf-8"), f"{name} no longer has:\n{code}"


def test_all_that_is_there_for_transports_is_on_the_page():
    for module in ("toolkit", "disciplines"):
        source = (ROOT / f"crates/transports/src/{module}/mod.rs").read_text(encoding="utf-8")
        exported = re.findall(r"^pub use \w+::\{?([\w, ]+)", source, re.M)
        for name in ", ".join(exported).split(", "):
            assert f"`{name}`" in PAGE.read_text(encoding="utf-8"), f"{module}::{name}"


def test_a_module_and_a_line_add_a_transport_and_a_kind():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    copy = target / "worked-example"
    shutil.rmtree(copy, ignore_errors=True)
    for name in ("crates", "data", "examples"):
        shutil.copytree(ROOT / name, copy / name)
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy2(ROOT / name, copy / name)

    shutil.copytree(ROOT / "examples/stop_and_wait", copy / LIST.parent / "stop_and_wait")
    module, line = (code for name, code in excerpts(PAGE) if name == LIST)
    source = (ROOT / LIST).read_text(encoding="utf-8")
    after = re.search(r"^pub mod disciplines;\n", source, re.M).end()
    source = source[:after] + module + source[after:]
    after = source.index("$apply,\n", source.index("macro_rules! for_each_transport")) + len("$apply,\n")
    # The transports that are on the list need not be compiled once more.
    rest = re.sub(r"^ +\$crate::\w+::\w+,\n", "", source[after:], flags=re.M)
    (copy / LIST).write_text(source[:after] + line + rest, encoding="utf-8")
    changed = [LIST]
    for kind, folder in FOLDERS.items():
        into = Path("crates/lab/src") / folder
        shutil.copy2(ROOT / "examples/kinds" / f"{kind}.rs", copy / into)
        module, line = (code for name, code in excerpts(KINDS) if name == into / "mod.rs")
        source = (ROOT / into / "mod.rs").read_text(encoding="utf-8")
        assert source.count("\nkinds![\n") == 1
        source = source.replace("\nkinds![\n", f"\nkinds![\n{line}").replace("\nmod ", f"\n{module}mod ", 1)
        (copy / into / "mod.rs").write_text(source, encoding="utf-8")
        changed.append(into / "mod.rs")
    (copy / "crates/lab/tests/added.rs").write_text(CHECK, encoding="utf-8")

    # Sources keep their modification times, so that a second test run rebuilds nothing. The first is fast without optimisation.
    newest = max(path.stat().st_mtime for path in (PAGE, KINDS, Path(__file__), *(ROOT / name for name in changed)))
    for name in (*changed, "crates/lab/tests/added.rs"):
        os.utime(copy / name, (newest, newest))
    plain = [f"--config=profile.dev.package.flowloom-{crate}.opt-level=0" for crate in ("core", "transports", "fabric", "lab")]
    # All packages, so that what comes from registries has the features with which `make test` has compiled it.
    command = ["cargo", "test", "--locked", "--workspace", "--test", "added", *plain]
    done = subprocess.run(
        command, cwd=copy, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
