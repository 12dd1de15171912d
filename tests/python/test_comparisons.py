"""Comparisons: variants side by side under labels of their own, and other tools' flows and points beside them."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
import tomllib

import pytest

import flowloom
from conftest import SMALL
from flowloom import ScenarioError, overlays, tables
from flowloom.axes import Axis
from flowloom.cli.comparing import _variant
from flowloom.progress import Silent
from flowloom.reports import findings
from flowloom.results import Results
from flowloom.sweeps import COLUMN, Run, Sweep
from flowloom.variants import Variant
from test_cli import call, columns

SHALLOW = {"transport.name": "dctcp", "transport.dctcp.port.mark_above": "15kB"}
MEMORY = {"fabric.buffer": "360kB"}
"""As much as DCTCP needs by default, which all variants in a comparison with it have."""
DEEP = {"transport.name": "dctcp", "transport.dctcp.port.mark_above": "30kB"}


def written(changes):
    return ", ".join(f"{key}={value}" for key, value in changes.items())


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A comparison of two variants of a transport with that transport, in a directory."""
    out = tmp_path_factory.mktemp("compared") / "c"
    return flowloom.compare(SMALL, ["dctcp"], variants={"K=15k": SHALLOW, "K=30k": DEEP}, seeds=2, out=out, workers=1), out


def test_variants_run_with_their_own_keys(both):
    compared, _ = both
    assert list(compared) == ["dctcp", "K=15k", "K=30k"]
    (round_,) = compared.rounds().values()
    assert list(round_) == ["DCTCP", "K=15k", "K=30k"]
    for title, expected in (("K=15k", "15kB"), ("K=30k", "30kB")):
        alone = [
            flowloom.run(SMALL, SHALLOW | {"transport.dctcp.port.mark_above": expected, "run.seed": seed} | MEMORY)
            for seed in (1, 2)
        ]
        assert [run.as_json() for run in round_[title]] == [run.as_json() for run in alone]
    # The variants see the same flows.
    sizes = [runs[1].flows["bytes"] for runs in round_.values()]
    assert sizes[0].equals(sizes[1]) and sizes[0].equals(sizes[2])


def test_saved_runs_and_json_name_their_variants(both):
    compared, out = both
    with (out / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["variant"], int(row["seed"])) for row in rows] == [
        (label, seed) for label in ("dctcp", "K=15k", "K=30k") for seed in (1, 2)
    ]
    marks = {row["variant"]: tomllib.loads((out / "runs" / row["run"] / "scenario.toml").read_text()) for row in rows}
    assert [marks[label]["transport"]["dctcp"]["port"]["mark_above"] for label in ("K=15k", "K=30k")] == ["15kB", "30kB"]
    assert [(run["variant"], run["transport"], run["over"]) for run in compared.as_json()] == [
        (label, "dctcp", {}) for label in ("dctcp", "K=15k", "K=30k") for _ in (1, 2)
    ]
    # A mapping has one result for each label. With two seeds, there are two.
    with pytest.raises(ScenarioError, match="2 runs; take them from the method `rounds`"):
        compared["K=15k"]
    with pytest.raises(KeyError):
        compared["K=16k"]


def test_the_command_puts_variants_side_by_side(scenario, tmp_path):
    words = ["compare", scenario, "--set", "workload.flows=60", "--jobs", 1, "--out", tmp_path / "c"]
    words += ["--transports", "phost", "--variant", f"K=15k: {written(SHALLOW)}", "--variant", "K=30k: " + written(DEEP)]
    said = call(*words).stdout
    assert re.search(r"^ +pHost +K=15k +K=30k$", said, re.M)
    assert columns(said, "Flows finished") == ["60 of 60"] * 3
    assert (tmp_path / "c/compare.png").stat().st_size > 10_000
    runs = json.loads(call(*words, "--json").stdout)
    assert [run["variant"] for run in runs] == ["phost", "K=15k", "K=30k"]
    assert columns(said, "Mean slowdown") == [f"{run['slowdown']['mean']:.3g}".ljust(4, "0") for run in runs]
    over = call(*words, "--over", "workload.load=0.2,0.4", "--force").stdout
    assert re.search(r"^K=15k +\d", over, re.M)
    runs = json.loads(call(*words, "--over", "workload.load=0.2,0.4", "--json").stdout)
    assert [(run["over"], run["variant"]) for run in runs] == [
        ({"workload.load": load}, label) for load in (0.2, 0.4) for label in ("phost", "K=15k", "K=30k")
    ]


