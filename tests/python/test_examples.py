"""Every scenario in examples/ runs and shows what its comments claim, and the commands in its comments are valid."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import flowloom
from flowloom import Scenario
from flowloom.cli.common import parse_value, split_list

EXAMPLES = Path(__file__).parents[2] / "examples"
SCENARIOS = sorted(path.name for path in EXAMPLES.glob("*.toml") if not path.name.endswith(".net.toml"))
SMALL = {
    "all_reduce.toml": {},
    "aggregation.toml": {},
    "coflows.toml": {"workload.coflows": 25},
    "fan_in.toml": {},
    "faults.toml": {"workload.flows": 300},
    "incast.toml": {"workload.requests": 2},
    "over_time.toml": {},
    "short_flows.toml": {},
    "slow_flow.toml": {},
    "three_flows.toml": {},
    "own_topology.toml": {"workload.flows": 400},
    "rails.toml": {},
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
                    scenario.set({key: parse_value(one)}).plan()
            if option == "--transports" and value != "all":
                for one in value.split(","):
                    scenario.set({"transport.name": one}).plan()


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


def test_random_traffic_delays_a_job_by_more_than_its_share():
    """A rank sends 30 times a 16th of 16 MB over 10 Gb/s, with headers of 40 B per 1460 B: 24.7 ms."""
    alone, beside = (run("all_reduce.toml", **change).summary["jobs"]["0"] for change in ({"workload__part__1__flows": 1}, {}))
    assert 24_660 < alone["time_us"]["mean"] < 1.07 * 24_660
    assert beside["time_us"]["mean"] > 1.5 * alone["time_us"]["mean"] and beside["finished"] == 3


def test_recursive_doubling_stays_in_servers_and_on_rails():
    """Twice 8 MB over 400 Gb/s and twice over 100 Gb/s, with headers of 40 B per 1460 B."""
    doubling = run("rails.toml")
    wire_bits = 8 * (8_000_000 + 40 * 5480)
    alone_us = 2 * wire_bits * (1 / 400e3 + 1 / 100e3)
    assert alone_us < doubling.summary["jobs"]["0"]["time_us"]["mean"] < 1.05 * alone_us
    assert doubling.summary["utilisation"]["leaf-spine"]["max"] == 0
    flows = doubling.flows
    servers = [flows[end].to_numpy() // 4 for end in ("src", "dst")]
    inside = servers[0] == servers[1]
    assert inside.sum() == len(flows) / 2
    assert all((flows[nic].to_numpy() == np.where(inside, 2, 1)).all() for nic in ("src_nic", "dst_nic"))
    assert run("rails.toml", workload__algorithm="ring").summary["utilisation"]["leaf-spine"]["max"] > 0


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


def mean_of(table, name, begin, end, flow=None):
    """Return the mean over time of a column of samples."""
    chosen = (table["time"] > begin) & (table["time"] <= end)
    if flow is not None:
        chosen &= table["flow"] == flow
    return np.average(table[name][chosen], weights=table["span"][chosen])


def test_three_flows_do_what_teaching_computes_by_hand():
    # docs/teaching.md has the same numbers.
    packet, link, payload = 1500, 1e9 / 8, 1460 / 1500
    round_trip = 6 * 15e-6 + (1500 + 40) * (1 / link + 2 / (10 * link))
    on_the_way = link * round_trip / packet
    assert on_the_way == pytest.approx(8.7, abs=0.05)
    runs = {name: run("three_flows.toml", transport__name=name) for name in ("tcp", "dctcp")}
    series = {
        name: {each: {c: t[c].to_numpy() for c in t.column_names if c != "link"} for each, t in found.series.items()}
        for name, found in runs.items()
    }
    for name, found in runs.items():
        # The link is busy until the end.
        assert max(found.flows["finish"].to_numpy()) == pytest.approx(12e6 / (link * payload), rel=0.003)
        flows = series[name]["flows"]
        assert mean_of(flows, "goodput_gbps", 0.005, 0.02) == pytest.approx(payload, rel=0.001)
        shares = [mean_of(flows, "goodput_gbps", 0.05, 0.08, flow) for flow in range(3)]
        assert sum(shares) == pytest.approx(payload, rel=0.01)
        assert max(shares) < 1.3 * payload / 3
    # TCP loses a packet when its window fills the memory, too. The window grows for another round trip before it is cut.
    flows, queues = series["tcp"]["flows"], series["tcp"]["queues"]
    tooth = (flows["time"] > 0.0045) & (flows["time"] < 0.019)
    assert flows["window_bytes"][tooth].max() / 1460 == pytest.approx(on_the_way + 40, abs=2)
    assert queues["packets"].max() == 40
    cuts = flows["time"][1:][np.diff(flows["window_bytes"]) < -20_000]
    first, second = cuts[(cuts > 0.002) & (cuts < 0.02)]
    assert second - first == pytest.approx(sum(range(25, 50)) * packet / link, rel=0.1)
    # DCTCP keeps the queue at its threshold of 10 packets.
    flows, queues = series["dctcp"]["flows"], series["dctcp"]["queues"]
    assert mean_of(queues, "mean_packets", 0.005, 0.08) == pytest.approx(10, abs=1)
    assert mean_of(flows, "window_bytes", 0.005, 0.02) / 1460 == pytest.approx(on_the_way + 10, abs=1)
    assert mean_of(flows, "rtt_us", 0.005, 0.02) == pytest.approx(1e6 * round_trip + 10 * 12, rel=0.1)
    assert mean_of(flows, "goodput_gbps", 0.029, 0.031, 0) > 2 * mean_of(flows, "goodput_gbps", 0.029, 0.031, 1)
    # Without memory for half a window, and with a threshold too low, the link is idle at times.
    small = run("three_flows.toml", transport__name="tcp", fabric__buffer="6kB")
    low = run("three_flows.toml", transport__dctcp__port__mark_above="1500B")
    assert [round(1e3 * max(each.flows["finish"].to_numpy()), 1) for each in (small, low)] == [106.5, 104.4]
    # With the least first, no flow is later than under fair sharing. PASE comes close.
    finish = run("three_flows.toml", transport__name="pase").flows["finish"].to_numpy()
    assert finish == pytest.approx([6e6 / (link * payload), 12e6 / (link * payload), 8e6 / (link * payload)], rel=0.01)


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
