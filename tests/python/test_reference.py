"""docs/scenario.md agrees with the simulator's schema and with resolved scenarios."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flowloom import Scenario, _native, reference

PAGE = Path(__file__).parents[2] / "docs" / "scenario.md"
WORKLOADS = {
    "poisson": 'sizes = "imc10"\nload = 0.5\nflows = 10',
    "incast": 'senders = 2\nbytes = "10kB"\nrequests = 3\nperiod = "1ms"',
    "permutation": 'sizes = "imc10"',
    "burst": 'sizes = "imc10"\nflows = 10',
    "coflow_synthetic": "coflows = 5\nload = 0.5",
    "closed_loop": 'from = [1, "h2"]\nto = 0\nsizes = "imc10"\nrequests = 3\nthink = "10us"',
}


def rows(*heads: str) -> dict[str, str]:
    """Return the keys and defaults of the table below these headings of the committed page."""
    text = PAGE.read_text()
    for head in heads:
        text = text[text.index(head) + len(head) :]
    cells = [line.split("|")[1:4] for line in re.split(r"\n\|", text, maxsplit=1)[1].split("\n\n")[0].splitlines()]
    table = {
        key.strip(" `"): default.strip() for key, _, default in ([c.strip("|") for c in row] for row in cells) if "`" in key
    }
    assert table
    return table


def resolved(topology: str = "fat_tree", workload: str = "poisson", transport: str = "phost"):
    text = f'[topology]\nkind = "{topology}"\n[workload]\nkind = "{workload}"\n{WORKLOADS[workload]}\n'
    return tomllib.loads(Scenario.of(f'{text}[transport]\nname = "{transport}"\n').resolve())


def test_the_page_is_what_the_schema_says():
    written = reference.document(json.loads(_native.schema()))
    assert PAGE.read_text(encoding="utf-8") == written, "docs/scenario.md is stale: run `make docs`"


@pytest.mark.parametrize("kind", ["single_switch", "dumbbell", "leaf_spine", "three_tier", "fat_tree"])
def test_defaults_of_topologies_are_those_that_are_filled_in(kind):
    assert_defaults(rows("## `[topology]`", f'### `kind = "{kind}"`'), resolved(topology=kind)["topology"])


@pytest.mark.parametrize("kind", WORKLOADS)
def test_defaults_of_workloads_are_those_that_are_filled_in(kind):
    assert_defaults(rows("## `[workload]`", f'### `kind = "{kind}"`'), resolved(workload=kind)["workload"])


@pytest.mark.parametrize("name", ["run", "fabric", "metrics"])
def test_defaults_of_other_tables_are_those_that_are_filled_in(name):
    assert_defaults(rows(f"## `[{name}]`"), resolved()[name])


@pytest.mark.parametrize("name", [entry["name"] for entry in json.loads(_native.catalogue())["transports"]])
def test_every_transport_has_its_parameters_there(name):
    # This network has one path between any two hosts, which some transports need.
    assert_parameters(f"transport.{name}", resolved("dumbbell", transport=name)["transport"][name])


def described_at(table: str) -> tuple[str, dict[str, str]]:
    """Return the table whose keys the page lists for this one, and the defaults that differ: equal tables are listed once."""
    section = PAGE.read_text().partition(f"## `[{table}]`")[2].partition("\n## ")[0]
    like = re.search(r"^This table has the same keys as `\[(.*)\]`\.$", section, re.M)
    others = re.search(r"^Other defaults: (.*)\.$", section, re.M)
    return like[1] if like else table, dict(re.findall(r"`(\w+) = ([^`]*)`", others[1])) if others else {}


def assert_parameters(table: str, filled_in: dict[str, object]) -> None:
    table, others = described_at(table)
    documented = rows(f"## `[{table}]`") | others
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


def test_it_is_written_by_the_command_in_its_head(tmp_path):
    page = tmp_path / "page.md"
    subprocess.run([sys.executable, "-m", "flowloom.reference", page], check=True)
    assert page.read_text(encoding="utf-8").startswith("# Scenario reference")
    assert subprocess.run([sys.executable, "-m", "flowloom.reference"], capture_output=True).returncode != 0