def test_variants_need_no_transport_and_may_have_ranges_of_sizes_of_their_own(scenario, tmp_path):
    words = ["compare", scenario, "--set", "workload.flows=60", "--jobs", 1, "--out", tmp_path / "c"]
    bins = 'metrics.size_bins=["0B", "5kB"]'
    said = call(*words, "--variant", f"fine: {bins}", "--variant", "coarse: fabric.buffer=12kB", "--ideal").stdout
    assert re.search(r"^ +ideal +fine +coarse$", said, re.M)
    table = said.partition("Slowdown by flow size")[2]
    # `ideal` has the ranges of the table, and `fine` lacks them.
    (row,) = re.findall(r"^up to 10 kB +(\d+)  +(.*)$", table, re.M)
    assert re.split(" +", row[1])[2:4] == ["-", "-"]


def table_rows(said: str) -> set[str]:
    return {re.split("  +", line)[0] for line in said.splitlines()}


def test_tables_leave_out_sizes_without_flows_and_numbers_without_a_meaning(scenario, tmp_path):
    packets = {"Drop rate", "Mean queueing (µs)", "Packets dropped", "Packet-hops"}
    words = ["--set", 'workload.sizes={ fixed = "20kB" }', "--set", "workload.flows=20", "--out", tmp_path / "c"]
    run = table_rows(call("run", scenario, *words, "--set", "transport.name=phost").stdout)
    assert {"10 kB to 100 kB", *packets} <= run
    assert {"up to 10 kB", "100 kB to 10 MB", "over 10 MB", "Deadlines met"}.isdisjoint(run)
    # The bound moves no packets.
    words[-1] = tmp_path / "ideal"
    bound = table_rows(call("run", scenario, *words, "--set", "transport.name=ideal").stdout)
    assert "Mean slowdown" in bound and packets.isdisjoint(bound)
    # What means something for one column is in the table, and the saved numbers are all there.
    words[-1] = tmp_path / "both"
    deadline = "workload.deadline.kind=exponential, workload.deadline.mean=1ms"
    small = f"small: transport.name=ideal, workload.sizes.fixed=5kB, {deadline}"
    said = call("compare", scenario, "--transports", "phost", "--variant", small, *words).stdout
    assert re.search(r"^Drop rate +0\.000% +-$", said, re.M)
    assert re.search(r"^Deadlines met +- +\d", said, re.M)
    assert {"up to 10 kB", "10 kB to 100 kB"} <= table_rows(said) and "over 10 MB" not in said
    summary = flowloom.load_comparison(tmp_path / "both")["small"].summary
    assert summary["drops"]["rate"] == 0 and [each["flows"] for each in summary["slowdown"]["by_size"]] == [20, 0, 0, 0]


def test_the_table_says_what_all_has_left_out_and_why(scenario, tmp_path):
    words = ["compare", scenario, "--set", "workload.flows=5", "--transports", "all", "--no-plot", "--jobs", 1]
    tree = 'topology={ kind = "leaf_spine", racks = 2, hosts_per_rack = 4, spines = 2 }'
    sprayed = ["--set", tree, "--set", "fabric.routing=spray_random"]
    for over in ([], ["--over", "workload.load=0.2,0.3"]):
        said = call(*words, *sprayed, *over, "--out", tmp_path / f"c{len(over)}").stdout
        table, _, notes = said.partition("\nLeft out: ")
        first, *reasons = notes.partition("\n\n")[0].splitlines()
        left_out = dict(re.findall(r"(\S+) \((\d+)\)", first))
        assert {"PDQ", "D3", "HPCC"} <= set(left_out) and "pHost" not in left_out
        assert left_out["D3"] == left_out["HPCC"] != left_out["PDQ"]
        assert [reason[:4] for reason in reasons] == [f"({number}) " for number in range(1, len(reasons) + 1)]
        assert set(left_out.values()) == {str(number) for number in range(1, len(reasons) + 1)}
        assert "fabric.routing" in reasons[int(left_out["PDQ"]) - 1] and "symmetric" in reasons[int(left_out["PDQ"]) - 1]
        assert "pHost" in table and not any(name in table for name in left_out)
    assert "Left out" not in call(*words[:4], "--transports", "phost", "--out", tmp_path / "one").stdout


