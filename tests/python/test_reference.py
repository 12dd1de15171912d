"""The pages in docs/scenario agree with the simulator's schema and with resolved scenarios."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flowloom import Scenario, _native, reference

FOLDER = Path(__file__).parents[2] / "docs" / "scenario"
TRANSPORTS = json.loads(_native.catalogue())["transports"]
WORKLOADS = {
    "poisson": 'sizes = "imc10"\nload = 0.5\nflows = 10',
    "incast": 'senders = 2\nbytes = "10kB"\nrequests = 3\nperiod = "1ms"',
    "permutation": 'sizes = "imc10"',
    "burst": 'sizes = "imc10"\nflows = 10',
    "coflow_synthetic": "coflows = 5\nload = 0.5",
    "closed_loop": 'from = [1, "h2"]\nto = 0\nsizes = "imc10"\nrequests = 3\nthink = "10us"',
}


def rows(page: str, *heads: str) -> dict[str, str]:
    """Return the keys and defaults of the table below these headings of a committed page."""
    text = (FOLDER / page).read_text(encoding="utf-8")
    for head in heads:
        text = text[text.index(f"# {head}\n") + len(head) :]
    cells = [line.split("|")[1:4] for line in re.split(r"\n\|", text, maxsplit=1)[1].split("\n\n")[0].splitlines()]
    table = {
        key.strip(" `"): default.strip() for key, _, default in ([c.strip("|") for c in row] for row in cells) if "`" in key
    }
    assert table
    return table


def resolved(topology: str = "fat_tree", workload: str = "poisson", transport: str = "phost"):
    text = f'[topology]\nkind = "{topology}"\n[workload]\nkind = "{workload}"\n{WORKLOADS[workload]}\n'
    return tomllib.loads(Scenario.of(f'{text}[transport]\nname = "{transport}"\n').resolve())


def test_the_pages_are_what_the_schema_says():
    written = reference.pages(json.loads(_native.schema()), TRANSPORTS)
    committed = {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.md")}
    assert sorted(committed) == sorted(written), "docs/scenario has other pages than the present schema: run `make docs`"
    for page, text in written.items():
        assert committed[page] == text, f"docs/scenario/{page} is stale: run `make docs`"


def test_each_section_and_each_transport_has_a_page_that_the_overview_leads_to():
    schema = json.loads(_native.schema())
    written = reference.pages(schema, TRANSPORTS)
    sections = {f"{name}.md" for name in schema["properties"]} - {"transport.md"} | {"transports/README.md"}
    transports = {f"transports/{each['name']}.md" for each in TRANSPORTS}
    assert set(written) == {"README.md"} | sections | transports
    assert set(re.findall(r"\]\(([^)#]*)\)", written["README.md"])) == sections
    assert set(re.findall(r"\]\((\w+\.md)\)", written["transports/README.md"])) == {f"{each['name']}.md" for each in TRANSPORTS}


def test_the_scenario_of_the_overview_is_complete():
    (text,) = re.findall(r"```toml\n(.*?)```", (FOLDER / "README.md").read_text(encoding="utf-8"), re.S)
    given, resolved = tomllib.loads(text), tomllib.loads(Scenario.of(text).resolve())
    name = given["transport"]["name"]
    assert given["transport"][name].items() <= resolved["transport"][name].items()


@pytest.mark.parametrize("kind", ["single_switch", "dumbbell", "leaf_spine", "three_tier", "fat_tree"])
def test_defaults_of_topologies_are_those_that_are_filled_in(kind):
    assert_defaults(rows("topology.md", f'`kind = "{kind}"`'), resolved(topology=kind)["topology"])


@pytest.mark.parametrize("kind", WORKLOADS)
def test_defaults_of_workloads_are_those_that_are_filled_in(kind):
    assert_defaults(rows("workload.md", f'`kind = "{kind}"`'), resolved(workload=kind)["workload"])


@pytest.mark.parametrize("name", ["run", "fabric", "metrics"])
def test_defaults_of_other_tables_are_those_that_are_filled_in(name):
    assert_defaults(rows(f"{name}.md", f"`[{name}]`"), resolved()[name])


@pytest.mark.parametrize("name", [entry["name"] for entry in TRANSPORTS])
def test_every_transport_has_its_parameters_there(name):
    # This network has one path between any two hosts, which some transports need.
    assert_parameters(f"transport.{name}", resolved("dumbbell", transport=name)["transport"][name])


def page_of(table: str) -> str:
    return f"transports/{table.split('.')[1]}.md"


def described_at(table: str) -> tuple[str, dict[str, str]]:
    """Return the table whose keys the pages list for this one, and the defaults that differ: equal tables are listed once."""
    text = (FOLDER / page_of(table)).read_text(encoding="utf-8")
    section = text.partition(f"# `[{table}]`\n")[2].partition("\n## `[")[0]
    like = re.search(r"^This table has the same keys as \[?`\[([\w.]*)\]`(?:\]\((.*)\))?\.$", section, re.M)
    others = re.search(r"^Other defaults: (.*)\.$", section, re.M)
    if like and like[2]:
        assert (FOLDER / "transports" / like[2]).resolve() == (FOLDER / page_of(like[1])).resolve()
    return like[1] if like else table, dict(re.findall(r"`(\w+) = ([^`]*)`", others[1])) if others else {}


def assert_parameters(table: str, filled_in: dict[str, object]) -> None:
    table, others = described_at(table)
    documented = rows(page_of(table), f"`[{table}]`") | others
    inner = [key for key, default in documented.items() if default == "its defaults"]
    for key in inner:
        assert_parameters(f"{table}.{key}", filled_in[key])
    assert_defaults(*({k: v for k, v in keys.items() if k not in inner} for keys in (documented, filled_in)))


def assert_defaults(documented: dict[str, str], filled_in: dict[str, object]) -> None:
    for key, value in filled_in.items():
        if key != "kind" and documented[key] not in ("required", "none"):
            assert tomllib.loads(f"v = {documented[key].strip('`')}")["v"] == value, key
    for key in documented.keys() - filled_in.keys():
        assert documented[key] == "none", key


def test_the_command_in_their_head_writes_them_and_removes_those_of_transports_that_are_gone(tmp_path):
    page = FOLDER / "run.md"
    (command,) = re.findall(r"`python (-m [\w.]+)`", page.read_text(encoding="utf-8"))
    gone, foreign = tmp_path / "transports/gone.md", tmp_path / "notes.md"
    gone.parent.mkdir()
    gone.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    foreign.write_text("# Notes\n", encoding="utf-8")
    subprocess.run([sys.executable, *command.split(), tmp_path], check=True)
    assert (tmp_path / "run.md").read_bytes() == page.read_bytes()
    assert foreign.exists() and not gone.exists()
    assert subprocess.run([sys.executable, *command.split()], capture_output=True).returncode != 0
