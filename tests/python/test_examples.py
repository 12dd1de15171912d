"""Every scenario in examples/ runs and shows what its comments claim, and the commands in its comments are valid."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest

import flowloom
from flowloom import Scenario
from flowloom.cli.common import parse_value, split_list

EXAMPLES = Path(__file__).parents[2] / "examples"
SCENARIOS = sorted(path.name for path in EXAMPLES.glob("*.toml") if not path.name.endswith(".net.toml"))
SMALL = {
    "aggregation.toml": {},
    "coflows.toml": {"workload.coflows": 25},
    "fan_in.toml": {},
    "faults.toml": {"workload.flows": 300},
    "incast.toml": {"workload.requests": 2},
    "over_time.toml": {},
    "own_topology.toml": {"workload.flows": 400},
    "tournament.toml": {"workload.flows": 100},
    "trace.toml": {},
    "two_tenants.toml": {},
}


def run(name: str, **overrides):
    return flowloom.run(EXAMPLES / name, SMALL[name], **overrides)


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_runs(name):
    summary = run(name).summary
    assert summary["flows"] > 0
    if name != "two_tenants.toml":  # this scenario has a time limit
        assert summary["finished"] == summary["flows"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_its_commands_are_right(name):
    """Check that commands in comments name existing scenarios and valid keys. They are not run here."""
    text = (EXAMPLES / name).read_text().replace("\\\n#", "")
    commands = re.findall(r"^# +(flowloom .*)$", text, re.M)
    assert commands
    for command in commands:
        words = shlex.split(command)
        scenario = Scenario.of(EXAMPLES.parent / words[2])
        for option, value in itertools.pairwise(words):
            if option in ("--set", "--vary", "--over"):
                key, _, values = value.partition("=")
                for one in split_list(values) if option != "--set" else [values]:
                    scenario.set({key: parse_value(one)}).resolve()
            if option == "--transports" and value != "all":
                for one in value.split(","):
                    scenario.set({"transport.name": one}).resolve()


def test_incast_overflows_pfabrics_port_and_not_phosts():
    drops = {name: run("incast.toml", transport__name=name).summary["drops"]["rate"] for name in ("phost", "pfabric")}
    assert 0.25 < drops["pfabric"] < 0.45
    # Of the eight packets that each of 40 hosts sends without a token, the port holds 24. A flow of 250 kB has 172 packets.
    assert 0 < drops["phost"] < (40 * 8 - 24) / (40 * 172)
    assert run("incast.toml", transport__phost__free_tokens=0).summary["drops"]["total"] == 0


def test_pdq_finishes_the_flows_of_the_aggregation_one_by_one():
    means = {name: run("aggregation.toml", transport__name=name).summary["fct_us"]["mean"] for name in ("pdq", "dctcp")}
    assert means["pdq"] < 0.8 * means["dctcp"]


def test_large_flows_of_small_coflows_do_not_wait_for_small_flows_of_large_ones():
    results = {name: run("coflows.toml", transport__phost__policy=name).summary for name in ("smallest_coflow", "srpt")}
    slowdown = {name: each["requests"]["by_class"]["long_narrow"]["slowdown"]["mean"] for name, each in results.items()}
    assert slowdown["smallest_coflow"] < 3
    assert slowdown["srpt"] > 5 * slowdown["smallest_coflow"]
    assert [each["coflow_workloads"][0]["size_divisor"] for each in results.values()] == [2000, 2000]


def test_only_the_fair_policy_serves_both_tenants():
    fair = {"transport__phost__policy": "tenant_fair", "transport__phost__data_priorities": False}
    goodput = {
        name: [run("two_tenants.toml", **changes).summary["tenants"][tenant]["goodput_gbps"] for tenant in ("0", "1")]
        for name, changes in (("srpt", {}), ("fair", fair))
    }
    assert goodput["srpt"][0] > 20 * goodput["srpt"][1]
    # Each receiver has flows of both tenants, and serves the one with fewer bytes, so both get the same except for packets in
    # flight.
    assert 0.95 < goodput["fair"][1] / goodput["fair"][0] < 1.05
    assert sum(goodput["fair"]) > 0.97 * sum(goodput["srpt"])


def test_spraying_fills_the_slow_uplink_of_the_own_topology():
    uplinks = run("own_topology.toml").summary["utilisation"]["leaf-spine"]
    # The fast uplinks carry as many bytes as the slow ones, at four times the rate.
    assert uplinks["max"] > 2 * uplinks["mean"]


def test_reservations_and_shares_by_deadline_meet_more_of_them_than_equal_shares():
    late = {name: 1 - run("fan_in.toml", transport__name=name).summary["deadlines_met"] for name in ("dctcp", "d2tcp", "d3")}
    assert late["dctcp"] > 0.15
    assert late["d2tcp"] < 0.7 * late["dctcp"]
    assert late["d3"] < 0.2 * late["d2tcp"]
    short = {
        "workload__senders": 20,
        "workload__bytes": "400kB",
        "workload__load": 0.5,
        "workload__deadline__min": "0.4ms",
        "workload__deadline__max": "1.2ms",
    }
    late = {name: 1 - run("fan_in.toml", transport__name=name, **short).summary["deadlines_met"] for name in ("d2tcp", "d3")}
    assert late["d2tcp"] < 0.9 * late["d3"]


def test_the_trace_is_taken_as_it_is():
    results = run("trace.toml")
    lines = [line for line in (EXAMPLES / "trace.csv").read_text().splitlines() if line[0].isdigit()]
    assert results.flows["bytes"].to_pylist() == [int(line.split(",")[3]) for line in lines]
    assert results.summary["deadlines_met"] == 1.0
    assert results.summary["requests"]["finished"] == 1


def test_faults_strike_and_nothing_is_left_behind():
    drops = run("faults.toml").summary["drops"]["by_reason"]
    assert drops["lost"] > 0
    assert drops["link_down"] > 0


def test_flows_over_time_share_under_dctcp_and_take_turns_under_phost():
    def alone(transport):
        """Return in which share of the time with three open flows one of them gets nine tenths of the link."""
        flows = run("over_time.toml", transport__name=transport).series["flows"].to_pydict()
        amounts = {}
        for time, flow, rate, span in zip(*(flows[name] for name in ("time", "flow", "goodput_gbps", "span")), strict=True):
            at = amounts.setdefault(int(time * 1e4), {})
            at[flow] = at.get(flow, 0) + rate * span
        shared = [list(at.values()) for at in amounts.values() if len(at) == 3]
        return sum(max(at) > 0.9 * sum(at) for at in shared) / len(shared)

    assert alone("dctcp") < 0.2
    assert alone("phost") > 0.8