@pytest.mark.parametrize(
    ("text", "label", "keys"),
    [
        ("a: x.y=1", "a", {"x.y": 1}),
        (
            ' K=1, hot : transport.name = dctcp ,a.b=["1kB", "2kB"],c={ u = "x,y", v = [1, 2] }, d=0.5,e="1,\\"2"',
            "K=1, hot",
            {"transport.name": "dctcp", "a.b": ["1kB", "2kB"], "c": {"u": "x,y", "v": [1, 2]}, "d": 0.5, "e": '1,"2'},
        ),
        ("t: a=10Gb/s, b=true, c='1:2', d=2026-01-01", "t", {"a": "10Gb/s", "b": True, "c": "1:2", "d": "2026-01-01"}),
        ("don't: a=don't, b=1", "don't", {"a": "don't", "b": 1}),
    ],
)
def test_values_are_those_of_toml(text, label, keys):
    assert _variant(text) == (label, keys)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--variant", "transport.name=dctcp"], "give a label, a colon and keys"),
        (["--variant", ": transport.name=dctcp"], "give a label, a colon and keys"),
        (["--variant", "a:"], 'variant "a": it sets no keys'),
        (["--variant", "a: dctcp"], '--variant "a": dctcp is not a key with a value'),
        (["--variant", "a: b=[1, 2"], 'variant "a": b'),
        (["--variant", "a: workload.load=0.2, workload.load=0.3"], "workload.load is given twice"),
        (["--variant", "a: workload.load=0.2", "--variant", "a: workload.load=0.3"], 'the label "a" is given twice'),
        (["--variant", "a\tb: workload.load=0.2"], "cannot be printed"),
        (["--variant", "x" * 70 + ": workload.load=0.2"], "give at most 60"),
        (["--transports", "dctcp", "--variant", "DCTCP: workload.load=0.2"], 'the label "DCTCP" is given twice'),
        (["--transports", "dctcp,phost,dctcp"], "dctcp is named twice; a --variant runs it again with other keys"),
        (
            ["--variant", "a: transport.name=dctcp, transport.dctcp.port.mark_abov=30kB"],
            'variant "a": transport.dctcp.port.mark_abov: unknown key; did you mean "mark_above"?',
        ),
        (["--variant", "a: transport.name=dctp"], 'did you mean "dctcp"?'),
        (["--variant", "a: workload.load=2"], 'variant "a": workload.load'),
        (["--variant", "a: workload.load=0.2", "--over", "workload.load=0.2,0.3"], 'variant "a" sets workload.load'),
        (["--variant", "a: workload={}", "--over", "workload.load=0.2,0.3"], 'variant "a" sets workload'),
        (["--transports", "phost", "--over", "transport.name=phost,dctcp"], "over transport.name"),
        (["--transports", "phost", "--over", "workload.load=0.2,0.2"], "0.2 is given twice"),
        (["--transports", "phost", "--over", "workload.load=0.2,0.3", "--metrics", "slowdwn.mean"], 'did you mean "slowdown"?'),
        (["--transports", "phost", "--metrics", "slowdown.mean"], "give --over"),
        ([], "--transports is empty"),
    ],
)
def test_a_wrong_variant_is_named_with_what_would_be_right(scenario, tmp_path, words, complaint):
    assert complaint in call("compare", scenario, *words, "--out", tmp_path / "c", code=2).stderr.replace("\n", " ")
    assert not list((tmp_path / "c").glob("runs/*"))


def test_the_same_variants_are_refused_in_python():
    for transports, variants, complaint in (
        (["phost", "phost"], {}, "phost is named twice; a variant runs it again"),
        ("phost", {}, "give a list of names"),
        ([], {}, "nothing to compare"),
        ([], {"": {"workload.load": 0.2}}, "give a text that is not empty"),
        ([], {" a": {"workload.load": 0.2}}, "leave the space out"),
        ([], {"a": {}}, "sets no keys"),
        ([], {"a": {"workload.load": 0.2, "workload__load": 0.3}}, 'variant "a": workload.load is given twice'),
    ):
        with pytest.raises(ScenarioError, match=complaint):
            flowloom.compare(SMALL, transports, variants=variants)
    with pytest.raises(ScenarioError, match="give one"):
        flowloom.compare(SMALL, ["phost"], over={"workload.load": [0.2], "fabric.buffer": ["1kB"]})
    for key in ("transport__name", "transport.name "):
        with pytest.raises(ScenarioError, match=r"over transport\.name: the transports set it"):
            flowloom.compare(SMALL, ["phost"], over={key: ["dctcp"]})


