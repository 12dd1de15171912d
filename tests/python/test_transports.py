"""Each of the newer transports through the Python API and the command line, on one small fabric."""

from __future__ import annotations

import math
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

import flowloom
from flowloom import ScenarioError
from flowloom.cli import app
from flowloom.engine import catalogue

FABRIC = """\
[topology]
kind = "leaf_spine"
racks = 2
hosts_per_rack = 3
spines = 2
delay = "1us"

[fabric]
wire = "ethernet_1538"
routing = "ecmp_symmetric"

[workload]
kind = "poisson"
sizes = { bimodal = ["4380B", "146kB"], first_share = 0.5 }
load = 0.4
flows = 60

[transport]
name = "phost"
"""

# A value out of range for one parameter of each.
NEWER = {
    "pase": ("rto_top", "'0s'"),
    "pdq": ("early_start_rtts", "-1"),
    "d3": ("queue_gain", "-1"),
    "ndp": ("initial_window", "0"),
    "expresspass": ("alpha", "1.5"),
    "homa": ("overcommitment", "-1"),
    "hpcc": ("eta", "1.5"),
    "dcqcn": ("gain", "0"),
}


def numbers(value):
    """Yield all numbers of a summary."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, float | int):
        yield value


@pytest.mark.parametrize("name", NEWER)
def test_a_transport_runs_and_its_result_loads(name, tmp_path):
    made = flowloom.run(FABRIC, {"transport.name": name}, out=tmp_path / name)
    read = flowloom.load(tmp_path / name)
    assert read.summary == made.summary
    assert (read.summary["transport"], read.summary["flows"], read.summary["finished"]) == (name, 60, 60)
    assert all(map(math.isfinite, numbers(read.summary)))
    flows = read.flows.to_pydict()
    # Every byte arrives, and none faster than alone in the network.
    assert sum(flows["bytes"]) == 60 * 4380 + flows["bytes"].count(146_000) * (146_000 - 4380)
    assert min(flows["slowdown"]) >= 1 - 1e-9


def test_all_run_on_the_same_flows():
    with ThreadPoolExecutor(1) as executor:
        made = flowloom.compare(FABRIC, list(NEWER), executor=executor)
    assert list(made) == list(NEWER)
    starts = [made[name].flows.column("start") for name in NEWER]
    assert all(start.equals(starts[0]) for start in starts)
    # They are different transports: no two have the same mean completion time.
    assert len({made[name].summary["fct_us"]["mean"] for name in NEWER}) == len(NEWER)


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("name", NEWER)
def test_show_prints_every_parameter_with_its_default(name):
    shown = call("show", name).stdout.splitlines()
    (entry,) = (entry for entry in catalogue()["transports"] if entry["name"] == name)
    keys = [line.split(" = ")[0] for line in shown if line[:1].isalpha() and " = " in line]
    assert keys == list(entry["defaults"])
    # What it prints is TOML that gives the defaults, but for those that follow from the scenario.
    table = "\n".join(line for line in shown[1:] if not line.startswith(" ") and not line.endswith("(none)"))
    parameters = tomllib.loads(table)["transport"][name]
    assert parameters == {key: value for key, value in entry["defaults"].items() if value is not None}


@pytest.mark.parametrize(("name", "key", "value"), [(name, *wrong) for name, wrong in NEWER.items()])
def test_a_wrong_parameter_is_named(name, key, value, tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(FABRIC)
    told = call("run", path, "--set", f"transport.name={name}", "--set", f"transport.{name}.{key}={value}")
    assert told.exit_code == 2
    assert f"transport.{name}.{key}: " in told.stderr
    with pytest.raises(ScenarioError, match=rf"transport\.{name}\.{key}x: unknown key"):
        flowloom.run(FABRIC, {f"transport.{name}.{key}x": 1})


def test_show_prints_what_follows_from_the_workload(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(FABRIC.replace("phost", "top"))
    shown = call("show", path).stdout
    # There are two sizes, and the smaller one has a priority of its own.
    assert '\n#   transport.top.cutoffs = ["4.38kB"]: it follows from the network and the workload\n' in shown
    assert tomllib.loads(shown)["transport"]["top"]["cutoffs"] == []
    path.write_text(path.read_text() + "[transport.top]\ncutoffs = ['20kB']\n")
    assert "cutoffs = ['20kB']" in path.read_text() and "#   transport" not in call("show", path).stdout


def test_show_prints_what_a_scenario_leaves_open(scenario):
    shown = call("show", scenario, "--set", "transport.name=dctcp").stdout
    assert '#   fabric.buffer = "360kB": dctcp needs it for 240 packets, as in the PIAS paper\n' in shown
    assert '#   transport.dctcp.port.mark_above = "97.5kB": ' in shown
    filled = tomllib.loads(shown)
    assert filled["fabric"]["buffer"] == "360kB" and filled["transport"]["dctcp"]["port"]["mark_above"] == "97.5kB"
    given = call("show", scenario, "--set", "fabric.buffer=50kB", "--set", "fabric.routing=ecmp").stdout
    assert "leaves open" not in given
    refused = call("show", "dctcp", "--set", "fabric.buffer=50kB")
    assert refused.exit_code == 2 and "dctcp is none; leave --set out" in refused.stderr


def test_show_prints_how_long_queues_of_data_can_become_under_credits(tmp_path):
    path = tmp_path / "scenario.toml"
    one_switch = "kind = 'single_switch'\nhosts = 3\ndelay = '1us'\n"
    text = FABRIC.replace(FABRIC[FABRIC.index("kind") : FABRIC.index("\n[fabric]")], one_switch)
    path.write_text(text.replace("[workload]", "switching = 'store_and_forward'\n\n[workload]"))
    assert "can queue" not in call("show", path).stdout
    path.write_text(path.read_text().replace("phost", "expresspass") + "[transport.expresspass]\ncredit_spread = '0B'\n")
    shown = call("show", path).stdout
    # By hand, in crates/transports/src/disciplines/data_queues.rs: 4866 B, and 19,478 × 1538 / 1622 more.
    assert "\n#   host-switch  4.866 kB\n#   switch-host  23.34 kB\n" in shown and "random sizes" not in shown
    assert tomllib.loads(shown)["transport"]["name"] == "expresspass"
    path.write_text(path.read_text().replace("'0B'", "'8B'"))
    assert "# Credits of random sizes add 718 B times the square root" in call("show", path).stdout


def test_doctor_names_the_node_that_pauses_its_neighbours_without_need(tmp_path):
    fault = {"kind": "pause_storm", "node": "h3", "from": "100us", "to": "2ms", "every": "100us"}
    changes = {"transport.name": "dctcp", "fabric.pfc": {}, "fault": [fault], "workload.flows": 200}
    flowloom.run(FABRIC, changes, out=tmp_path / "storm")
    found = call("doctor", tmp_path / "storm")
    assert found.exit_code == 1
    told = "problem h3 sent 20 pause frames although it was not out of memory, as a broken NIC does: l1-h3 was paused for "
    assert told in found.stdout
