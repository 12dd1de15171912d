"""Results of flows on real hosts: records worked out by hand, and a run of four processes over the loopback interface."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import flowloom
from flowloom import RunError, ScenarioError, diagnosis, explanations, metrics, tables
from flowloom.scenario import Scenario
from flowloom.testbed import results
from namespaces import skip

ROOT = Path(__file__).parents[2]
WAIT_S = 120
"""After this, a run that hangs is ended. It measures no speed."""

HEADER = "start_s,src,dst,bytes,deadline_s,tenant,coflow\n"
TRACE = f"""{HEADER}0,0,1,1460,0.0001,0,
0.00001,0,2,1460,0.0001,0,5
0.00002,1,2,14600,,1,5
0.00003,2,0,1000000,0.1,0,
"""
"""At 1 Gb/s and 10 us a link, 1500 B take 12 us at each of two links: alone, 1460 B take 44 us, and 14,600 B take 152 us."""


def scenario(folder: Path, trace: str = TRACE, *, hosts: int = 3, transport: str = "phost", rate: str = "1Gb/s") -> Scenario:
    (folder / "flows.csv").write_text(trace)
    file = folder / "star.toml"
    file.write_text(
        f'topology = {{ kind = "single_switch", hosts = {hosts}, host_rate = "{rate}", delay = "10us" }}\n'
        'fabric = { switching = "store_and_forward", buffer = "1MB" }\n'
        f'workload = {{ kind = "trace", file = "flows.csv" }}\n[transport]\nname = "{transport}"\n'
        '[metrics]\nfct_end = "receiver"\nsize_bins = ["0B", "10kB"]\n'
    )
    return Scenario.of(file)


def at_sender(flow: int, source: int, event: str, **more: object) -> list[dict]:
    counts = {"packets": 10, "retransmissions": 0, "timeouts": 0, "second_timeouts": 0, "started_ns": 0}
    mine = {"flow": flow, "id": (source << 20) + flow, "from": f"h{source}"}
    return [mine | {"event": "planned"}, mine | counts | {"event": event} | more]


def at_receiver(flow: int, source: int, event: str, **more: object) -> dict:
    return {"event": event, "id": (source << 20) + flow, "from": f"h{source}"} | more


ENDED = [
    *at_sender(0, 0, "acknowledged", at_ns=100_000),
    at_receiver(0, 0, "received", at_ns=88_000, bytes=1460),
    *at_sender(1, 0, "acknowledged", at_ns=300_000, retransmissions=3, timeouts=2, second_timeouts=1),
    at_receiver(1, 0, "received", at_ns=230_000, bytes=1460),
    *at_sender(2, 1, "acknowledged", at_ns=400_000),
    at_receiver(2, 1, "received", at_ns=324_000, bytes=14_600),
    *at_sender(3, 2, "open", retransmissions=7),
    at_receiver(3, 2, "unfinished", bytes=400_000),
]
"""One flow of twice its optimum, one of five times, which misses its deadline, one of twice, and one that does not finish."""


def measured(folder: Path, records: list[dict] = ENDED, **more: object):
    return results.result(scenario(folder), records, wall_s=3.0, hosts={"kernel": "none"}, **more)


def test_the_planned_flows_are_those_of_a_simulation(tmp_path):
    planned = results.planned(scenario(tmp_path))
    assert planned[1] == {
        "flow": 1, "from": 0, "to": 2, "bytes": 1460, "start_ns": 10_000, "deadline_ns": 100_000, "tenant": 0,
        "coflow": {"number": 5, "bytes": 16_060, "start_ns": 10_000}, "background": False,
    }  # fmt: skip
    simulated = flowloom.run(scenario(tmp_path)).flows.to_pylist()
    keys = ("flow", "from", "to", "bytes", "tenant")
    columns = ("id", "src", "dst", "bytes", "tenant")
    assert [[flow[key] for key in keys] for flow in planned] == [[flow[name] for name in columns] for flow in simulated]
    assert [flow["start_ns"] for flow in planned] == [round(flow["start"] * 1e9) for flow in simulated]
    lines = [[json.loads(line) for line in text.splitlines()] for text in results.lists(planned, ["a", "b", "c"])]
    assert [[line["flow"] for line in lines_of_host] for lines_of_host in lines] == [[0, 1], [2], [3]]
    times = {"start_ns": 30_000, "deadline_ns": 100_000_000}
    assert lines[2] == [{"flow": 3, "to": "a", "bytes": 1_000_000, "tenant": 0, "background": False} | times]
    with pytest.raises(ScenarioError, match=r"workload\.kind.*wait for others"):
        requests = {"kind": "closed_loop", "from": [0], "to": 1, "sizes": {"fixed": "1kB"}, "requests": 3, "think": "1us"}
        results.planned(scenario(tmp_path).set({"workload": requests}))


def test_measured_ends_are_judged_as_simulated_ones(tmp_path):
    found = measured(tmp_path, end_ns=1_000_000)
    flows = found.flows.to_pylist()
    assert [flow["optimum"] for flow in flows[:3]] == pytest.approx([44e-6, 44e-6, 152e-6])
    assert [flow["slowdown"] for flow in flows] == [pytest.approx(2), pytest.approx(5), pytest.approx(2), None]
    assert [flow["retransmissions"] for flow in flows] == [0, 3, 0, 7]
    s = found.summary
    assert (s["flows"], s["finished"], s["aborted"], s["not_started"], s["retransmissions"]) == (4, 3, 0, 0, 10)
    assert (s["timeouts"], s["second_timeouts"], s["data_packets"]) == (2, 1, 40)
    assert s["slowdown"]["mean"] == pytest.approx(3)
    assert [entry["finished"] for entry in s["slowdown"]["by_size"]] == [2, 1]
    # Of three deadlines, the one of flow 0 was met.
    assert s["deadlines_met"] == pytest.approx(1 / 3)
    # 1460 + 1460 + 14,600 + 400,000 B in 1 ms, by three hosts.
    assert s["goodput_gbps"] == pytest.approx(417_520 * 8 / 1e6 / 3)
    assert s["sim_s"] == pytest.approx(1e-3)
    # The coflow begins at 10 us, and its last flow ends at 324 us.
    assert (s["requests"]["finished"], s["requests"]["completion_us"]["mean"]) == (1, pytest.approx(314))


def test_the_sender_s_end_counts_if_the_scenario_says_so(tmp_path):
    by_sender = scenario(tmp_path).set({"metrics.fct_end": "sender"})
    found = results.result(by_sender, ENDED, wall_s=1.0, hosts={})
    assert found.flows.to_pylist()[1]["finish"] == pytest.approx(300e-6)


def test_aborted_flows_say_why(tmp_path):
    aborted = [
        *ENDED[:3],
        *at_sender(1, 0, "aborted", at_ns=90_000, cause="deadline", why="it is late"),
        at_receiver(1, 0, "unfinished", bytes=0),
        *at_sender(2, 1, "aborted", at_ns=50_000, cause="silent", why="the other node does not answer"),
        *at_sender(3, 2, "aborted", at_ns=50_000, cause="restarted", why="the other node was restarted"),
        at_receiver(3, 2, "received", at_ns=40_000, bytes=1_000_000),
    ]
    found = measured(tmp_path, aborted)
    assert found.flows["aborted"].to_pylist() == [None, "deadline", "node_down", "node_down"]
    assert found.flows["finish"].null_count == 3
    assert (found.summary["finished"], found.summary["aborted"]) == (1, 3)


def test_what_only_a_simulator_sees_is_unknown(tmp_path):
    found = measured(tmp_path)
    s = found.summary
    assert (s["marks"], s["trims"], s["packet_hops"], s["queue_peak_bytes"]) == (None, None, None, None)
    assert (s["drops"]["total"], s["drops"]["rate"], s["queueing_us_mean"]) == (None, None, None)
    assert (s["queue"], s["utilisation"], s["sent_by_class"]) == ({}, {}, [])
    rows = dict(tables.of_run(found)[0].rows)
    unknown = ("drops.total", "drops.rate", "queueing_us_mean", "packet_hops")
    assert [rows[metrics.label(metric)] for metric in unknown] == ["-"] * 4
    assert any("was not counted" in line for line in explanations.paragraphs(found))
    # DCTCP's ports would mark; nobody knows whether they did.
    dctcp = results.result(scenario(tmp_path, transport="dctcp"), ENDED, wall_s=1.0, hosts={})
    assert diagnosis.NO_MARKS not in {finding.flag for finding in dctcp.warnings}
    assert diagnosis.of_result(dctcp)
    counted = results.result(scenario(tmp_path, transport="dctcp"), ENDED, wall_s=1.0, hosts={}, marks=17, drops=2)
    assert (counted.summary["marks"], counted.summary["drops"]["total"]) == (17, 2)
    # Where and why they were dropped, nobody knows.
    (unfinished,) = [finding.text for finding in counted.warnings if finding.flag == "unfinished"]
    assert unfinished.endswith("; 2 packets were dropped")
    assert "2 packets were lost. 10 packets were retransmitted." in explanations.paragraphs(counted)
    # And if none was marked, nobody knows how long queues were.
    unmarked = results.result(scenario(tmp_path, transport="dctcp"), ENDED, wall_s=1.0, hosts={}, marks=0)
    (none,) = [finding.text for finding in unmarked.warnings if finding.flag == diagnosis.NO_MARKS]
    assert "no packet was marked: switches mark above" in none and "longest queue" not in none


def test_a_result_is_saved_like_a_simulated_one(tmp_path):
    made = results.write(scenario(tmp_path), ENDED, tmp_path / "out", wall_s=3.0, hosts={"kernel": "6.1"}, csv=True)
    simulated = flowloom.run(scenario(tmp_path))
    loaded = flowloom.load(tmp_path / "out", whole=True)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"flows.parquet", "flows.csv", "summary.json", "scenario.toml", "provenance.json"} <= names
    assert loaded.flows.schema.equals(simulated.flows.schema)
    assert loaded.scenario == simulated.scenario
    assert loaded.summary.keys() == simulated.summary.keys()
    assert loaded.provenance["hosts"] == {"kernel": "6.1"}
    assert loaded.provenance["key"] != simulated.provenance["key"]
    assert loaded.flows.equals(made.flows)
    with pytest.raises(ScenarioError, match="cannot write"):
        simulated.save(tmp_path / "out")


OTHER = "the other node runs top"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda records: records[2:], "no sender has planned it"),
        (lambda records: records[:-3], "1 flows were not run, such as flow 3"),
        (lambda records: [*records, records[2]], 'two records "received"'),
        (
            lambda records: [r for r in records if r["event"] != "received" or r["id"] != 1],
            "flow 1 was acknowledged, but no receiver has it",
        ),
        (
            lambda records: [r | {"bytes": 1459} if r.get("bytes") == 1460 else r for r in records],
            "1459 B of flow 0 were received, which has 1460 B",
        ),
        (
            lambda records: [r | {"at_ns": 9_000} if r["id"] == 1 else r for r in records],
            "flow 1 ended 9000 ns after the common start",
        ),
        (lambda records: [r | {"flow": 9} if r.get("flow") == 3 else r for r in records], "the scenario has no flow 9"),
        (
            lambda records: [*records[:-3], *at_sender(3, 2, "aborted", at_ns=1, cause="differs", why=OTHER)],
            f"the run is no result: {OTHER}",
        ),
    ],
)  # fmt: skip
def test_records_of_another_run_are_refused(tmp_path, change, message):
    with pytest.raises(RunError, match=message):
        measured(tmp_path, change(ENDED))


def test_a_bad_line_is_named(tmp_path):
    file = tmp_path / "h0.jsonl"
    file.write_text('{"event": "planned", "flow": 0, "id": 5, "from": "h0"}\n{"event": "recei')
    assert results.read([file]) == [{"event": "planned", "flow": 0, "id": 5, "from": "h0"}]
    lost = ('{"id": 1, "event": "lost"}', '"event" is .*must be one of')
    for line, message in (("17", "17 is no record"), ("{", "{ is no record"), lost):
        file.write_text(f'{{"event": "planned", "flow": 0, "id": 5}}\n{line}\n')
        with pytest.raises(RunError, match=rf"h0\.jsonl:2: {message}"):
            results.read([file])
    with pytest.raises(RunError, match="cannot read the records"):
        results.read([tmp_path / "missing"])


@pytest.fixture
def node(monkeypatch) -> str:
    """Return the `flowloom-node` that `cargo test` has built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folders = [str(target / profile) for profile in ("debug", "release")]
    found = shutil.which("flowloom-node", path=os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)]))
    if found is None:
        skip("the command flowloom-node is missing (`cargo build --package flowloom-host`)")
    return found