def test_failed_runs_leave_the_others(fake):
    scenario = '[workload]\nkind = "poisson"\n'
    with pytest.raises(flowloom.IncompleteSweep) as failed:
        flowloom.compare(scenario, ["phost"], variants={"broken": {"workload.kind": "fails"}}, workers=1, executor=Inline())
    compared = failed.value.comparison
    assert list(compared) == ["phost"]
    assert failed.value.failures == [("broken", "the run made no progress for 10 s")]


class Inline:
    """Runs a job in this process, where the simulator is the fake one."""

    def submit(self, work, *arguments):
        from concurrent.futures import Future

        future: Future = Future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


# The order of what is compared.


def tournament(**slowdowns):
    """Return a comparison at two loads of transports with the given mean slowdown of each seed, which is the same at both."""
    summaries = {
        name: [{"transport": name, "seed": seed, "slowdown": {"mean": mean, "p99": mean}} for seed, mean in enumerate(means, 1)]
        for name, means in slowdowns.items()
    }
    runs = [
        Run({"workload.load": load, COLUMN: name}, summary["seed"], Results(summary, "", {}), f"{name}{load}", name)
        for load in (0.3, 0.5)
        for name, found in summaries.items()
        for summary in found
    ]
    return flowloom.Comparison(Sweep(runs), tuple(map(Variant.of_transport, slowdowns)), LOADS)


def test_a_mean_over_fewer_seeds_wins_nothing():
    """Of two of TCP's seeds, no flow finished, and the third is no measure for the others."""
    compared = tournament(tcp=[2.0, None, None], phost=[3.0, 3.0, 3.0])
    assert list(compared.ranking()) == ["pHost", "TCP"]
    assert findings.of_comparison(compared) == [
        "pHost has the lowest mean slowdown over the 2 values of workload.load (geometric mean), 3.00 ± 0.00.",
        "TCP comes next with 2.00 over fewer runs, since no flow finished in some runs or these failed.",
        "pHost is the lowest at every value.",
    ]
    at_one = dataclasses.replace(compared, sweep=Sweep(compared.sweep.runs[:6]), over=None)
    assert findings.of_comparison(at_one)[1:] == [
        "TCP comes next with 2.00 over fewer runs, since no flow finished in some runs or these failed.",
    ]
    # The means of both are over the same runs. In the others, no flow finished under either.
    found = findings.of_comparison(tournament(tcp=[4.0, None], phost=[3.0, None]))
    assert found[1].startswith("TCP comes next with 4.00, which is 33 % more; there are no confidence intervals, so chance")
    assert found[::2] == [
        "pHost has the lowest mean slowdown over the 2 values of workload.load (geometric mean), 3.00.",
        "Even pHost has no value in 2 of 4 runs, which do not count.",
    ]
    assert findings.of_sweep(compared.sweep)[:2] == [
        "The mean slowdown is lowest, 3.00 ± 0.00, at workload.load = 0.3, variant = phost, "
        "and highest, 3.00 ± 0.00, at workload.load = 0.5, variant = phost.",
        "Points where fewer runs have one are left out (2 of 4).",
    ]


def test_tables_say_how_many_seeds_their_means_are_over(fake):
    compared = flowloom.compare('[workload]\nkind = "poisson"\n', ["phost", "ideal"], seeds=3, executor=Inline())

    def titles():
        found = [tables.of_comparison(compared), tables.of_variants(compared), tables.of_sweep(compared.sweep)]
        return {first.title for first, *_ in found}

    assert titles() == {"Means of 3 seeds with 95 % confidence intervals (Student's t)"}
    compared.rounds()[""]["pHost"][1].summary["slowdown"].update(dict.fromkeys(("mean", "p50", "p95", "p99")))
    assert [title.partition(" with")[0] for title in titles()] == ["Means of 2 to 3 seeds"]


# Other tools' flows and points.


