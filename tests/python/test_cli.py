from __future__ import annotations

import errno
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

import flowloom
from conftest import HANG_S, SMALL
from flowloom import _native, comparisons, storage, sweeps
from flowloom.cli import app, tables
from flowloom.cli.common import parse_value, split_list
from flowloom.engine import cores


def call(*words, code: int = 0):
    """Run the command line in this process; fail on a traceback, or any exit code but the expected one."""
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    if code:
        assert result.stderr.strip()
        assert "Traceback" not in result.stderr
    return result


@pytest.mark.parametrize(("words", "printer"), [
    (("sweep", "--vary", "workload.load=0.2"), "print_sweep"), (("compare", "--transports", "ideal"), "print_comparison"),
])  # fmt: skip
def test_an_interrupt_after_the_last_run_says_that_the_runs_are_kept(scenario, tmp_path, monkeypatch, words, printer):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, printer, interrupted)
    told = call(words[0], scenario, *words[1:], "--out", tmp_path / "o", code=130).stderr
    assert f"interrupted; finished runs are kept in {tmp_path / 'o' / 'runs'}; repeat the same command" in told.replace(
        "\n", " "
    )
    assert list((tmp_path / "o" / "runs").iterdir())


def test_run_prints_exactly_one_object_with_what_was_promised(scenario):
    summary = json.loads(call("run", scenario, "--json").stdout)
    promised = (
        "transport seed flows finished slowdown fct_us nfct goodput_gbps deadlines_met drops queueing_us_mean packet_hops sim_s"
    )
    assert set(promised.split()) <= summary.keys()
    for spread in ("slowdown", "fct_us"):
        assert {"mean", "p50", "p95", "p99"} <= summary[spread].keys()
    assert {"total", "rate", "by_hop"} <= summary["drops"].keys()
    assert sum(b["flows"] for b in summary["slowdown"]["by_size"]) == summary["flows"] == 200


def test_the_same_scenario_prints_and_saves_the_same_bytes_of_json(scenario, tmp_path):
    run = ["run", scenario, "--json", "--set", "workload.flows=50", "--out", tmp_path / "r"]
    compare = ["compare", scenario, "--json", "--set", "workload.flows=50", "--transports", "ideal", "--out", tmp_path / "c"]
    for words in (run, compare):
        printed = [call(*words, "--force").stdout for _ in range(2)]
        assert printed[0] == printed[1]
        assert "wall_s" not in printed[0] and "peak_rss_mb" not in printed[0]
    first, second = (flowloom.run(scenario, workload__flows=50) for _ in range(2))
    assert first.as_json() == second.as_json()
    # In Python, the summary has them.
    assert first.summary["wall_s"] > 0 < first.summary["peak_rss_mb"]


def test_run_saves_what_was_promised(scenario, tmp_path):
    out = tmp_path / "out"
    call("run", scenario, "--out", out, "--csv", "--seed", 4, "--set", "workload.flows=60")
    assert {p.name for p in out.iterdir()} >= {"flows.parquet", "flows.csv", "summary.json", "scenario.toml", "provenance.json"}
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["seed"], summary["flows"]) == (4, 60)
    assert len((out / "flows.csv").read_text().splitlines()) == 61


