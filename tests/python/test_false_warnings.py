"""Sane scenarios print no warning, and scenarios that cannot work as meant print one that names the key to change."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import flowloom
from test_cli import call
from test_warnings import row

ROOT = Path(__file__).parents[2]

RACKS = """\
[topology]
kind = "leaf_spine"
racks = 2
hosts_per_rack = 4
spines = 2

[fabric]
routing = "ecmp_symmetric"
buffer = "360kB"

[workload]
kind = "poisson"
sizes = "imc10"
load = 0.4
flows = 60

[transport]
name = "phost"
"""

SANE = {
    "aggregation": ("examples/aggregation.toml", []),
    "coflows": ("examples/coflows.toml", ["workload.coflows=10"]),
    "faults": ("examples/faults.toml", ["workload.flows=1000"]),
    "incast": ("examples/incast.toml", ["workload.requests=2"]),
    "fan-in": ("examples/fan_in.toml", ["workload.requests=10"]),
    "over time": ("examples/over_time.toml", []),
    "own topology": ("examples/own_topology.toml", ["workload.flows=400"]),
    "slow flow": ("examples/slow_flow.toml", []),
    "three flows": ("examples/three_flows.toml", []),
    "tournament": ("examples/tournament.toml", ["workload.flows=200"]),
    "trace": ("examples/trace.toml", []),
    "pHost's default": ("papers/phost/default.toml", ["workload.flows=200"]),
    "PIAS's default": ("papers/pias/default.toml", ["workload.flows=200"]),
    "PASE's default": ("papers/pase/default.toml", ["workload.flows=200"]),
    "TOP's default": ("papers/top/default.toml", ["workload.flows=200"]),
    "a permutation at 0": (None, ["workload={ kind = 'permutation', sizes = { fixed = '1MB' } }"]),
    "a heavy tail at load 0.6": (None, ["workload.sizes=web_search", "workload.load=0.6", "workload.flows=300"]),
    "PDQ": (None, ["transport.name=pdq"]),
    "a link that is never there": (
        None,
        ["fault=[{ kind = 'link_down', where = 'l0-s0', from = '0s', to = '1000s', reroute_after = '0s' }]"],
    ),
    "a slower link": (None, ["fault=[{ kind = 'link_rate', where = 'l0-s0', rate = '30Gb/s', from = '0s', to = '1s' }]"]),
    "HPCC": (None, ["transport.name=hpcc"]),
    "DCQCN": (None, ["transport.name=dcqcn", "fabric.pfc={}"]),
    "DCTCP": (None, ["transport.name=dctcp", "workload.sizes=web_search", "transport.dctcp.port.mark_above=15kB"]),
}

SENSELESS = {
    "a dead link": (["fault=[{ kind = 'link_down', where = 'l0-s0', from = '0s', to = '100ms' }]"], "dead link", "fault.0.to"),
    "pHost by deadline": (["transport.phost.policy=edf"], "unfit policy", "transport.phost.policy"),
    "pHost by tenant": (["transport.phost.policy=tenant_fair"], "unfit policy", "transport.phost.policy"),
    "pHost by coflow": (["transport.phost.policy=smallest_coflow"], "unfit policy", "transport.phost.policy"),
    "PASE by deadline": (
        ["transport.name=pase", "transport.pase.criterion=deadline"],
        "unfit criterion",
        "transport.pase.criterion",
    ),
    "TOP by coflow": (["transport.name=top", "transport.top.priority=coflow"], "unfit priority", "transport.top.priority"),
    "pFabric by deadline": (
        ["transport.name=pfabric", "transport.pfabric.priority=deadline"],
        "unfit priority",
        "transport.pfabric.priority",
    ),
    "D2TCP without deadlines": (
        ["transport.name=d2tcp", "transport.d2tcp.port.mark_above=4500B"],
        "unfit transport",
        "transport.name",
    ),
    "D3 without deadlines": (["transport.name=d3"], "unfit transport", "transport.name"),
    "marks that cannot come": (
        ["transport.name=dctcp", "transport.dctcp.port.mark_above=400kB"],
        "no marks",
        "fabric.buffer",
    ),
    "a first window beyond the port": (
        ["transport.name=tcp", "transport.tcp.initial_window=239", "fabric.buffer=300kB"],
        "unfit initial_window",
        "transport.tcp.initial_window",
    ),
    "a timeout below a round trip": (
        ["transport.name=homa", "transport.homa.resend_timeout=2us"],
        "unfit resend_timeout",
        "transport.homa.resend_timeout",
    ),
    "HPCC with ports below a bandwidth-delay product": (
        ["transport.name=hpcc", "topology.delay=50us", "fabric.buffer=400kB"],
        "unfit buffer",
        "fabric.buffer",
    ),
}


def settings(pairs: list[str]) -> list[str]:
    return [word for pair in pairs for word in ("--set", pair)]


def warned(text: str) -> list[str]:
    return re.findall(r"^ *warning: (.*)$", text, re.M)


@pytest.fixture
def racks(tmp_path):
    path = tmp_path / "racks.toml"
    path.write_text(RACKS)
    return path


@pytest.mark.parametrize("name", SANE)
def test_a_sane_scenario_prints_no_warning(name, racks):
    file, changes = SANE[name]
    made = call("run", ROOT / file if file else racks, *settings(changes), "--json")
    assert json.loads(made.stdout)["warnings"] == [] and warned(made.stderr) == []


@pytest.mark.parametrize("name", SENSELESS)
def test_a_senseless_scenario_prints_one_warning_that_names_the_key(name, racks, tmp_path):
    changes, flag, key = SENSELESS[name]
    transport = next((c.partition("=")[2] for c in changes if c.startswith("transport.name=")), "phost")
    set_, seeds = settings(changes), ("--seeds", 2, "--jobs", 1)
    told = {
        "run": call("run", racks, *set_),
        "compare": call("compare", racks, "--transports", transport, *seeds, *set_, "--out", tmp_path / "c"),
        "sweep": call("sweep", racks, "--vary", "workload.load=0.4", *seeds, *set_, "--out", tmp_path / "s"),
    }
    for command, made in told.items():
        for text in (made.stderr, made.stdout):
            (found,) = warned(text)
            assert found.startswith(flag) and key in found, (command, text)
    for command in ("compare", "sweep"):
        # Each run is planned where it runs, so the first one that ends tells.
        before = re.split(r"^2 runs done", told[command].stderr, flags=re.M)[0]
        assert len(warned(before)) == 1, command
    assert row(told["compare"].stdout, "Warnings") == ["Warnings", flag]
    assert re.search(rf"^0\.4 .* {flag}$", told["sweep"].stdout, re.M)
    (found,) = json.loads(call("run", racks, *set_, "--json").stdout)["warnings"]
    assert found["flag"] == flag and key in found["text"]


def test_a_scenario_is_sane_again_without_its_key(racks):
    """The warnings above come from the changed keys alone."""
    assert flowloom.run(racks).warnings == []