def test_our_own_flows_beside_ours_have_our_own_numbers(scenario, tmp_path):
    """The numbers of a summary are computed once by the simulator, and once from the flow table."""
    size_bins = {"metrics.size_bins": ["0B", "2kB", "20kB"]}
    result = flowloom.run(scenario, size_bins, out=tmp_path / "r")
    result.save(tmp_path / "r", csv=True)
    for file in ("flows.csv", "flows.parquet"):
        other = overlays.read(tmp_path / "r" / file, "other").results(result.summary)
        for measure in ("slowdown", "fct_us"):
            ours, theirs = result.summary[measure], other.summary[measure]
            for entry, same in [(ours, theirs), *zip(ours["by_size"], theirs["by_size"], strict=True)]:
                for key in (same.keys() & entry.keys()) - {"by_size"}:
                    assert (same[key] is None) == (entry[key] is None), (measure, key)
                    assert entry[key] is None or same[key] == pytest.approx(entry[key], rel=1e-9), (measure, key)
        assert (other.summary["flows"], other.summary["finished"]) == (200, 200)
    words = ["compare", scenario, "--set", 'metrics.size_bins=["0B", "2kB", "20kB"]', "--transports", "phost", "--jobs", 1]
    said = call(*words, "--with", f"{tmp_path / 'r/flows.csv'}:htsim", "--out", tmp_path / "c").stdout
    assert re.search(r"^ +pHost +htsim$", said, re.M)
    for line in ("Flows finished", "Mean slowdown", "99th-percentile FCT (µs)"):
        ours, theirs = columns(said, line)
        assert ours == theirs
    assert columns(said, "Drop rate")[1] == "-"
    for line in re.findall(r"^(?:up to|over|\d+ kB to) .*$", said, re.M):
        cells = re.split(r"  +", line)
        assert cells[2:4] == cells[4:6]
    runs = json.loads(call(*words, "--with", f"{tmp_path / 'r/flows.csv'}:htsim", "--out", tmp_path / "c", "--json").stdout)
    assert [run["variant"] for run in runs] == ["phost", "htsim"]


@pytest.mark.parametrize(
    ("text", "slowdowns", "times"),
    [
        ("bytes,slowdown\n1000,1.5\n2000,\n", [1.5, None], None),
        ("bytes,fct_ms\n1000,0.5\n2000,2\n", None, [500, 2000]),
        ("# from another tool\n\nid, bytes, start, finish\n7, 1000, 0.5, 0.501\n8, 10, 0, 0.25\n", None, [1000, 250_000]),
        ("bytes,fct_us,optimum\n1000,30,0.00001\n2000,,0.1\n", [3, None], [30, None]),
        ("bytes,slowdown,optimum,start,finish\n1000,3,0.00001,0,0.000025\n", [3], [30]),
        # A start without an end, or an optimum that is empty, gives no completion time.
        ("bytes,slowdown,start\n1000,3,0\n", [3], None),
        ("bytes,slowdown,optimum\n1000,3,\n", [3], None),
        ("bytes,fct_us,optimum\n1000,3,\n", None, [3]),
        ("bytes,slowdown,fct_us\n1000,,\n", [None], [None]),
    ],
)
def test_flows_have_the_measure_that_follows_from_their_columns(tmp_path, text, slowdowns, times):
    (tmp_path / "f.csv").write_text(text)
    flows = overlays.read(tmp_path / "f.csv", "other").flows
    for name, expected in (("slowdown", slowdowns), ("fct_us", times)):
        assert (name in flows.column_names) == (expected is not None)
        if expected is not None:
            assert [v is None for v in flows[name].to_pylist()] == [v is None for v in expected]
            known = [v for v in flows[name].to_pylist() if v is not None]
            assert known == pytest.approx([v for v in expected if v is not None])


LOADS = Axis.of("workload.load", [0.3, 0.5])
BUFFERS = Axis.of("fabric.buffer", ["500kB", "1MB"])


@pytest.mark.parametrize(
    ("axis", "text", "x", "y"),
    [
        (None, "x,y\n1kB,1.5\n2000,\n", [1000, 2000], {"y": [1.5, None]}),
        (LOADS, "x,slowdown.p99\n0.3,2\n0.4,3\n", [0.3, 0.4], {"slowdown.p99": [2, 3]}),
        (BUFFERS, "x,y,slowdown.p99\n1MB,2,3\n700,3,4\n", [1000, 700], {"y": [2, 3], "slowdown.p99": [3, 4]}),
        (Axis.of("workload.sizes", ["web_search", "imc10"]), "x,y\nimc10,2\n", [1], {"y": [2]}),
    ],
)
def test_points_lie_on_the_axis(tmp_path, axis, text, x, y):
    (tmp_path / "p.csv").write_text(text)
    points = overlays.read(tmp_path / "p.csv", "paper", axis, ("slowdown.mean", "slowdown.p99")).points
    assert points.x == x
    assert {name: [None if math.isnan(v) else v for v in values] for name, values in points.y.items()} == y