def test_run_prints_a_table_for_people(scenario):
    text = call("run", scenario).stdout
    assert "pHost, seed 1: 200 of 200 flows finished" in text
    assert re.search(r"^Mean slowdown +1\.\d+$", text, re.M)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["run", "nowhere.toml"], "cannot read the scenario nowhere.toml: No such file"),
        (["run", "S", "--set", "workload.load=3"], "--set workload.load=3"),
        (["run", "S", "--set", "workload.laod=0.3"], '"load"'),
        (["run", "S", "--set", "workload.load"], "give a key and a value"),
        (["run", "S", "--set", "transport.name=phots"], "phost"),
        (["run", "S", "--seed", "-1"], "--seed"),
        (["run", "S", "--seed", str(2**63)], "'--seed'"),
        (["run", "S", "--threads", str(2**64)], "'--threads'"),
        (["run", "S", "--threads", "65537"], "65536"),
        (
            ["sweep", "S", "--vary", "workload.load=0.2", "--seed", str(2**63 - 1), "--seeds", "3"],
            "seeds: 3 seeds from run.seed = 9223372036854775807 on go beyond the largest seed, 9223372036854775807",
        ),
        (["run"], "SCENARIO.toml"),
        (["compare", "S", "--transports", "phost,nobody"], "nobody"),
        (["sweep", "S", "--vary", "workload.load"], "give a key and its values"),
        (["sweep", "S", "--vary", "workload.load=0.2,x"], "workload.load"),
        (["sweep", "S", "--vary", "workload.load=0.2", "--jobs", "0"], "jobs"),
        (["paper", "run", "tiny/fig2"], 'did you mean "tiny/fig1"'),
        (["paper", "run", "tiny/fig1", "--scale", "hug"], 'no scale "hug"'),
        (["paper", "run", "tiny", "--scale", "fulll"], 'no scale "fulll": did you mean "full"?'),
        (["claims", "tinny"], 'did you mean "tiny"'),
        (["claims", "--scale", "fulll"], 'no scale "fulll": did you mean "full"?'),
        (["claims", "tiny", "--report", "--scale", "fulll"], 'no scale "fulll": did you mean "full"?'),
        (["list", "transport"], 'did you mean "transports"'),
        (["show", "web_serach"], 'did you mean "web_search"'),
        (["explain", "slowdwn"], 'did you mean "slowdown"'),
        (["explain", "."], "not a results directory"),
        (["doctor", "nowhere.toml"], "cannot read"),
        (["import", "nowhere.csv", "--out", "x.csv"], "cannot read nowhere.csv"),
        (["run", "S", "--out", ""], "--out: the name is empty; give a directory"),
        (["paper", "run", "tiny/fig1", "--runs="], "--runs: the name is empty; give a directory"),
        (["paper", "run", "zzz"], 'no figure "zzz": there are another/fig1, tiny/fig1, tiny/fig2, tiny/fig10'),
        (["claims", "zzz"], 'no paper "zzz": there are another, tiny'),
        (["rnu"], "rnu"),
    ],
)
def test_bad_input_is_a_paragraph_and_exit_code_2(scenario, papers, words, complaint):
    if "zzz" in words:
        for name in ("tiny/fig10", "tiny/fig2", "another/fig1"):
            (path := papers.parent / f"{name}.toml").parent.mkdir(exist_ok=True)
            path.write_text((papers / "fig1.toml").read_text())
    assert complaint in call(*[scenario if w == "S" else w for w in words], code=2).stderr
    assert not (scenario.parent / "results").exists()


def test_an_override_that_another_one_replaces_is_noted(scenario, monkeypatch):
    def read(*_, **__):
        raise _native.ScenarioError("it was read, and that is enough")

    for module in (sweeps, comparisons):
        monkeypatch.setattr(module, "run_places", read)
    sweep, compare = ["sweep", scenario], ["compare", scenario]
    name = ["--set", "transport.name=tcp"]
    for words, note in [
        (["run", scenario, "--seed", 1, "--set", "run.seed=2"], "--set run.seed=2 has no effect: --seed 1 replaces it"),
        (
            ["show", scenario, "--set", "run.seed=2", "--set", " run.seed = 3"],
            "--set run.seed=2 has no effect: --set  run.seed = 3 replaces it",
        ),
        (
            ["show", scenario, "--set", "transport.phost.free_tokens=5", "--set", "transport.phost={}"],
            "--set transport.phost.free_tokens=5 has no effect: --set transport.phost={} replaces it",
        ),
        ([*sweep, "--vary", "transport.name=ideal", *name], "transport.name=tcp has no effect: --vary transport.name replaces"),
        ([*sweep, "--vary", "run.seed=5", "--seed", 4], "--seed 4 has no effect: --vary run.seed replaces it"),
        ([*compare, "--transports", "ideal", *name], "transport.name=tcp has no effect: --transports replaces it"),
        ([*compare, "--variant", "x: transport.name=ideal", *name], "transport.name=tcp has no effect: --variant replaces it"),
        (
            [*compare, "--transports", "ideal", "--over", "workload.load=0.2", "--set", "workload.load=0.3"],
            "--set workload.load=0.3 has no effect: --over workload.load replaces it",
        ),
    ]:
        said = call(*words, code=2 if words[0] in ("sweep", "compare") else 0).stderr
        assert note in said and said.count("has no effect") == 1, (words, said)
    for words in [
        ["show", scenario, "--set", "run.seed=2", "--set", "workload.load=0.2"],
        ["show", scenario, "--set", "run.seed=2", "--set", "run.seed=2"],
        ["show", scenario, "--set", "transport.phost={}", "--set", "transport.phost.free_tokens=5"],
        # The variant y runs TCP.
        [*compare, "--variant", "x: transport.name=ideal", "--variant", "y: fabric.buffer=1MB", *name],
    ]:
        assert "has no effect" not in call(*words, code=2 if words[0] == "compare" else 0).stderr, words


