"""Warnings that a scheme cannot work as configured: before the run, in tables, in JSON and in the API."""

from __future__ import annotations

import csv
import json
import re

import pytest
from typer.testing import CliRunner

import flowloom
from conftest import SMALL
from flowloom import diagnosis, tables
from flowloom.cli import app
from flowloom.diagnosis import Finding
from test_cli import call

INCAST = """\
[topology]
kind = "single_switch"
hosts = 9
host_rate = "10Gb/s"
delay = "200ns"

[fabric]
buffer = "150kB"

[workload]
kind = "incast"
senders = 8
bytes = "4MB"
requests = 1
period = "1s"
receiver = 0

[transport]
name = "dctcp"
"""


SHALLOW = ["--set", "fabric.buffer=36.864kB"]
"""Ports that hold less than the queue above which they mark."""


def flags(results) -> list[str]:
    return [found.flag for found in results.warnings]


def row(text: str, name: str) -> list[str]:
    (line,) = re.findall(rf"^{name} .*$", text, re.M)
    return re.split(r" {2,}", line.strip())


def test_a_comparison_without_marks_says_so_in_the_table(scenario, tmp_path):
    words = [
        "compare",
        scenario,
        "--transports",
        "tcp,dctcp,d2tcp,ecn_star",
        "--set",
        "workload.flows=60",
        "--set",
        "workload.deadline={ kind = 'exponential', mean = '1ms', floor = 1.25 }",  # d2tcp goes by deadlines
        *SHALLOW,
        *(word for name in ("tcp", "dctcp", "d2tcp", "ecn_star") for word in ("--set", f"transport.{name}.initial_window=20")),
        "--out",
        tmp_path / "c",
    ]
    made = call(*words)
    # All four give the same results, since ports hold less than the marking threshold.
    (_, *means) = row(made.stdout, "Mean slowdown")
    assert len(set(means)) == 1
    assert row(made.stdout, "Warnings") == ["Warnings", "no marks", "no marks", "no marks"]
    assert made.stdout.count("no marks (dctcp; d2tcp; ecn_star): ") == 1
    (told,) = re.findall(r"warning: no marks \(dctcp; d2tcp; ecn_star\): .*", made.stderr)
    assert "fabric.buffer = 36.864kB" in told and "mark above 97.5kB" in told
    assert made.stderr.index(told) < made.stderr.index("runs to simulate")
    as_json = call(*words, "--json")
    runs = json.loads(as_json.stdout)
    assert [[found["flag"] for found in run["warnings"]] for run in runs] == [[], *[["no marks"]] * 3]
    assert "no marks" in as_json.stderr
    # With a larger buffer, ports mark: the results differ, and there is no warning.
    text = call(*words, "--force", "--set", "fabric.buffer=200kB", "--set", "workload.sizes={fixed='1MB'}").stdout
    assert "no marks" not in text
    assert len(set(row(text, "Mean slowdown")[1:])) > 1


@pytest.mark.parametrize(
    ("settings", "reach"),
    [
        ({}, 150_000),
        ({"fabric.sharing": "switch"}, 150_000 / 2 + 1538),
        ({"fabric.sharing": "switch", "fabric.alpha": 0.25}, 150_000 / 5 + 1538),
        ({"fabric.sharing": "switch", "fabric.alpha": 100}, 150_000),
    ],
)
def test_the_threshold_that_is_foreseen_to_be_out_of_reach_is(settings, reach):
    def marks(above: float) -> tuple[int, bool]:
        results = flowloom.run(
            INCAST, settings | {"transport.dctcp.port.mark_above": f"{round(above)}B", "transport.dctcp.nic.ecn": "off"}
        )
        foreseen = [found.flag for found in diagnosis.foreseen(results.scenario, [])] == ["no marks"]
        assert ("no marks" in flags(results)) == (results.summary["marks"] == 0)
        return results.summary["marks"], foreseen

    assert marks(reach) == (0, True)
    marked, foreseen = marks(reach - 2 * 1538)
    assert marked > 0 and not foreseen