@pytest.mark.parametrize(
    ("axis", "text", "complaint"),
    [
        (None, "", "has no rows"),
        (None, "bytes,slowdown\n", "has no rows"),
        (None, "size,slowdown\n1,2\n", "f.csv:1: the columns are size, slowdown; a table of flows has bytes and slowdown"),
        (None, "bytes,slow\n1,2\n", "f.csv:1: the columns are bytes, slow; a table of flows has"),
        (None, "bytes,bytes\n1,2\n", 'f.csv:1: two columns are called "bytes"'),
        (None, "bytes,slowdown\n1,2\n1,2,3\n", "f.csv:3: this row has 3 cells, but there are 2 columns"),
        (None, "# x\nbytes,slowdown\n1,2\n\n-1,2\n", 'f.csv:5: column bytes: "-1" is not a flow size'),
        (None, "bytes,slowdown\n1e30,2\n", "f.csv:2: column bytes"),
        (None, "bytes,slowdown\n,2\n", "f.csv:2: column bytes is empty"),
        (None, "bytes,slowdown\n1,fast\n", 'f.csv:2: column slowdown: "fast" is not a slowdown'),
        (None, "bytes,slowdown\n1,nan\n", 'f.csv:2: column slowdown: "nan" is not a slowdown'),
        (None, "bytes,slowdown\n1,0\n", "f.csv:2: column slowdown: 0 is not a slowdown"),
        (None, "bytes,slowdown\n1,1e308\n", 'f.csv:2: column slowdown: "1e308" is not a slowdown'),
        (None, "bytes,slowdown,fct_us\n1,2,\n", "f.csv:2: column fct_us is empty, but slowdown is not"),
        (None, "bytes,start,finish\n1,2,1\n", "f.csv:2: column start must have a time that is not after finish"),
        (LOADS, "bytes,slowdown\n1,2\n", "flows have no place on the axis workload.load"),
        (None, "x\n1\n", "f.csv:1: the columns are x; a table of points has x and y"),
        (None, "x,y\nfar,1\n", 'f.csv:2: column x: "far" is not a flow size, such as 1500 or 10kB'),
        (None, "x,y\n1kB,1us\n", 'f.csv:2: column y: "1us" is not a number'),
        (LOADS, "x,y\n10kB,1\n", 'f.csv:2: column x: "10kB" is not a number or a quantity, as 0.3'),
        (LOADS, "x,slowdown.p9\n1,1\n", 'f.csv:1: no panel draws "slowdown.p9": did you mean "slowdown.p99"?'),
        (LOADS, "x,y,slowdown.mean\n1,1,1\n", "f.csv:1: y and slowdown.mean are the same panel"),
        (Axis.of("workload.sizes", ["web_search", "imc10"]), "x,y\n7,1\n", 'column x: "7" is not one of web_search, imc10'),
    ],
)
def test_a_wrong_file_is_named_with_line_and_column(tmp_path, axis, text, complaint):
    (tmp_path / "f.csv").write_text(text)
    with pytest.raises(ScenarioError) as told:
        overlays.read(tmp_path / "f.csv", "other", axis, ("slowdown.mean", "slowdown.p99"))
    assert complaint in str(told.value)
    assert "f.csv" in str(told.value)


def test_flows_without_a_common_measure_are_refused_before_anything_runs(tmp_path):
    (tmp_path / "a.csv").write_text("bytes,slowdown\n1000,2\n")
    (tmp_path / "b.csv").write_text("bytes,fct_us\n1000,2\n")
    (tmp_path / "c.csv").write_text("bytes,fct_us,optimum\n1000,2,0.000001\n")
    files = {name: tmp_path / f"{name}.csv" for name in "abc"}
    with pytest.raises(ScenarioError, match=r"b\.csv has no slowdowns, and .*a\.csv has no completion times"):
        flowloom.compare(SMALL, ["phost"], beside={name: files[name] for name in "ab"})
    overlays.check_shared([overlays.read(files[name], name) for name in "bc"])