def addresses(number: int) -> list[str]:
    """Return addresses that no other process uses: all of 127/8 belong to this machine, and these contain the process id."""
    a, b, c = (os.getpid() >> shift & 255 for shift in (16, 8, 0))
    return [f"127.{a | 192}.{b}.{c}:{7000 + host}" for host in range(number)]


def run_flows(node: str, folder: Path, flows: list[dict], transport: str, *options: str) -> list[dict]:
    """Run flows between processes on the loopback interface until all have ended, and return their records."""
    places = addresses(4)
    names = [str(host) for host in range(4)]
    start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 1_500_000_000
    processes = []
    try:
        for name, text in zip(names, results.lists(flows, names), strict=True):
            (folder / f"{name}.flows").write_text(text)
            words = [node, "--me", name, "--flows", f"{folder}/{name}.flows", "--records", f"{folder}/{name}.records"]
            words += ["--discard", "--start-at", str(start_ns), "--transport", transport, *options, *places]
            processes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        deadline = time.monotonic() + WAIT_S
        while sum(ended(folder / f"{name}.records") for name in names) < len(flows):
            assert time.monotonic() < deadline, "the flows have not ended"
            assert all(process.poll() is None for process in processes)
            time.sleep(0.05)
        for process in processes:
            process.stdin.close()
            assert process.wait(WAIT_S) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return results.read(folder / f"{name}.records" for name in names)