def test_tcp_and_newreno_are_not_expected_to_be_marked():
    for changes in ({"transport.name": "tcp"}, {"transport.name": "pias", "transport.pias.controller": "newreno"}):
        results = flowloom.run(SMALL, changes)
        assert "no marks" not in flags(results)


def test_one_run_warns_before_and_after(scenario, tmp_path):
    made = call("run", scenario, *SHALLOW, "--set", "transport.name=dctcp", "--set", "run.time_limit=200us")
    assert re.search(r"^warning: no marks: ", made.stderr, re.M)
    assert re.search(r"^warning: unfinished: \d of \d+ flows did not finish", made.stdout, re.M)
    summary = json.loads(call("run", scenario, "--json").stdout)
    assert summary["warnings"] == []


LATE = """\
[topology]
kind = "single_switch"
hosts = 6
host_rate = "1Gb/s"

[workload]
kind = "trace"
file = "late.csv"

[transport]
name = "phost"
"""


def test_flows_that_do_not_start_are_named(tmp_path):
    """Each flow waits for the one before and 1,000,000 s more; the last three would start after the end of simulated time."""
    waiting = "".join(f",1,2,1000,{number},{number - 1}+1000000\n" for number in range(1, 12))
    (tmp_path / "late.csv").write_text(f"start_s,src,dst,bytes,id,after\n1000000,0,1,1000,0,\n{waiting}")
    path, out = tmp_path / "late.toml", tmp_path / "o"
    path.write_text(LATE)
    told = call("run", path, "--out", out).stdout
    assert told.startswith("pHost, seed 1: 9 of 12 flows finished, 3 did not start\n")
    assert "warning: not started: 3 of 12 flows did not start, because simulated time ends after 10,000,000 s" in told
    explained = call("explain", out).stdout
    assert "9 of 12 flows finished in" in explained and "3 flows did not start before the run ended" in explained
    doctor = CliRunner().invoke(app, ["doctor", str(out)])
    assert doctor.exit_code == 1 and "problem 3 of 12 flows did not start" in doctor.stdout
    result = flowloom.load(out)
    assert flags(result) == ["not started"] and "9 of 12 flows finished, 3 did not start" in repr(result)
    # A time limit is what the user wants: it is a number in the title, and no warning.
    limited = call("run", path, "--set", "run.time_limit=2500000s").stdout
    assert limited.startswith("pHost, seed 1: 2 of 12 flows finished, 10 did not start\n")
    assert "not started" not in limited
    assert tables.finished([result, result]) == "18 of 24 (6 did not start)"