class Told(Silent):
    """Keep warnings and notes."""

    def __init__(self):
        self.lines = []
        self.notes = []

    def warn(self, text):
        self.lines.append(text)

    def note(self, text):
        self.notes.append(text)


def test_variants_that_are_the_same_scenario_are_told(fake):
    told = Told()
    same = {"a": {"workload.load": 0.6}, "b": {"transport.name": "phost"}, "c": {"workload.load": 0.5}}
    compared = flowloom.compare('[workload]\nkind = "poisson"\n', variants=same, executor=Inline(), reporter=told)
    assert told.lines == ["a; b: these are the same scenario, which is run once"]
    assert compared["a"] is compared["b"]


def buffers(runs):
    return [tomllib.loads(run.scenario)["fabric"]["buffer"] for run in runs]


def test_compared_transports_have_the_memory_that_the_neediest_one_needs():
    told = Told()
    compared = flowloom.compare(SMALL, ["phost", "dctcp"], workers=1, reporter=told)
    assert buffers(compared.values()) == ["360kB", "360kB"]
    expected = (
        "fabric.buffer = 360 kB for all, since the scenario gives none: dctcp needs it for 240 packets, as in the PIAS paper"
    )
    assert told.notes == [expected]
    assert buffers([flowloom.run(SMALL), flowloom.run(SMALL, {"transport.name": "dctcp"})]) == ["36.864kB", "360kB"]

    told = Told()
    given = flowloom.compare(SMALL + '[fabric]\nbuffer = "50kB"\n', ["phost", "dctcp"], workers=1, reporter=told)
    assert buffers(given.values()) == ["50kB", "50kB"] and not told.notes


def test_points_share_memory_with_those_that_differ_in_the_transport_alone():
    told = Told()
    axes = {"fabric.wire": ["ip_1500", "ethernet_1538"], "transport.name": ["phost", "dctcp"]}
    swept = flowloom.sweep(SMALL, axes, workers=1, reporter=told)
    assert buffers(run.results for run in swept) == ["360kB", "360kB", "369.12kB", "369.12kB"]
    assert [note.split(" for ")[0] for note in told.notes] == ["fabric.buffer = 360 kB", "fabric.buffer = 369.1 kB"]
    # A parameter of the transport may change what it needs: a first window of 200 packets and 97.5 kB, above which ports mark.
    windows = {"transport.dctcp.initial_window": [10, 200], "transport.name": ["dctcp"]}
    assert buffers(run.results for run in flowloom.sweep(SMALL, windows, workers=1)) == ["397.5kB", "397.5kB"]
    # Where a point gives the memory itself, it keeps it.
    own = {"shallow": {"transport.name": "dctcp", "fabric.buffer": "40kB"}}
    assert buffers(flowloom.compare(SMALL, ["phost", "dctcp"], variants=own, workers=1).values()) == ["360kB", "360kB", "40kB"]


def test_labels_of_files_are_after_the_colon(tmp_path):
    assert overlays.split("a/b.csv:my tool") == ("my tool", overlays.Path("a/b.csv"))
    assert overlays.split("a/b.csv") == ("b", overlays.Path("a/b.csv"))
    (tmp_path / "a:b.csv").write_text("")
    assert overlays.split(str(tmp_path / "a:b.csv")) == ("a:b", tmp_path / "a:b.csv")
    with pytest.raises(ScenarioError, match="give a file and a label"):
        overlays.split(":x")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--with", "nowhere.csv:x"], "cannot read nowhere.csv: No such file"),
        (["--with", "/dev/zero:x"], "not a regular file"),
        (["--with", "F:phost"], 'the label "phost" is given twice'),
        (["--with", "F:a", "--with", "F:a"], 'the label "a" is given twice'),
        (["--with", "S:a"], "the columns are [topology]"),
    ],
)
def test_files_are_checked_before_anything_runs(scenario, tmp_path, words, complaint):
    (tmp_path / "f.csv").write_text("bytes,slowdown\n1000,2\n")
    words = [word.replace("F:", f"{tmp_path / 'f.csv'}:").replace("S:", f"{scenario}:") for word in words]
    said = call("compare", scenario, "--transports", "phost", *words, "--out", tmp_path / "c", code=2).stderr
    assert complaint in said
    assert not (tmp_path / "c").exists()