def ended(file: Path) -> int:
    return file.read_text().count('"acknowledged"') if file.exists() else 0


def test_four_processes_run_a_scenario_over_loopback(node, tmp_path):
    draw = random.Random(1)
    rows = []
    for number in range(20):
        src, dst = draw.sample(range(4), 2)
        rows.append(f"{number * 0.005},{src},{dst},{draw.choice([0, 1, 1391, 5000, 60_000])},10,{number % 2},")
    # Loopback has neither a switch nor propagation, so the optimum is that of a network that is faster than any machine:
    # 100 Gb/s, and 1 ns a link.
    star = scenario(tmp_path, HEADER + "\n".join(rows) + "\n", hosts=4, rate="100Gb/s").set({"topology.delay": "1ns"})
    flows = results.planned(star)
    found = results.result(star, run_flows(node, tmp_path, flows, "phost"), wall_s=1.0, hosts={})
    s = found.summary
    assert (s["flows"], s["finished"], s["aborted"], s["deadlines_met"]) == (20, 20, 0, 1.0)
    assert min(found.flows["slowdown"].to_pylist()) >= 1
    ends = results.endings(results.read(tmp_path.glob("*.records")))
    assert sum(end["delivered_bytes"] for end in ends) == sum(flow["bytes"] for flow in flows)
    # As many packets as it takes, and those that were sent again; a flow of no bytes has none with payload.
    least = sum(-(-flow["bytes"] // 1391) for flow in flows)
    assert s["data_packets"] - s["retransmissions"] == least