def test_a_sweep_has_flags_and_the_run_of_each_row(scenario, tmp_path):
    out = tmp_path / "s"
    words = ["sweep", scenario, "--vary", "transport.name=phost,dctcp", "--set", "workload.flows=50", "--out", out]
    words += [*SHALLOW, "--set", "transport.dctcp.initial_window=10"]
    text = call(*words).stdout
    assert re.search(r"^dctcp .* no marks$", text, re.M)
    with (out / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [r["warnings"] for r in rows] == ["", "no marks"]
    for r in rows:
        kept = json.loads((out / "runs" / r["run"] / "summary.json").read_text())
        assert kept["transport"] == r["transport.name"]
        assert float(r["slowdown.mean"]) == kept["slowdown"]["mean"]
    found = call(*words, "--json")
    assert [r["run"] for r in json.loads(found.stdout)] == [r["run"] for r in rows]
    assert "warning: no marks (dctcp)" in found.stderr
    explained = call("explain", out).stdout
    for r in rows:
        (line,) = [line for line in explained.splitlines() if r["run"] in line]
        _, command, directory = line.split("   ")[0].split()
        assert command == "explain" and f"transport.name {r['transport.name']}" in line
        assert f"{r['transport.name']}, seed 1" in call("explain", directory).stdout.lower()
    (out / "sweep.parquet").unlink()
    assert "is an unfinished sweep with 2 finished runs" in call("explain", out).stdout
    (out / "sweep.parquet").write_text("no Parquet")
    assert "is damaged" in call("explain", out, code=2).stderr


def test_a_load_that_the_network_cannot_carry(tmp_path):
    part = '[[workload.part]]\nname = "{}"\nkind = "poisson"\nsizes = {{ fixed = "100kB" }}\nload = 0.7\nflows = 300\n'
    head, _, _ = SMALL.partition("[workload]")
    mix = f'{head}[workload]\nkind = "mix"\n{part.format("a")}{part.format("b")}[transport]\nname = "phost"\n'
    changes = {"transport.phost.data_priorities": False}
    assert flags(flowloom.run(mix, changes)) == ["load above 1", "backlog grows"]
    assert flags(flowloom.run(mix.replace("0.7", "0.3"), changes)) == []
    burst = f'{head}[workload]\nkind = "burst"\nsizes = {{ fixed = "100kB" }}\nflows = 300\n[transport]\nname = "phost"\n'
    assert flags(flowloom.run(burst, changes)) == []


def test_a_tournament_flags_its_rows(scenario, tmp_path):
    words = ["--transports", "phost,dctcp", "--over", "workload.load=0.2,0.4", *SHALLOW, "--out", tmp_path / "t"]
    made = call("compare", scenario, *words)
    assert re.search(r"^DCTCP .* no marks$", made.stdout, re.M)
    assert "no marks (load 0.2, dctcp; load 0.4, dctcp)" in made.stdout


def test_a_figure_warns_and_its_data_say_of_which_runs(papers, tmp_path):
    figure = papers / "fig1.toml"
    figure.write_text(
        figure.read_text().replace('["phost", "pfabric", "ideal"]', '["phost", "dctcp", "ideal"]').replace("pfabric", "dctcp")
    )
    default = papers / "default.toml"
    default.write_text(default.read_text() + '[fabric]\nbuffer = "36.864kB"\n')
    text = call("paper", "run", "tiny/fig1", "--jobs", 2).stdout
    assert "warning: no marks (load 0.3, dctcp, seeds 1 to 4; " in text
    with (tmp_path / "results/tiny/fig1/data.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {r["transport"] for r in rows if "no marks" in r["warnings"]} == {"dctcp"}
    assert rows[0]["run"] in call("explain", tmp_path / "results/tiny/fig1").stdout


def test_warnings_of_many_runs_are_few_lines():
    many = [(f"run {n}", [Finding("problem", f"{n} flows", "unfinished")]) for n in range(9)]
    same = [(f"run {n}", [Finding("note", "none came", "no marks")]) for n in range(9)]
    assert diagnosis.grouped([*many, *same]) == [
        "unfinished (run 0): 0 flows",
        "unfinished (run 1): 1 flows",
        "unfinished (run 2): 2 flows",
        "unfinished: the same warning for 6 more",
        "no marks (run 0; run 1; run 2; run 3; run 4; run 5 and 3 more): none came",
    ]


def test_a_warning_of_several_seeds_is_one_line_with_the_seeds():
    def unfinished(number):
        return [Finding("problem", f"{number} flows", "unfinished")]

    none = [Finding("note", "none came", "no marks")]
    runs = [(f"phost, seed {seed}", unfinished(seed)) for seed in (1, 2, 5)]
    runs += [(f"load 0.5, dctcp, seed {seed}", none) for seed in (1, 2, 3)] + [("load 0.7, dctcp, seed 2", none)]
    assert diagnosis.grouped(runs) == [
        "unfinished (phost, seeds 1, 2 and 5): 1 flows (these are the numbers of seed 1)",
        "no marks (load 0.5, dctcp, seeds 1 to 3; load 0.7, dctcp, seed 2): none came",
    ]
    assert diagnosis.grouped([("seed 3", none), ("seed 4", none)]) == ["no marks (seeds 3 and 4): none came"]


def test_a_table_of_several_seeds_warns_once(scenario, tmp_path):
    # All flows that start within 300 µs finish with seed 2, and one of 11 and three of 7 do not with seeds 1 and 3.
    words = ["--seeds", 3, "--set", "run.time_limit=300us", "--vary", "transport.name=phost", "--jobs", 1]
    made = call("sweep", scenario, *words, "--out", tmp_path / "s")
    assert re.search(r"^phost .*unfinished \(seeds 1 and 3\)", made.stdout, re.M)
    (told,) = re.findall(r"^warning: unfinished (.*)$", made.stdout, re.M)
    assert told.startswith("(phost, seeds 1 and 3): 1 of 11 flows did not finish; ")
    assert told.endswith("(these are the numbers of seed 1)")


def test_the_flag_in_a_row_names_the_seeds_if_only_some_have_it():
    class Run:
        def __init__(self, seed, *found):
            self.summary, self.warnings = {"seed": seed}, [Finding("note", "", flag) for flag in found]

    runs = [Run(1, "unfinished", "no marks"), Run(2, "no marks"), Run(3, "unfinished", "no marks")]
    assert tables._flags(runs) == ["unfinished (seeds 1 and 3)", "no marks"]
    assert tables._flags(runs[:1]) == ["unfinished", "no marks"]


def test_a_policy_without_its_input_is_told_with_its_key(scenario, tmp_path):
    words = ["compare", scenario, "--transports", "phost,d3", "--set", "transport.phost.policy=edf", "--out", tmp_path / "c"]
    made = call(*words)
    assert row(made.stdout, "Warnings") == ["Warnings", "unfit policy", "unfit transport"]
    told = [
        'warning: unfit policy (phost): transport.phost.policy: "edf" goes by deadlines, but no flow has one, so receivers',
        "warning: unfit transport (d3): transport.name: d3 goes by deadlines, but no flow has one, so ports share",
    ]
    for text in told:
        assert text in made.stdout
        assert made.stderr.index(text) < made.stderr.index("runs to simulate")
    with_deadlines = {"workload.deadline": {"kind": "exponential", "mean": "1ms", "floor": 1.25}}
    for name in ("phost", "d3"):
        assert flags(flowloom.run(scenario, {"transport.name": name, "transport.phost.policy": "edf"})) != []
        calm = flowloom.run(scenario, {"transport.name": name, "transport.phost.policy": "edf", **with_deadlines})
        assert not any(flag.startswith("unfit") for flag in flags(calm))


DUMBBELL = """\
[topology]
kind = "dumbbell"
hosts_per_side = 4
middle_rate = "10Gb/s"

[fabric]
buffer = "30kB"
routing = "ecmp"

[workload]
kind = "mix"

[[workload.part]]
name = "incast"
kind = "incast"
senders = 3
bytes = "1MB"
requests = 1
period = "1s"
receiver = 7

[[workload.part]]
name = "beside"
kind = "burst"
flows = 8
sizes = { fixed = "200kB" }
matrix = "left_right"

[transport]
name = "dctcp"
"""


def test_flow_control_reports_storms_and_victims():
    without = flowloom.run(DUMBBELL)
    assert without.summary["pfc"] is None
    results = flowloom.run(DUMBBELL, {"fabric.pfc.storm_share": 0.0})
    pfc = results.summary["pfc"]
    assert results.summary["drops"]["total"] == 0 and pfc["frames"] > 0
    found = {finding.flag: finding.text for finding in results.warnings}
    assert pfc["victims"] > 0 and f"{pfc['victims']} flows were head-of-line victims" in found["victims"]
    paused = sum(link["share"] > 0 for link in pfc["by_link"].values())
    assert f"{paused} links were paused for more than 0 of the run" in found["pause storm"]
    calm = flowloom.run(DUMBBELL, {"fabric.pfc.storm_share": 1.0})
    assert "pause storm" not in flags(calm)
    assert calm.summary["pfc"] == pfc


@pytest.mark.parametrize("transport", ["expresspass", "top"])
def test_data_that_credits_schedule_is_lost_with_a_warning(transport):
    keys = {
        "transport.name": transport,
        "fabric.routing": "ecmp_symmetric",
        "fabric.wire": "ethernet_1538",
        "workload": {"kind": "burst", "flows": 60, "sizes": {"fixed": "60kB"}},
    }
    roomy = flowloom.run(INCAST, keys)
    assert roomy.summary["drops"]["data"] == 0 and "data lost" not in flags(roomy)
    tight = flowloom.run(INCAST, {**keys, "fabric.buffer": "1538B"})
    lost = tight.summary["drops"]["data"]
    (told,) = (found.text for found in tight.warnings if found.flag == "data lost")
    assert lost > 0 and told.startswith(f"{lost} data packets were lost, although {transport} schedules all data")
    faulty = {**keys, "fault": [{"kind": "loss", "where": "all", "probability": 0.01}]}
    assert "data lost" not in flags(flowloom.run(INCAST, faulty))


def test_tokens_for_more_data_than_a_link_carries_lose_data_with_their_own_warning():
    keys = {
        "transport": {"name": "top", "top": {"token_share": 0.2}},
        "fabric.routing": "ecmp_symmetric",
        "fabric.wire": "ethernet_1538",
        "workload": {"kind": "burst", "flows": 60, "sizes": {"fixed": "60kB"}},
    }
    results = flowloom.run(INCAST, keys)
    (told,) = (found.text for found in results.warnings if found.flag == "data lost")
    assert (
        results.summary["drops"]["data"] > 0 and "token_share = 0.2 lets tokens ask for more data than a link carries" in told
    )


def test_a_timeout_below_a_round_trip_is_told_before_the_run_and_with_its_results(scenario, tmp_path):
    distant = ["--set", "topology.delay=50us", "--set", "workload.flows=60", "--set", "transport.pfabric.max_window=300"]
    made = call("compare", scenario, "--transports", "pfabric,phost,tcp", *distant, "--out", tmp_path / "c")
    assert row(made.stdout, "Warnings")[1:3] == ["unfit rto", "unfit downgrade_threshold"]
    assert re.search(r"^ +unfit reissue_slots( |$)", made.stdout, re.M)  # a row for each further flag
    (told,) = re.findall(r"warning: unfit rto \(pfabric\): .*", made.stderr)
    assert told.startswith("warning: unfit rto (pfabric): transport.pfabric.rto: 45us is less than a round trip, which takes ")
    assert made.stderr.index(told) < made.stderr.index("runs to simulate") and told in made.stdout
    # On the network of its paper, the default suits.
    results = flowloom.run(scenario, transport__name="pfabric", workload__flows=60)
    assert results.summary["misfits"] == [] and results.warnings == []


@pytest.mark.parametrize(
    ("background", "limit", "remedy"),
    [
        ({"src": 0, "dst": 1}, {}, "have no end without workload.background.size"),
        ({"pairs": 2}, {}, "have no end without workload.background.size"),
        ({"src": 0, "dst": 1}, {"time_limit": "4us"}, "raise or remove run.time_limit"),
        ({"src": 0, "dst": 1, "size": "10MB"}, {"time_limit": "1ms"}, "raise or remove run.time_limit"),
    ],
)
def test_background_flows_without_an_end_are_not_for_a_time_limit(background, limit, remedy):
    """The run does not wait for them, so no limit is too low for them."""
    scenario = {
        "topology": {"kind": "single_switch", "hosts": 4},
        "workload": {"kind": "burst", "sizes": {"fixed": "10kB"}, "flows": 3, "background": [background]},
        "transport": {"name": "tcp"},
        "metrics": {"background": True},
        "run": limit,
    }
    (found,) = (each for each in flowloom.run(scenario).warnings if each.flag == "unfinished")
    assert remedy in found.text