def test_a_full_disk_is_one_paragraph_exit_code_1_and_no_trace(scenario, tmp_path, monkeypatch):
    def full(path, _):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(storage, "write_json", full)
    error = call("run", scenario, "--out", tmp_path / "out", code=1).stderr
    assert "No space left on device" in error
    assert [p.name for p in tmp_path.iterdir()] == ["small.toml"]


def test_a_failed_run_is_exit_code_1(fake, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text('[workload]\nkind = "fails"\n')
    assert "no progress" in call("run", path, code=1).stderr


def test_a_directory_of_something_else_is_not_touched(scenario, tmp_path):
    (tmp_path / "notes.txt").write_text("precious")
    for words in (["run", scenario], ["sweep", scenario, "--vary", "workload.load=0.3"]):
        assert "holds something else" in call(*words, "--out", tmp_path, code=2).stderr
    assert {p.name for p in tmp_path.iterdir()} == {"notes.txt", "small.toml"}


def test_compare_puts_transports_side_by_side_on_the_same_flows(scenario, tmp_path):
    out = tmp_path / "c"
    words = ["compare", scenario, "--transports", "phost,pfabric", "--ideal", "--out", out]
    text = call(*words).stdout
    assert re.search(r"pHost +pFabric +ideal", text)
    assert (out / "compare.png").stat().st_size > 10_000
    phost, pfabric, ideal = json.loads(call(*words, "--json").stdout)
    assert [r["transport"] for r in (phost, pfabric, ideal)] == ["phost", "pfabric", "ideal"]
    # `ideal` bounds the mean flow completion time only.
    assert ideal["fct_us"]["mean"] <= min(phost["fct_us"]["mean"], pfabric["fct_us"]["mean"])


def test_all_transports_are_those_that_can_run_the_scenario(scenario, tmp_path):
    tree = 'topology={ kind = "leaf_spine", racks = 2, hosts_per_rack = 2, spines = 2 }'
    words = [
        "compare",
        scenario,
        "--transports",
        "all",
        "--set",
        tree,
        "--set",
        "workload.flows=20",
        "--out",
        tmp_path / "c",
        "--json",
    ]
    sprayed = call(*words, "--set", "fabric.routing=spray_random")
    refused = [line.split(": ")[1] for line in sprayed.stderr.splitlines() if line.startswith("left out: ")]
    assert {"pdq", "d3"} <= set(refused) and "fabric.routing" in sprayed.stderr
    hashed = call(*words, "--set", "fabric.routing=ecmp_symmetric", "--force")
    assert "left out" not in hashed.stderr
    ran = [run["transport"] for run in json.loads(sprayed.stdout)]
    assert set(ran).isdisjoint(refused) and {"phost", "dctcp"} <= set(ran)
    assert {run["transport"] for run in json.loads(hashed.stdout)} == {*ran, *refused}
    # What no transport can run is an error of the scenario.
    assert "workload.load" in call(*words, "--set", "workload.load=-1", code=2).stderr


def test_a_tournament_ranks_transports_over_the_rounds(scenario, tmp_path):
    out = tmp_path / "t"
    words = ["compare", scenario, "--transports", "fastpass,pfabric", "--over", "workload.load=0.2,0.5", "--out", out]
    text = call(*words).stdout
    runs = json.loads(call(*words, "--json").stdout)
    assert [run["transport"] for run in runs] == ["fastpass", "pfabric"] * 2
    means = [run["slowdown"]["mean"] for run in runs]
    best = "pFabric" if means[1] * means[3] < means[0] * means[2] else "Fastpass"
    places = [line.split()[0] for line in text.splitlines() if line.startswith(("pFabric", "Fastpass"))]
    assert places[0] == best and sorted(places) == ["Fastpass", "pFabric"]
    assert all((out / f"{name}.png").stat().st_size > 10_000 for name in ("compare-0.2", "compare-0.5", "tournament"))
    wrong = call("compare", scenario, "--transports", "phost", "--over", "workload.load", "--out", out, code=2)
    assert "--over workload.load: give a key and its values" in wrong.stderr


def columns(text: str, first: str) -> list[str]:
    """Return the cells of a table's row after the first one."""
    (line,) = re.findall(rf"^{re.escape(first)}  +(.*)$", text, re.M)
    return re.split(r"  +", line)


def test_several_seeds_are_averaged_with_their_interval(scenario, tmp_path):
    words = [scenario, "--seeds", 3, "--set", "workload.flows=60", "--jobs", 1]
    compared = ["compare", *words, "--transports", "phost,ideal", "--out", tmp_path / "c"]
    text = call(*compared).stdout
    runs = json.loads(call(*compared, "--json").stdout)
    assert [(run["transport"], run["seed"]) for run in runs] == [(t, s) for t in ("phost", "ideal") for s in (1, 2, 3)]
    assert columns(text, "Flows finished") == ["180 of 180"] * 2
    means = [run["fct_us"]["mean"] for run in runs[:3]]
    mean = statistics.mean(means)
    # Student's t for two degrees of freedom is 4.303.
    cell = columns(text, "Mean FCT (µs)")[0]
    shown, half_width = (float(word.replace(",", "")) for word in cell.split(" ± "))
    assert shown == pytest.approx(mean, rel=1e-3)
    assert half_width == pytest.approx(4.303 * statistics.stdev(means) / 3**0.5, rel=1e-2)
    swept = call("sweep", *words, "--vary", "transport.name=phost,ideal", "--out", tmp_path / "s").stdout
    assert "Means of 3 seeds" in swept
    row = columns(swept, "phost")
    assert row[0] == "180 of 180"
    assert row[3] == cell


def test_one_seed_has_no_interval(scenario, tmp_path):
    text = call("sweep", scenario, "--vary", "workload.load=0.2,0.4", "--out", tmp_path / "s").stdout
    assert "±" not in text
    assert columns(text, "0.2")[0] == "200 of 200"


def test_rounds_may_be_anything_that_a_scenario_may_hold(scenario, tmp_path):
    over = 'topology.host_rate=10Gb/s,"40Gb/s"'
    words = [
        "compare",
        scenario,
        "--transports",
        "phost,ideal",
        "--set",
        "workload.flows=40",
        "--out",
        tmp_path / "t",
        "--jobs",
        1,
    ]
    assert "40Gb/s mean slowdown" in call(*words, "--over", over).stdout
    assert {path.name for path in (tmp_path / "t").glob("*.png")} == {
        "compare-10Gb-s.png",
        "compare-40Gb-s.png",
        "tournament.png",
    }
    call(*words, "--over", "workload.sizes={fixed='2kB'},{fixed='9kB'}", "--out", tmp_path / "u")
    assert len(list((tmp_path / "u").glob("compare-*.png"))) == 2


def test_sweep_tables_every_point_and_seed(scenario, tmp_path):
    words = ["sweep", scenario, "--vary", "workload.load=0.2,0.4", "--vary", "transport.name=phost,ideal", "--seeds", 2]
    rows = json.loads(call(*words, "--out", tmp_path / "s", "--no-flows", "--json").stdout)
    assert [(r["workload.load"], r["transport.name"], r["seed"]) for r in rows] == [
        (load, name, seed) for load in (0.2, 0.4) for name in ("phost", "ideal") for seed in (1, 2)
    ]
    assert len((tmp_path / "s/sweep.csv").read_text().splitlines()) == 9
    assert not list((tmp_path / "s").rglob("flows.parquet"))


def test_a_paper_from_its_list_to_its_ledger(papers, tmp_path):
    assert "tiny/fig1  Slowdown against load  1 2" in call("paper", "list").stdout
    assert "tiny/2: Something that cannot be." in call("paper", "show", "tiny/fig1").stdout
    before = json.loads(call("claims", "--json").stdout)
    assert [e["verdict"] for e in before] == ["not yet run"] * 2
    text = call("paper", "run", "tiny/fig1", "--jobs", 2).stdout
    assert "tiny/1 holds" in text
    assert "tiny/2 differs" in text
    assert (tmp_path / "results/tiny/fig1/fig1.png").exists()
    after = json.loads(call("claims", "tiny", "--json").stdout)
    assert [e["verdict"] for e in after] == ["holds", "differs"]
    assert all({"id", "verdict", "paper", "measured", "band", "scale", "seconds"} <= e.keys() for e in after)
    assert "1 holds, 1 differs, 0 stale" in call("claims").stdout


def test_list_and_show_know_everything_that_can_be_named(scenario, papers, tmp_path):
    text = call("list").stdout
    for word in ("phost", "pfabric", "ideal", "web_search", "leaf_spine", "ip_1500", "tiny/fig1"):
        assert re.search(rf"^  {word}\s", text, re.M), word
    assert "free_tokens = 8" in call("show", "phost").stdout
    shown = call("show", "web_search", "--plot", tmp_path / "ws.png").stdout
    assert "29.2 MB" in shown
    assert (tmp_path / "ws.png").stat().st_size > 5000
    assert 'name = "phost"' in call("show", scenario).stdout
    assert "tiny/1" in call("show", "tiny/fig1").stdout


def test_explain_says_what_numbers_mean_and_what_dominated(scenario, tmp_path):
    assert "alone in the network" in call("explain", "slowdown").stdout
    assert "flows.parquet (s)" in call("explain", "finish").stdout
    of_class = call("explain", "requests.by_class.long_wide.slowdown.mean").stdout
    assert "lower bound" in of_class
    assert "class long_wide" in of_class
    assert "local_flows: Local flows" in call("explain", "coflow_workloads[0].local_flows").stdout
    call("run", scenario, "--out", tmp_path / "r")
    text = call("explain", tmp_path / "r").stdout
    assert "200 of 200 flows finished" in text
    assert "The largest tenth of the flows" in text
    assert "the last byte at the receiver" in text


def test_doctor_finds_the_installation_sound():
    lines = call("doctor").stdout.splitlines()
    assert all(line.startswith(("ok", "note")) for line in lines)


@pytest.mark.parametrize(
    ("assertions", "finding", "version"),
    [(True, r"note +the simulator is the build with assertions", "built with assertions"),
     (False, r"ok +the simulator is the optimised build", "optimised build")],
)  # fmt: skip
def test_doctor_and_version_say_which_build_is_installed(monkeypatch, assertions, finding, version):
    assert isinstance(_native.DEBUG_ASSERTIONS, bool)
    monkeypatch.setattr(_native, "DEBUG_ASSERTIONS", assertions)
    assert re.search(finding, call("doctor").stdout)
    for option in ("-V", "--version"):
        assert re.fullmatch(rf"flowloom \d+\.\d+\.\d+ \({version}\)\n", call(option).stdout)


def commands(command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Return every command and group of the command line."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


@pytest.mark.parametrize("words", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_every_command_has_help_by_both_names(words):
    text = call(*words, "-h").stdout
    assert text == call(*words, "--help").stdout
    assert text.startswith("Usage: ")


def test_shells_can_complete_commands():
    environment = os.environ | {"_FLOWLOOM_COMPLETE": "complete_bash", "COMP_WORDS": "flowloom com", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "flowloom"], env=environment, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert done.stdout.split() == ["compare"]


def test_doctor_names_the_runs_of_what_is_no_run(scenario, tmp_path, papers):
    few = ["--set", "workload.flows=20", "--jobs", 1]
    call("sweep", scenario, *few, "--vary", "transport.name=ideal", "--out", tmp_path / "s")
    out = tmp_path / "s"
    told = call("doctor", out, code=2).stderr
    assert f"{out} holds a sweep, not the result of a run; `flowloom explain {out}` lists its runs" in told
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "claims.json").write_text("{}")
    assert "holds a figure, not the result of a run; `flowloom explain" in call("doctor", tmp_path / "f", code=2).stderr
    (tmp_path / "i").mkdir()
    (tmp_path / "i" / "import.json").write_text("{}")
    assert call("doctor", tmp_path / "i", code=2).stderr.endswith("holds an imported scenario, not the result of a run\n")


def test_doctor_finds_what_is_wrong_with_a_result(scenario, tmp_path):
    call("run", scenario, "--out", tmp_path / "cut", "--set", "run.time_limit=200us")
    text = CliRunner().invoke(app, ["doctor", str(tmp_path / "cut")])
    assert text.exit_code == 1
    (started,) = re.findall(r"problem +\d+ of (\d+) flows did not finish", text.stdout)
    assert f"{200 - int(started)} of 200 flows did not start before run.time_limit" in text.stdout


def test_doctor_finds_a_network_that_does_not_keep_up(scenario, tmp_path):
    # Every host sends 1 MB flows at full load; the network does not keep up.
    call("run", scenario, "--out", tmp_path / "r", "--set", "workload.load=1.0", "--set", "workload.sizes={fixed='1MB'}",
         "--set", "workload.flows=400")  # fmt: skip
    assert "and they do not level off" in CliRunner().invoke(app, ["doctor", str(tmp_path / "r")]).stdout


def test_doctor_finds_what_was_set_up_and_not_used(scenario, tmp_path):
    # All flows have one packet and count as short, so no data packet uses the class of long flows.
    call("run", scenario, "--out", tmp_path / "r", "--set", "workload.sizes={fixed='1kB'}")
    result = CliRunner().invoke(app, ["doctor", str(tmp_path / "r")]).stdout
    assert "note    phost sets data_priorities, but all data used one class: class 0" in result
    call("run", scenario, "--out", tmp_path / "r", "--force")
    result = CliRunner().invoke(app, ["doctor", str(tmp_path / "r")]).stdout
    assert "data_priorities" not in result
    assert re.search(r"ok +packets by priority: class 0 [\d.]+%, class 1 [\d.]+%, class 2 [\d.]+%", result)


def test_doctor_finds_classes_that_no_flow_reaches_and_marks_that_no_queue_makes(scenario, tmp_path):
    def notes(*settings: str) -> str:
        sets = [word for setting in ("workload.sizes={fixed='20kB'}", *settings) for word in ("--set", setting)]
        call("run", scenario, "--out", tmp_path / "r", "--force", *sets)
        return CliRunner().invoke(app, ["doctor", str(tmp_path / "r")]).stdout

    # These thresholds are far above the sizes, and a port of 36 kB never has a queue of 97.5 kB.
    found = notes("transport.name=pias", "transport.pias.thresholds=['1MB','2MB','3MB','4MB','5MB','6MB','7MB']")
    assert re.search(r"note +pias sets up 8 classes, but packets used 1: class 0 100.0%", found)
    assert re.search(r"no packet was marked: switches mark above 97.5kB, and the longest queue\s+held [\d.]+kB", found)
    assert re.search(r"no packet was marked", notes("transport.name=dctcp"))
    assert re.search(r"not ECN-capable", notes("transport.name=pias", "transport.pias.controller=newreno"))
    # There is no finding if classes and marks are used, if marking is off, or if packets are not ECN-capable.
    used = ["transport.name=pias", "transport.pias.thresholds=['5kB']", "transport.pias.tcp.port.mark_above=3kB"]
    for settings in (used, ["transport.name=tcp"], ["transport.name=dctcp", "transport.dctcp.port.ecn=off"]):
        found = notes(*settings)
        assert "sets up" not in found, found
        assert "marked" not in found, found


def test_doctor_runs_a_scenario_and_counts_its_small_bins(scenario):
    text = CliRunner().invoke(app, ["doctor", str(scenario)]).stdout
    assert f"{scenario} is valid" in text
    assert re.search(r"note +only \d+ finished flows are of size", text)


@pytest.mark.parametrize(
    ("dialect", "text", "points"),
    [
        ("bytes_probability", "0,0\n1000,0.5\n3000,1\n", "0,0\n1000,0.5\n3000,1\n"),
        ("bytes_percent", "# x\nsize percent\n0 0\n1000 50\n3000 100\n", "0,0\n1000,0.5\n3000,1\n"),
        (None, "0 0\n1000 50\n3000 100\n", "0,0\n1000,0.5\n3000,1\n"),
        ("packets_probability", "1,0.5\n2,1\n", "1460,0.5\n2920,1\n"),
        ("ns2_packets", "1 1 0.5\n2 1 1\n", "1460,0.5\n2920,1\n"),
        ("flows", "id,bytes\n1,10\n2,10\n3,30\n4,20\n", "10,0.5\n20,0.5\n20,0.75\n30,0.75\n30,1\n"),
    ],
)
def test_import_reads_other_tools_tables_and_they_run(scenario, tmp_path, dialect, text, points):
    (tmp_path / "foreign.txt").write_text(text)
    out = tmp_path / "sizes"
    call("import", tmp_path / "foreign.txt", "--out", out, *(["--as", dialect] if dialect else []))
    assert (out / "sizes.csv").read_text().partition("bytes,cumulative_probability\n")[2] == points
    scenario.write_text(SMALL.replace('"imc10"', '{ cdf = "sizes/sizes.csv" }'))
    largest = float(points.splitlines()[-1].split(",")[0])
    call("run", scenario, "--out", tmp_path / "r", "--csv")
    header, *rows = (tmp_path / "r/flows.csv").read_text().splitlines()
    column = header.replace('"', "").split(",").index("bytes")
    assert 0 < max(int(row.split(",")[column]) for row in rows) <= largest


@pytest.mark.parametrize(
    ("dialect", "text", "complaint"),
    [
        (
            [],
            "1,0.5\n2,1\n",
            "--as bytes_probability (mean 1 B, largest 2 B) or --as packets_probability (mean 1,825 B, largest",
        ),
        (["--as", "packets"], "1,1\n", "did you mean"),
        (["--as", "ns2_bytes"], "1,0.5\n2,1\n", "foreign.txt:1: ns2_bytes has 3 columns"),
        (["--as", "bytes_probability"], "1,0.5\n0,1\n", "foreign.txt:2: sizes and shares must not decrease"),
        (["--as", "bytes_probability"], "1,0.5\n2,0.9\n", "the last row must reach 1"),
        (["--as", "bytes_probability"], "1,50\n2,100\n", "no point of a distribution"),
        (["--as", "bytes_probability"], "1,0.5\noops\n", "foreign.txt:2: not a row of numbers"),
        (["--as", "bytes_probability"], "", "no rows"),
        (["--as", "flows"], "packets\n1\n", "a column called bytes"),
        (["--as", "flows"], "bytes\nmany\n", "is not a number"),
    ],
)
def test_import_never_guesses(tmp_path, dialect, text, complaint):
    (tmp_path / "foreign.txt").write_text(text)
    error = call("import", tmp_path / "foreign.txt", "--out", tmp_path / "x", *dialect, code=2).stderr
    assert complaint in error
    assert not (tmp_path / "x").exists()


def test_lists_split_outside_brackets_and_quotes():
    assert split_list("a, b ,c") == ["a", "b", "c"]
    assert split_list('{fixed="1,5kB"},{uniform=["1kB","2kB"]},x') == ['{fixed="1,5kB"}', '{uniform=["1kB","2kB"]}', "x"]
    assert split_list("") == []
    assert [parse_value(v) for v in ("0.5", "true", "10Gb/s", '"x"', "[1, 2]")] == [0.5, True, "10Gb/s", "x", [1, 2]]


def python(code: str):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)


def test_help_imports_nothing_that_takes_time():
    heavy = "{'numpy', 'pyarrow', 'scipy', 'matplotlib', 'rich', 'flowloom._native', 'multiprocessing'}"
    code = f"""
import sys
import flowloom
from flowloom.cli import app
try:
    app(['--help'])
except SystemExit:
    pass
print({heavy} & set(sys.modules), file=sys.stderr)
"""
    assert python(code).stderr.strip() == "set()"


def test_as_a_process_json_is_all_there_is_on_stdout(scenario):
    command = [sys.executable, "-m", "flowloom", "run", str(scenario), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert json.loads(done.stdout)["transport"] == "phost"


def test_as_a_process_bad_input_has_no_traceback():
    command = [sys.executable, "-m", "flowloom", "run", "nowhere.toml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_several_figures_run_and_one_that_fails_stops_no_other(papers):
    text = (papers / "fig1.toml").read_text()
    failing = text.replace("[scale.quick]", '[[set]]\nkeys = { "run.time_limit" = "0ps", "topology.hosts" = 1 }\n[scale.quick]')
    (papers / "fig0.toml").write_text(failing)
    (papers / "fig2.toml").write_text((papers / "fig1.toml").read_text().replace("title", "titel"))
    done = call("paper", "run", "tiny", "--jobs", 1, code=1)
    assert "tiny/1 holds" in done.stdout
    assert "tiny/fig0" in done.stderr
    assert "fig2.toml:1: titel: unknown key" in done.stderr
    assert "2 figure(s) failed: tiny/fig0" in done.stderr
    # Figures that are up to date are left out, and failed ones are run again.
    again = call("paper", "run", "--all", "--jobs", 1, code=1)
    assert "1 of 2 figures are up to date at scale quick" in again.stderr
    assert "tiny/1" not in again.stdout


def test_a_broken_figure_disables_only_itself(papers):
    (papers / "fig2.toml").write_text((papers / "fig1.toml").read_text().replace("title", "titel"))
    for command, code in ((["paper", "list"], 1), (["claims"], 1), (["claims", "--json"], 1), (["list"], 0)):
        done = call(*command, code=code)
        assert "tiny" in done.stdout
        assert "fig2.toml:1: titel: unknown key" in done.stderr
    assert "tiny/fig1" in call("paper", "list", code=1).stdout
    assert "titel: unknown key" in call("paper", "run", "tiny/fig2", code=2).stderr
    assert "titel: unknown key" in call("paper", "show", "tiny/fig2", code=2).stderr
    assert "tiny/2" in call("paper", "show", "tiny/fig1").stdout


def test_a_damaged_ledger_disables_only_its_paper(papers):
    shutil.copytree(papers, papers.with_name("other"))
    (papers / "claims.json").write_text('{"tiny/1": 3}')
    for command in (["paper", "list"], ["claims"]):
        done = call(*command, code=1)
        assert "tiny/claims.json is damaged: tiny/1: must be a table, not 3" in done.stderr
        assert "fig1" in done.stdout
    assert "other/fig1" in call("paper", "list", code=1).stdout


def test_claims_say_why_a_check_cannot_fail_and_give_the_experiment_as_a_command_to_copy(papers):
    more = 'check = [{ kind = "level", metric = "nfct", at_most = 9, given = "the load sets it" }, { kind = "level",'
    text = (papers / "fig1.toml").read_text()
    (papers / "fig1.toml").write_text(text.replace('check = [{ kind = "level",', more))
    command = (
        "flowloom run papers/tiny/default.toml --set transport.name=pfabric --set workload.flows=1000 --set workload.load=0.25"
    )
    (papers / "causes.toml").write_text(f'["tiny/2"]\ncause = "because"\nexperiment = "it gave 7"\ncommand = "{command}"\n')
    said = call("paper", "run", "tiny/fig1", "--jobs", 1).stdout
    assert "  cannot fail, because the load sets it: " in said
    assert re.search(r"  differs: [\d.]+ \[.*\] at load 0.6, phost; all points: ", said)
    said = call("claims").stdout
    assert "  cannot fail, because the load sets it: " in said
    assert f"  experiment: it gave 7\n  to repeat it:\n    {command}\n" in said
    assert "cannot fail, because the load sets it" in call("paper", "show", "tiny/fig1").stdout


def test_a_figure_tried_with_other_keys_is_not_in_the_ledger(papers, tmp_path):
    done = call("paper", "run", "tiny/fig1", "--jobs", 1, "--set", "workload.flows=50", "--set", "workload.sizes=web_search")
    assert "ledger: unchanged, because of --set" in done.stdout
    assert not (papers / "claims.json").exists()
    assert (tmp_path / "results/tiny/fig1-set/fig1.png").exists()
    for setting, complaint in (("workload.load=0.5", "its axis load sets this key"), ("workload.not_a_key=1", "not_a_key")):
        assert complaint in call("paper", "run", "tiny/fig1", "--set", setting, "--out", tmp_path / "f", code=2).stderr


def test_paper_run_wants_to_know_what(papers):
    for words in ([], ["tiny/fig1", "--all"]):
        assert "give figures (phost/fig3), papers (phost), or --all alone" in call("paper", "run", *words, code=2).stderr
    (papers / "fig2.toml").write_text((papers / "fig1.toml").read_text())
    assert "--out is for one figure" in call("paper", "run", "tiny", "--out", "x", code=2).stderr


def test_how_long_figures_take_is_told_from_what_they_took(papers):
    assert re.search(r"tiny/fig1 .* unknown +unknown\n", call("paper", "list").stdout)
    run = {"verdict": "holds", "checks": [], "seeds": 4, "seconds": 1200.0 * cores(), "date": "2026-01-01"}
    (papers / "claims.json").write_text(json.dumps({"tiny/1": {"fig1": {"quick": run}}}))
    # Scale full has half the seeds and, with 300 flows instead of 200, runs that take 1.5 times as long.
    assert re.search(r"tiny/fig1 .* 20 min +15 min\n", call("paper", "list").stdout)
