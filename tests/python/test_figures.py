from __future__ import annotations

import json
import math
import re
import shutil
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from typer.testing import CliRunner

from conftest import FIGURE
from flowloom import ScenarioError, toml
from flowloom.claims import ledger
from flowloom.claims.digests import merged
from flowloom.claims.entries import About, OfCheck, OfClaim
from flowloom.cli import app
from flowloom.figures import catalogue, paper, reader, schema
from flowloom.figures.grid import TRIAL_SEED, Grid, PlannedRun, choose, expressions, plan, settings, trials
from flowloom.figures.paper import run_figure
from flowloom.figures.saved import SavedGrid
from flowloom.jobs import Job, Store, run_jobs
from flowloom.plots import figure as drawing
from flowloom.plots import frames, style
from flowloom.progress import Silent
from flowloom.reports.figures import drawn as panels_of
from flowloom.results import Results

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = catalogue.figures()


UNTOUCHED = {
    "pase/failures": ("failure", {"dctcp"}),  # it has no arbitrators
    "pase/fig12a": ("cut", {"pfabric", "ideal"}),
    "rivals/expresspass-newcomer": ("form", {"dctcp"}),
}
"""Transports of a figure whose runs are the same along an axis."""


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_shipped_figure_is_valid_in_every_run(path):
    figure = reader.read(path)
    runs = plan(figure, "quick") + trials(figure, "quick")
    axis, untouched = UNTOUCHED.get(f"{path.parent.name}/{path.stem}", ("", set()))
    keys = {}
    for run in runs:
        point = {name: value for name, value in run.point.items() if name != axis or run.point["transport"] not in untouched}
        keys.setdefault(repr((point, run.tuning, run.seed)), set()).add(run.job.key)
    assert all(len(same) == 1 for same in keys.values())
    assert len(set.union(*keys.values())) == len(keys)
    assert {"quick", "full"} <= figure.scales.keys()
    assert figure.panels
    if figure.tool is None:
        for run in runs:
            if run.seed in (1, TRIAL_SEED):
                run.job.scenario.plan()  # its workload and its transport fit its network


def test_a_run_has_a_name_of_one_line():
    """Labels of ticks may have several, and the progress of pase/failures came apart."""
    figure = next(reader.read(path) for path in SHIPPED if path.match("pase/failures.toml"))
    names = {run.job.label for run in plan(figure, "quick")}
    assert "one dies, pase, seed 1" in names and not any("\n" in name for name in names)


def test_the_claims_of_a_paper_are_all_asked():
    asked = {claim.id for path in SHIPPED for claim in reader.read(path).claims}
    claims = {"phost": 15, "pias": 15, "pase": 20, "top": 18}
    assert {f"{paper}/{n}" for paper, last in claims.items() for n in range(1, last + 1)} <= asked


def test_every_claim_on_the_testbeds_inferred_values_says_so():
    on_rack = {claim.id: claim for path in SHIPPED for figure in [reader.read(path)] for claim in figure.claims
               if figure.scenario.parts[-2:] == ("pias", "rack.toml")}  # fmt: skip
    # Figure 10 sets its own windows and timeouts.
    assert {name for name, claim in on_rack.items() if not claim.calibrated} == {"pias/6"}
    assert len(on_rack) == 9


def test_table_1_stands_with_and_without_what_was_inferred():
    figure = reader.read(ROOT / "papers/pias/table1.toml")
    of = {"inferred": [], "open": []}
    for setting in settings(figure, "quick"):
        of[setting.point["parameters"]].append(merged(setting.question))
    for table in of["inferred"]:
        table["transport"]["pias"]["tcp"]["max_window"] = 65536
        table["metrics"]["request_delay"] = "67.5us"
        for part in table["workload"]["part"]:
            part["think"] = "67.5us"
    assert of["inferred"] == of["open"]


def test_figures_that_share_runs_share_them():
    def keys(name):
        return {run.job.key for run in plan(reader.read(ROOT / f"papers/phost/{name}.toml"), "quick")}

    assert keys("fig3") == keys("fig4") == keys("fig5a") == keys("fig5d")
    assert keys("fig5f") < keys("fig3")


def figure_with(papers: Path, old: str, new: str) -> schema.Figure:
    assert FIGURE.count(old) >= 1
    (papers / "fig1.toml").write_text(FIGURE.replace(old, new, 1))
    return reader.read(papers / "fig1.toml")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("title =", 'tool = "treshold"\ntitle =', r'unknown tool "treshold": there are thresholds|did you mean "thresholds"'),
        ('key = "workload.load"\n', "", r"axis load sets nothing: it needs `key`, or a \[\[set\]\]"),
        ("title =", "titel =", r"fig1\.toml:1: titel: unknown key in a figure: did you mean \"title\""),
        ("key = ", "keys = ", r"fig1\.toml:5: keys: unknown key in \[\[axis\]\]: did you mean \"key\""),
        ("seeds = 2", "seeds = 0", r"seeds: must be at least 1"),
        ("seeds = 2", 'seeds = "2"', r"seeds: must be a whole number, not \"2\""),
        ("seeds_max = 4", "seeds_max = 1", r"seeds_max: must be at least `seeds`, 2"),
        ("seeds_max = 4", "seeds_max = 1001", r"seeds_max: must be at most 1000"),
        (
            'key = "workload.load"',
            'key = "run.seed"',
            r"fig1\.toml:5: key: no axis can set it: each point is run with the seeds",
        ),
        ("at_most = 0.5 }", "at_most = 0.5, given = true }", r"given: must be a string, not true"),
        ("seeds = 2", "sets = 2", r"sets: unknown key in \[scale.quick\]"),
        ("[scale.quick]", "[scale.quik]", r"needs \[scale.quick\]"),
        ('kind = "lines"', 'kind = "line"', r'unknown panel kind "line": did you mean "lines"'),
        ('x = "load"', 'x = "laod"', r'unknown axis "laod": did you mean "load"'),
        ('x = "load"', 'x = "transport"', r'series: x and series are both "transport"'),
        ('x = "load"', 'log_x = "yes"', r"log_x: must be true or false|needs `x`"),
        ('kind = "ratio"', 'kind = "ration"', r'unknown check "ration": did you mean "ratio"'),
        ('metric = "nfct"\n', "", r"\[\[claim.check\]\] of kind ratio needs `metric`"),
        ("at_least", "at_lest", r'at_lest: unknown key in \[\[claim.check\]\] of kind ratio: did you mean "at_least"'),
        ('{ transport = "ideal" }', '{ transport = "idle" }', r"axis transport has no \"idle\": it has"),
        ('{ transport = "ideal" }', '{ transpot = "ideal" }', r'transpot: unknown axis: did you mean "transport"'),
        ('kind = "lines"', 'kind = "cdf"', r"y: unknown key in \[\[panel\]\] of kind cdf"),
        ('y = "slowdown.mean"', 'y = "slowdown.mean"\nsizes = { up_to = "1kB" }', r"sizes: unknown key in .* of kind lines"),
        ('y = "slowdown.mean"', 'y = "slowdown.mean"\nto = { load = [0.3, 0.6] }', r"to: must select one value of load"),
        ('y = "slowdown.mean"', 'y = "slowdown.mean"\nto = { lod = 0.3 }', r'lod: unknown axis: did you mean "load"'),
        ('y = "slowdown.mean"', 'y = "slowdown.mean"\nreduction = true', r"reduction: .* needs `to`"),
        (
            'y = "slowdown.mean"',
            'y = "slowdown.mean"\nto = { load = 0.3 }\nwhere = { load = 0.3 }',
            r"to: nothing is left to draw: the panel selects no other value of load",
        ),
        ('to = { transport = "ideal" }', 'to = { transport = ["ideal", "phost"] }', r"to: must select one value of transport"),
        ("values = [0.3, 0.6]", "values = []", r"fig1\.toml:6: values: is empty"),
        ("values = [0.3, 0.6]", 'values = [0.3]\nreading = "x"', r"reading: axis load has one value; readings .* at least two"),
        (
            'values = ["phost", "pfabric", "ideal"]',
            'values = ["phost", "pfabric", "ideal"]\nreading = "x"\n'
            '[[axis]]\nname = "b"\nvalues = [1, 2]\nkey = "workload.flows"\nreading = "x"',
            r"at most one axis of readings, not transport and b",
        ),
        ("values = [0.3, 0.6]", "values = [0.3", r"fig1\.toml: .*line"),
        # Values of another type.
        ('where = { transport = "phost" }', 'where = "phost"', r'fig1\.toml:40: where: must be a table, not "phost"'),
        ("values = [0.3, 0.6]", "values = [0.3, 0.6]\nlabels = [1, 2]", r"fig1\.toml:7: labels: must be a string, not 1"),
        ("at_least = 1.0", 'at_least = "1"', r'fig1\.toml:35: at_least: must be a finite number, not "1"'),
        ("at_least = 1.0", "at_least = nan", r"fig1\.toml:35: at_least: must be a finite number, not nan"),
        ("at_least = 1.0", "at_least = true", r"fig1\.toml:35: at_least: must be a finite number, not true"),
        ("values = [0.3, 0.6]", "values = [0.3, nan]", r"fig1\.toml:6: values: must be a finite number, not nan"),
        (
            "values = [0.3, 0.6]",
            "values = [2020-01-01]",
            r"fig1\.toml:6: values: must be a number, a string, .* not 2020-01-01",
        ),
        ("values = [0.3, 0.6]", "values = [0.3, 0.3]", r"fig1\.toml:6: values: has the value 0.3 twice"),
        ('y = "slowdown.mean"', "y = 3", r"fig1\.toml:24: y: must be a list, not 3"),
        ('x = "load"', 'x = "load"\nlog_y = 1', r"fig1\.toml:24: log_y: must be true or false, not 1"),
        ('x = "load"', 'x = "load"\nx_min = 2\nx_max = 1', r"fig1\.toml:25: x_max: must be more than x_min, 2"),
        ('x = "load"', 'x = "load"\nlog_y = true\ny_min = 0', r"fig1\.toml:25: y_min: must be more than 0 on a logarithmic"),
        # Names that are not known.
        ('y = "slowdown.mean"', 'y = "slowdwn.mean"', r'fig1\.toml:24: y: .* no "slowdwn" here: did you mean "slowdown"'),
        (
            'y = "slowdown.mean"',
            'y = "slowdown"',
            r"fig1\.toml:24: y: .* must be a number, but is a group of values: mean, p50",
        ),
        ('y = "slowdown.mean"', 'y = "transport"', r"fig1\.toml:24: y: .* its value must be a number, but is a text"),
        (
            'y = "slowdown.mean"',
            "y = 'queue[\"leaf-host\"].mean'",
            r'fig1\.toml:24: y: .* no "mean" here: there are mean_bytes, peak_bytes',
        ),
        ('metric = "nfct"', 'metric = "nfc"', r'fig1\.toml:32: metric: .* no "nfc" here: did you mean "nfct"'),
        (
            'kind = "lines"',
            'kind = "course"\ncourse = "pendin"',
            r'course: a run records no series "pendin": did you mean "pending"',
        ),
        ('key = "workload.load"', 'key = ""', r'fig1\.toml:5: key: "" is not the key of a scenario'),
        ('key = "workload.load"', 'key = "run__seed"', r'fig1\.toml:5: key: "run__seed" is not the key of a scenario'),
        ('key = "workload.load"', 'key = "transport.name"', r"axis: has the key \"transport.name\" twice"),
        ('name = "load"', 'name = "seed"', r"fig1\.toml:4: name: no axis can be called seed"),
        ('id = "tiny/2"', 'id = "tiny/1"', r'claim: has the id "tiny/1" twice'),
        # Checks that select nothing, or cannot fail.
        ("at_least = 1.0\n", "", r"fig1\.toml:31: kind: a check without limits cannot fail"),
        ("at_least = 1.0", "at_least = 1.0\nat_most = 0.5", r"fig1\.toml:31: kind: a check without limits cannot fail"),
        ('where = { transport = "phost" }', "where = { transport = [] }", r"fig1\.toml:40: transport: selects no value"),
        (
            'kind = "ratio"\nmetric = "nfct"',
            'kind = "order"\nmetric = "nfct"\nacross = "load"\nrising = [0.3, 0.7]\n'
            '[[claim.check]]\nkind = "ratio"\nmetric = "nfct"',
            r"fig1\.toml:30: check: `rising` must list at least two different values of load, which has 0.3, 0.6",
        ),
        (
            'kind = "ratio"\nmetric = "nfct"',
            'kind = "same_order"\nmetric = "nfct"\nacross = "transport"\nalong = "load"\nat = { transport = "ideal" }\n'
            '[[claim.check]]\nkind = "ratio"\nmetric = "nfct"',
            r"fig1\.toml:30: check: `at` must select one of the values of load",
        ),
        ("[scale.quick]", "[scale.quick]\nset = 3", r"set: must be a list, not 3"),
        ("title =", 'extends = "fig1.toml"\ntitle =', r"fig1\.toml:1: extends: the figure extends itself"),
        ("title =", 'extends = "fig9.toml"\ntitle =', r"cannot read the figure .*fig9\.toml"),
        (
            "[scale.quick]",
            '[[axis]]\nname = "w"\nkey = "workload"\nvalues = [{ kind = "burst" }]\n[scale.quick]',
            r"fig1\.toml:3: axis: axis load has no effect: axis w, which comes after it, sets the whole table workload; let w",
        ),
        (
            "[scale.quick]",
            '[[tune]]\nminimise = "nfct"\nkeys = { "workload.load" = [0.1, 0.2] }\n[scale.quick]',
            r"a tuning cannot try values of workload\.load, as axis load sets workload\.load",
        ),
        (
            "[scale.quick]",
            '[[tune]]\nminimise = "nfct"\nkeys = { transport = [{ name = "phost" }, { name = "tcp" }] }\n[scale.quick]',
            r"a tuning cannot try values of transport, as axis transport sets transport\.name",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_would_be_right(papers, old, new, complaint):
    with pytest.raises(ScenarioError) as error:
        figure_with(papers, old, new)
    assert re.search(complaint, str(error.value)), str(error.value)


def test_a_trial_that_selects_nothing_is_told(papers):
    tune = TUNE.replace("minimise", 'at = { transport = "phost" }\nminimise')
    with pytest.raises(
        ScenarioError, match=r"fig1\.toml:14: tune: no trial selects the parameters of the point load 0.3, pfabric"
    ):
        figure_with(papers, "[scale.quick]", tune)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("values = [0.3, 0.6]", "values = [0.3, 6]", r"fig1\.toml:6: at load 6, phost: workload\.load: found 6, expected"),
        ('key = "workload.load"', 'key = "workload.lod"', r"fig1\.toml:6: at load 0.3, phost: workload\.lod: unknown key"),
        (
            "[scale.quick]",
            '[[set]]\nkeys = { "workload.flos" = 1 }\n[scale.quick]',
            r"fig1\.toml:14: .*workload\.flos: unknown key",
        ),
        ("seeds_max = 4", 'set = [{ keys = { "run.nope" = 1 } }]', r"fig1\.toml:15: .*run\.nope: unknown key"),
        ("title =", 'scenario = "nope.toml"\ntitle =', r"fig1\.toml: scenario: cannot read the scenario .*nope\.toml"),
    ],
)
def test_an_error_in_a_scenario_names_the_place_in_the_figure_and_no_option(papers, old, new, complaint):
    figure = figure_with(papers, old, new)
    with pytest.raises(ScenarioError, match=complaint) as error:
        plan(figure, "quick")
    assert "--set" not in str(error.value)


def test_an_option_that_was_typed_is_named_as_it_was_typed(papers):
    with pytest.raises(ScenarioError, match=r"fig1\.toml: at load 0.3, phost: --set workload\.flows=-1: workload\.flows"):
        plan(reader.read(papers / "fig1.toml"), "quick", changes={"workload.flows": -1})


SPELLINGS = """
"title" = 'Spelt otherwise'
'axis' = [
    { name = "load", key = "workload.load", values = [0.3, 0.6] },
    { name = "transport", key = "transport.name", values = ["phost", "ideal"] },
]
scale.quick.seeds = 2
scale . "quick" . seeds_max = 4
"p\\u0061nel" = [{ kind = "lines", x = "load", y = "slowdown.mean" }]
[[ "claim" ]]
id = "tiny/1"
says = ""
check = [
    { kind = "level", metric = "nfct", at_most = 2 },
    { kind = "level", metric = "nfct", where = { transport = "phost" }, at_most = 3 },
]
"""


def test_any_spelling_of_a_table_is_read_and_its_lines_are_found(papers):
    path = papers / "fig1.toml"
    path.write_text(SPELLINGS)
    assert catalogue.figures() == [path]
    figure = reader.read(path)
    assert [axis.name for axis in figure.axes] == ["load", "transport"]
    assert (figure.scales["quick"].seeds_max, figure.panels[0].kind, len(figure.claims[0].checks)) == (4, "lines", 2)
    for old, new, line in (
        ("'Spelt otherwise'", "1", 2),
        ('key = "transport.name"', 'key = ""', 4),
        ("seeds_max = 4", "seeds_max = 1", 8),
        ('"lines"', '"line"', 9),
        ('says = ""', "says = 1", 12),
        ("at_most = 3", 'at_most = "3"', 14),  # the first line of the list with this key
    ):
        path.write_text(SPELLINGS.replace(old, new))
        with pytest.raises(ScenarioError, match=rf"fig1\.toml:{line}: "):
            reader.read(path)


def test_an_axis_may_mix_numbers_and_texts(papers, tmp_path):
    (papers / "fig1.toml").write_text(
        FIGURE.replace("values = [0.3, 0.6]", 'values = [0.3, "0.6"]').replace('"workload.load"', '"mixed"')
    )
    figure = reader.read(papers / "fig1.toml")
    runs = [
        PlannedRun(at.point, seed, {}, "", Job("", None, f"{number} {seed}"))
        for number, at in enumerate(settings(figure, "quick"))
        for seed in (1, 2)
    ]
    summary = {"slowdown": {"mean": 1.0}, "nfct": 1.0, "transport": "phost"}
    grid = Grid(figure, runs, {run.job.key: Silenced(summary, "", {}) for run in runs})
    assert set(pa.Table.from_pylist(grid.rows(["nfct"]))["load"].to_pylist()) == {"0.3", "0.6"}


@pytest.mark.parametrize("kind", ["lines", "bars"])
@pytest.mark.parametrize("rest", ["", "log_y = true", "y_min = 5", "log_y = true\ny_min = 5"])
@pytest.mark.parametrize("value", [0.0, 1.0, None])
def test_a_panel_may_have_nothing_above_its_base(papers, tmp_path, kind, rest, value):
    """Metrics such as drops are often 0 at every point. No warning of the drawing library reaches the user."""
    text = FIGURE.replace('kind = "lines"', f'kind = "{kind}"').replace('y = "slowdown.mean"', f'y = "nfct"\n{rest}')
    (papers / "fig1.toml").write_text(text)
    figure = reader.read(papers / "fig1.toml")
    runs = [PlannedRun(at.point, 1, {}, "", Job("", None, f"{n}")) for n, at in enumerate(settings(figure, "quick"))]
    grid = Grid(figure, runs, {run.job.key: Silenced({"nfct": value, "transport": "phost"}, "", {}) for run in runs})
    assert all(path.stat().st_size for path in drawing.draw(grid, tmp_path / "drawn", ""))


class Silenced(Results):
    """Made-up results, which have no warnings."""

    warnings = ()


DISTRIBUTIONS = """\
extends = "fig1.toml"
title = "Completion times"

[[panel]]
kind = "cdf"
x = "fct_us / 1000"
where = { load = 0.6, transport = ["phost", "pfabric"] }

[[panel]]
kind = "cdf"
x = "fct_us / 1000"
sizes = { up_to = "10kB" }
where = { load = 0.6, transport = ["phost", "pfabric"] }

[[claim]]
id = "tiny/3"
says = "The bound is ahead for almost all flows."

[[claim.check]]
kind = "quantiles_below"
quantity = "slowdown"
of = { transport = "ideal" }
to = { transport = "phost" }
where = { load = 0.6 }
at_least = 0.0
"""


@pytest.fixture
def distributions(papers):
    """A figure of distributions over the runs of fig1."""
    (papers / "fig2.toml").write_text(DISTRIBUTIONS)
    return reader.read(papers / "fig2.toml")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            'x = "fct_us / 1000"',
            'x = "fct / 1000"',
            r'fig2\.toml:6: x: `fct / 1000`: flows have no "fct": did you mean "fct_us"',
        ),
        ('up_to = "10kB"', "up_to = 10", r'sizes: "10" is not a number of bytes'),
        ('quantity = "slowdown"', 'quantity = "slow"', r'quantity: `slow`: flows have no "slow"'),
        ("at_least = 0.0", "between = [0.9, 0.1]", r"between: must be two shares in ascending order"),
        ("at_least = 0.0", 'sizes = { above = "x" }', r'sizes: "x" is not a number of bytes'),
        ("title =", 'tool = "thresholds"\ntitle =', r'is a quantity of flows, and the tool "thresholds" simulates none'),
    ],
)
def test_a_mistake_in_a_distribution_is_told_before_anything_runs(papers, old, new, complaint):
    assert old in DISTRIBUTIONS
    (papers / "fig2.toml").write_text(DISTRIBUTIONS.replace(old, new, 1))
    with pytest.raises(ScenarioError, match=complaint):
        reader.read(papers / "fig2.toml")


class Watching(Silent):
    """Counts the runs that are simulated, and keeps the warnings."""

    def __init__(self):
        self.simulated, self.warnings = 0, []

    def begin(self, runs, kept):
        self.simulated += runs

    def warn(self, text):
        self.warnings.append(text)


def run_watched(figure, out, runs, **options):
    watching = Watching()
    outcome = run_figure(figure, "quick", out=out, runs=runs, reporter=watching, **options)
    return outcome, watching


def test_a_distribution_can_be_drawn_again_from_its_data(distributions, tmp_path):
    outcome, _ = run_watched(distributions, tmp_path / "out", tmp_path / "runs", executor=ThreadPoolExecutor(1))
    rows = pq.read_table(outcome.directory / "quantiles.parquet").to_pylist()
    assert (
        rows
        == csv.read_csv(outcome.directory / "quantiles.csv")
        .cast(pq.read_schema(outcome.directory / "quantiles.parquet"))
        .to_pylist()
    )
    assert len(rows) == 2 * 2 * 1001
    assert {(row["load"], row["sizes"]) for row in rows} == {(0.6, ""), (0.6, "up to 10 kB")}
    runs = pq.read_table(outcome.directory / "data.parquet").to_pylist()
    for name in ("phost", "pfabric"):
        for sizes, largest in (("", math.inf), ("up to 10 kB", 10_000)):
            tables = [
                pq.read_table(tmp_path / "runs" / run["run"] / "flows.parquet").to_pylist()
                for run in runs
                if (run["transport"], run["load"]) == (name, 0.6)
            ]
            flows = [flow for table in tables for flow in table if flow["bytes"] <= largest]
            values = sorted((flow["finish"] - flow["start"]) * 1e3 for flow in flows)
            drawn = [row for row in rows if (row["transport"], row["sizes"]) == (name, sizes)]
            assert len(tables) == outcome.seeds
            assert {row["flows"] for row in drawn} == {len(values)}
            assert [row["share"] for row in drawn] == pytest.approx([step / 1000 for step in range(1001)])
            expected = [values[max(math.ceil(step * len(values) / 1000) - 1, 0)] for step in range(1001)]
            assert [row["value"] for row in drawn] == pytest.approx(expected)


def test_only_the_flow_tables_that_a_figure_needs_are_kept(distributions, papers, tmp_path):
    runs = tmp_path / "runs"
    _, watching = run_watched(reader.read(papers / "fig1.toml"), tmp_path / "1", runs, executor=ThreadPoolExecutor(1))
    assert (watching.simulated, len(list(runs.glob("*/flows.parquet")))) == (12 + 12, 0)
    # All runs exist, and those at load 0.6 are made once more with their flows: two drawn, and one that the check needs.
    second, watching = run_watched(distributions, tmp_path / "2", runs, executor=ThreadPoolExecutor(1))
    assert second.seeds == 2
    assert (watching.simulated, len(list(runs.glob("*/flows.parquet")))) == (6, 6)
    before = {p.name: p.read_bytes() for p in second.directory.iterdir() if p.name != "claims.json"}
    _, watching = run_watched(distributions, tmp_path / "2", runs, executor=ThreadPoolExecutor(1))
    assert (watching.simulated, watching.warnings) == (0, [])
    assert {p.name: p.read_bytes() for p in second.directory.iterdir() if p.name != "claims.json"} == before
    # Without a need for them, flow tables stay.
    run_watched(reader.read(papers / "fig1.toml"), tmp_path / "1", runs, executor=ThreadPoolExecutor(1))
    assert len(list(runs.glob("*/flows.parquet"))) == 6


def test_distributions_are_the_same_on_any_executor(distributions, tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, local_directory=str(tmp_path)
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        run_watched(distributions, tmp_path / "remote", tmp_path / "runs1", executor=client.get_executor())
    run_watched(distributions, tmp_path / "local", tmp_path / "runs2", workers=2)
    for name in ("quantiles.parquet", "quantiles.csv", "fig2.svg"):
        assert (tmp_path / "remote" / name).read_bytes() == (tmp_path / "local" / name).read_bytes(), name


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-30])])
def test_a_damaged_flow_table_is_named_and_made_anew(distributions, tmp_path, damage):
    runs = tmp_path / "runs"
    outcome, _ = run_watched(distributions, tmp_path / "out", runs, executor=ThreadPoolExecutor(1))
    before = (outcome.directory / "quantiles.csv").read_bytes()
    path = min(runs.glob("*/flows.parquet"))
    damage(path)
    _, watching = run_watched(distributions, tmp_path / "out", runs, executor=ThreadPoolExecutor(1))
    (warning,) = watching.warnings
    assert str(path) in warning
    assert "is simulated again" in warning
    assert watching.simulated == 1
    assert (outcome.directory / "quantiles.csv").read_bytes() == before


def test_a_flow_table_that_is_damaged_while_the_figure_is_drawn_is_named(distributions, tmp_path):
    runs = plan(distributions, "quick")
    made = run_jobs([run.job for run in runs], executor=ThreadPoolExecutor(1), store=Store(tmp_path / "runs"))
    grid = Grid(distributions, runs, made)
    (drawn, *_) = grid.points(distributions.selected(distributions.panels[0]))
    path = next(made[run.job.key].directory for run in runs if run.point == drawn) / "flows.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(ScenarioError, match=re.escape(f"{path} is damaged")):
        grid.quantile_rows()


def test_a_gain_over_a_baseline_is_paired_by_seed(papers):
    text = FIGURE.replace('y = "slowdown.mean"', 'y = "slowdown.mean"\nto = { transport = "ideal" }\nreduction = true')
    (papers / "fig1.toml").write_text(text)
    figure = reader.read(papers / "fig1.toml")
    runs = plan(figure, "quick")
    # The baseline is 10 or 30, and phost is 10 % and 20 % below it.
    factor = {"ideal": (1, 1), "phost": (0.9, 0.8), "pfabric": (2, 0)}
    made = {
        run.job.key: Results(
            {"slowdown": {"mean": (10, 30)[run.seed - 1] * factor[run.point["transport"]][run.seed - 1]}}, "", {}
        )
        for run in runs
    }
    grid, panel = Grid(figure, runs, made), figure.panels[0]
    assert panel.shown(figure.axis("transport")) == ["phost", "pfabric"]
    found = grid.drawn(panel, "slowdown.mean", {"load": 0.3, "transport": "phost"})
    # The standard error of two values is half their difference, and Student's t for one degree of freedom is 12.706.
    assert (found.mean, found.half_width) == pytest.approx((0.15, 12.706 * 0.05), rel=1e-4)
    to_pfabric = panel.model_copy(update={"to": {"transport": ["pfabric"]}})
    assert math.isnan(grid.drawn(to_pfabric, "slowdown.mean", {"load": 0.3, "transport": "phost"}).mean)


def test_a_picture_says_of_how_many_seeds_its_means_are(papers):
    figure = reader.read(papers / "fig1.toml")
    runs = plan(figure, "quick", 3)

    def footnote(without):
        """Return the footnote if the runs of some seeds at a load of 0.6 have no value."""
        summary = {
            (load, seed): {"slowdown": {"mean": math.nan if load == 0.6 and seed in without else 2.0}}
            for load in (0.3, 0.6) for seed in (1, 2, 3)
        }  # fmt: skip
        grid = Grid(figure, runs, {r.job.key: Results(summary[r.point["load"], r.seed], "", {}) for r in runs})
        (note,) = (plots.note for plots in panels_of(grid))
        return paper._footnote(grid, "quick", 3, {}).partition(": ")[2], note

    whole = "mean of 3 seeds, bars: 95 % (Student t)", "Means of 3 seeds with 95 % confidence intervals (Student's t)"
    assert footnote(()) == footnote((1, 2, 3)) == whole  # what has no value in any run is drawn as none
    fewer = "; means over different seeds are not of the same flows"
    assert footnote((2,)) == ("mean of 2 to 3 seeds, bars: 95 % (Student t)" + fewer, whole[1].replace("3", "2 to 3") + fewer)


def test_rules_apply_where_they_say_and_scales_last(papers):
    rules = """
    [[set]]
    keys = { "workload.flows" = 50, "transport.phost.free_tokens" = 3 }
    [[set]]
    when = { load = 0.6, transport = "phost" }
    keys = { "workload.flows" = 70 }
    [scale.quick]
    """
    figure = figure_with(papers, "[scale.quick]", rules)
    flows = {(r.point["load"], r.point["transport"]): _flows(r) for r in plan(figure, "quick")}
    assert flows == {(load, t): 70 if (load, t) == (0.6, "phost") else 50 for load, t in flows}
    assert {_flows(r) for r in plan(figure, "full")} == {300}


def test_the_last_rule_decides_even_if_one_before_it_replaces_a_whole_table(papers):
    rules = """
    [[set]]
    keys = { "workload.load" = 0.5, "workload.flows" = 10 }
    [[set]]
    keys = { workload = { kind = "poisson", sizes = "imc10", load = 0.4, flows = 77 } }
    [[set]]
    keys = { "workload.flows" = 200 }
    [scale.quick]
    trials = { "workload.flows" = 30 }
    """
    tune = """
    [[tune]]
    at = { load = 0.3 }
    minimise = "nfct"
    keys = { "workload.sizes" = ["imc10", "web_search"] }
    """
    figure = figure_with(papers, "[scale.quick]", tune + rules)
    planned = plan(figure, "quick", chosen={("0", toml.value(t)): {} for t in ("phost", "pfabric", "ideal")})
    loads = {(run.point["load"], _load(run), _flows(run)) for run in planned}
    assert loads == {(0.3, 0.3, 200), (0.6, 0.6, 200)}
    assert {(_load(run), _flows(run)) for run in trials(figure, "quick")} == {(0.3, 30)}
    assert {_flows(run) for run in trials(figure, "quick", {"workload.flows": 5})} == {5}


def test_no_option_overrides_an_axis_nor_the_table_that_it_is_in(papers):
    figure = reader.read(papers / "fig1.toml")
    refused = {"workload.load": "sets this key", "workload": "sets workload.load", "run.seed": "have the seeds"}
    for key, owner in refused.items():
        for written in (key, f"{key} ", key.replace(".", "__")):
            with pytest.raises(ScenarioError, match=rf"{key} cannot be set for tiny/fig1: its .*{owner}"):
                plan(figure, "quick", changes={written: {"kind": "poisson"}})
    said = call("paper", "run", "tiny/fig1", "--set", "workload.load = 0.5", code=2).stderr
    assert "workload.load cannot be set for tiny/fig1" in said
    assert plan(figure, "quick", changes={"workload.flows": 9})


@pytest.mark.parametrize(
    ("name", "key", "owner"),
    [
        # A part of an axis's value.
        ("pias/table1", "transport.pias.thresholds.0", "its axis threshold sets transport.pias.thresholds"),
        # Axes that only rules give a meaning.
        ("top/fig4", "transport.name", "its axis transport sets this key with rules"),
        ("pase/scale", "topology", "its axis hosts sets topology.racks with rules"),
        ("pias/fig11", "transport.pias.thresholds.1", "its axis queues sets transport.pias.thresholds with rules"),
        ("tournament/grounds", "fabric.buffer", "its axis ground sets this key with rules"),
        # Parts of tables that rules set, if they are not the same for each value of an axis.
        ("top/fig12", "workload.senders", "its axis senders sets this key with rules"),
        ("top/fig12", "topology.hosts", "its axis senders sets this key with rules"),
        ("phost/fig10", "transport.pfabric.rto", "its tuning tries values of this key"),
        ("phost/fig10", "transport.pfabric", "its tuning tries values of transport.pfabric.initial_window"),
    ],
)
def test_no_option_overrides_what_the_values_of_an_axis_or_a_tuning_mean(name, key, owner):
    figure = reader.read(ROOT / "papers" / f"{name}.toml")
    with pytest.raises(ScenarioError, match=rf"{key} cannot be set for {name}: {owner}; .* extends it") as error:
        next(settings(figure, "quick", {key: "30us"}))
    assert "[[" in str(error.value)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("phost/fig3", "transport.phost.free_tokens"),
        # Rules set these for values of an axis that sets a key of its own.
        ("pase/fig10a", "fabric.buffer"),
        ("pias/fig14", "transport.pias.thresholds"),
        # Rules of scales set the size of runs, and so does the length of a workload. Of other parts, rules say nothing.
        ("pase/scale", "workload.flows"),
        ("pase/choices", "workload.flows"),
        ("tournament/grounds", "transport.phost.slot_with_token"),
    ],
)
def test_an_option_overrides_what_is_the_same_along_the_axes(name, key):
    figure = reader.read(ROOT / "papers" / f"{name}.toml")
    assert next(settings(figure, "quick", {key: 7})).question.overrides[-1].startswith(key)


def test_a_rule_for_every_value_of_an_axis_says_nothing_of_their_difference(papers):
    axis = """
    [[axis]]
    name = "scheme"
    values = ["a", "b"]
    [[set]]
    when = { scheme = ["a", "b"] }
    keys = { "workload.flows" = 30 }
    [[set]]
    when = { scheme = "b" }
    keys = { "workload.sizes" = "web_search" }
    [scale.quick]"""
    figure = figure_with(papers, "[scale.quick]", axis)
    assert {_flows(run) for run in plan(figure, "quick", changes={"workload.flows": 9})} == {9}
    with pytest.raises(ScenarioError, match="its axis scheme sets this key with rules"):
        plan(figure, "quick", changes={"workload.sizes": "imc10"})


def _load(run) -> float:
    return tomllib.loads(run.job.scenario.resolve())["workload"]["load"]


def test_rules_may_say_what_an_axis_means(papers):
    rules = """
    [[axis]]
    name = "scheme"
    values = ["few", "many"]
    [[set]]
    when = { scheme = "many" }
    keys = { "workload.flows" = 90 }
    [scale.quick]
    """
    runs = plan(figure_with(papers, "[scale.quick]", rules), "quick")
    assert len(runs) == 2 * 2 * 2 * 3
    assert all((_flows(r) == 90) == (r.point["scheme"] == "many") for r in runs)


TOOL = """
title = "Thresholds"
tool = "thresholds"
[[axis]]
name = "queues"
key = "queues"
values = [1, 2]
[[set]]
keys = { sizes = "web_search", load = 0.8, reading = "exact" }
[scale.quick]
[[panel]]
kind = "bars"
x = "queues"
y = [{ metric = "found" }]
series = "metric"
"""


def test_a_figure_may_ask_the_solver_for_thresholds(papers, tmp_path):
    (papers / "fig1.toml").write_text(TOOL)
    figure = reader.read(papers / "fig1.toml")
    outcome = run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", executor=ThreadPoolExecutor(1))
    found = pq.read_table(outcome.directory / "data.parquet")["found"].to_pylist()
    # One queue is an M/M/1 queue at load 0.8, with a delay of 1 / (1 - 0.8).
    assert found[0] == pytest.approx(5.0)
    assert 1.0 < found[1] < 5.0
    (papers / "fig1.toml").write_text(TOOL.replace('key = "queues"', 'key = "queue"'))
    with pytest.raises(ScenarioError, match='no argument queue: did you mean "queues"'):
        plan(reader.read(papers / "fig1.toml"), "quick")


def test_scenarios_beside_figures_are_no_figures(papers):
    (papers / "rack.toml").write_text((papers / "default.toml").read_text())
    (papers / "table1.toml").write_text(FIGURE)
    assert [p.stem for p in catalogue.figures()] == ["fig1", "table1"]


def _flows(run) -> int:
    return int(re.search(r"flows = (\d+)", run.job.scenario.resolve())[1])


def test_one_figure_may_extend_another(papers):
    (papers / "fig2.toml").write_text(
        'extends = "fig1.toml"\ntitle = "The tail"\n[[panel]]\nkind = "bars"\nx = "load"\ny = "slowdown.p99"\n'
    )
    first, second = (reader.read(papers / name) for name in ("fig1.toml", "fig2.toml"))
    assert second.title == "The tail"
    assert [p.kind for p in second.panels] == ["bars"]
    assert second.claims == []
    assert [r.job.key for r in plan(second, "quick")] == [r.job.key for r in plan(first, "quick")]


def test_a_figure_may_extend_another_one_with_fewer_values_and_more_rules(papers):
    rules = """
    [[set]]
    when = { transport = ["phost", "pfabric"] }
    keys = { "workload.flows" = 70 }
    [[set]]
    when = { transport = "pfabric" }
    keys = { "transport.pfabric.rto" = "1ms" }
    [[tune]]
    when = { transport = "phost" }
    minimise = "slowdown.mean"
    keys = { "transport.phost.free_tokens" = [0, 8] }
    [[tune]]
    when = { transport = "pfabric" }
    minimise = "slowdown.mean"
    keys = { "transport.pfabric.initial_window" = [1, 2] }
    [scale.quick]
    """
    (papers / "fig1.toml").write_text(FIGURE.replace("[scale.quick]", rules))
    more = """
    extends = "fig1.toml"
    minimise = "slowdown.p99"
    [[axis]]
    name = "transport"
    key = "transport.name"
    values = ["phost", "ideal"]
    [[add]]
    when = { transport = "phost" }
    keys = { "workload.load" = 0.4 }
    """
    (papers / "fig2.toml").write_text(more)
    figure = reader.read(papers / "fig2.toml")
    assert [rule.when for rule in figure.rules] == [{"transport": ["phost"]}] * 2
    assert [(tune.when, tune.minimise) for tune in figure.tunes] == [({"transport": ["phost"]}, "slowdown.p99")]
    asked = {setting.point["transport"]: merged(setting.question)["workload"] for setting in settings(figure, "quick")}
    assert (asked["phost"]["flows"], asked["phost"]["load"], asked["ideal"]["flows"]) == (70, 0.4, 200)
    # Trials at points of an axis that this figure lacks select nothing.
    trials = rules.replace('minimise = "slowdown.mean"', 'minimise = "slowdown.mean"\n    at = { load = 0.6 }')
    (papers / "fig1.toml").write_text(FIGURE.replace("[scale.quick]", trials))
    with pytest.raises(ScenarioError, match=r"no trial selects the parameters of the point .*; correct `when` or `at`"):
        reader.read(papers / "fig2.toml")
    # A rule of an inherited scale has no effect either where this figure has no such axis.
    scale = '[scale.quick]\nset = [{ when = { load = 0.6 }, keys = { "workload.flows" = 1 } }]'
    (papers / "fig1.toml").write_text(FIGURE.replace("[scale.quick]", rules.replace("[scale.quick]", scale)))
    assert [setting.question for setting in settings(reader.read(papers / "fig2.toml"), "quick")] == [
        setting.question for setting in settings(figure, "quick")
    ]
    # A rule of the figure's own may not name a value that no axis has.
    (papers / "fig2.toml").write_text(more.replace('when = { transport = "phost" }', 'when = { transport = "pfabric" }'))
    with pytest.raises(ScenarioError, match="axis transport has no"):
        reader.read(papers / "fig2.toml")


TUNE = """
[[tune]]
when = { transport = "pfabric" }
minimise = "slowdown.mean"
keys = { "transport.pfabric.initial_window" = [1, 2, 12] }
[scale.quick]
"""


def test_tuning_shows_the_best_setting_of_each_point_and_keeps_the_others_in_the_data(papers):
    figure = figure_with(papers, "[scale.quick]", TUNE)
    runs = plan(figure, "quick")
    # In the made-up results, a larger window is better at load 0.3 and worse at 0.6.
    made = {}
    for run in runs:
        window = run.tuning.get("transport.pfabric.initial_window", 0)
        mean = window if run.point["load"] == 0.6 else 20 - window
        made[run.job.key] = Results({"slowdown": {"mean": mean + run.seed / 10}, "nfct": 1.0}, "", {})
    grid = Grid(figure, runs, made)

    def mean(grid, metric, point):
        return grid.estimate(metric, point).mean

    assert mean(grid, "slowdown.mean", {"load": 0.6, "transport": "pfabric"}) == pytest.approx(1.15)
    assert mean(grid, "slowdown.mean", {"load": 0.3, "transport": "pfabric"}) == pytest.approx(8.15)
    assert mean(grid, "slowdown.mean", {"load": 0.3, "transport": "phost"}) == pytest.approx(20.15)
    rows = [r for r in grid.rows(["slowdown.mean"]) if r["transport"] == "pfabric"]
    assert len(rows) == 12
    assert sum(r["shown"] for r in rows) == 4


def test_trials_may_have_keys_of_their_own(papers):
    tune = TUNE.replace("minimise", "at = { load = 0.3 }\nminimise") + 'trials = { "workload.flows" = 40 }\n'
    figure = figure_with(papers, "[scale.quick]", tune)
    assert {merged(run.job.scenario)["workload"]["flows"] for run in trials(figure, "quick")} == {40}
    assert {merged(run.job.scenario)["workload"]["flows"] for run in plan(figure, "quick")} == {200}
    wrong = figure_with(papers, "[scale.quick]", tune.replace("workload.flows", "workload.flos"))
    with pytest.raises(ScenarioError, match=r"fig1\.toml:20: at load 0.3, pfabric: workload\.flos: unknown key"):
        trials(wrong, "quick")


def test_trials_select_one_setting_for_all_points_that_differ_only_where_they_were_made(papers):
    figure = figure_with(papers, "[scale.quick]", TUNE.replace("minimise", "at = { load = 0.3 }\nminimise"))
    tried = trials(figure, "quick")
    assert [run.tuning["transport.pfabric.initial_window"] for run in tried] == [1, 2, 12]
    assert {(run.point["load"], run.point["transport"], run.seed) for run in tried} == {(0.3, "pfabric", TRIAL_SEED)}
    # A window of 2 is best at load 0.3, where it is tried, and is worst at load 0.6.
    means = dict(zip((run.job.key for run in tried), (3.0, 1.0, 2.0), strict=True))
    made = {key: Results({"slowdown": {"mean": mean}, "nfct": 1.0}, "", {}) for key, mean in means.items()}
    chosen = choose(figure, tried, made)
    runs = plan(figure, "quick", chosen=chosen)
    pfabric = [run for run in runs if run.point["transport"] == "pfabric"]
    assert [run.tuning for run in pfabric] == [{"transport.pfabric.initial_window": 2}] * 4
    assert all("initial_window = 2" in run.job.scenario.resolve() for run in pfabric)
    assert {run.seed for run in runs} == {1, 2}
    made |= {run.job.key: Results({"slowdown": {"mean": 5.0}, "nfct": 1.0}, "", {}) for run in runs}
    rows = Grid(figure, runs, made, tried).rows(["slowdown.mean"])
    assert [row["slowdown.mean"] for row in rows if not row["shown"]] == [3.0, 1.0, 2.0]
    assert sum(row["shown"] for row in rows) == len(runs)


def test_each_tuning_makes_its_own_choice(papers):
    """The points of both tunings differ in no axis outside of `at`."""
    tune = """
    [[tune]]
    when = { load = 0.6 }
    at = { load = 0.6, transport = "pfabric" }
    minimise = "nfct"
    keys = { "transport.pfabric.initial_window" = [1, 2] }
    [[tune]]
    when = { load = 0.3 }
    at = { load = 0.3, transport = "phost" }
    minimise = "nfct"
    keys = { "transport.phost.free_tokens" = [3, 4] }
    [scale.quick]
    """
    figure = figure_with(papers, "[scale.quick]", tune)
    tried = trials(figure, "quick")
    made = {run.job.key: Results({"nfct": -float(sum(run.tuning.values()))}, "", {}) for run in tried}
    chosen = choose(figure, tried, made)
    used = {(run.point["load"], *run.tuning.items()) for run in plan(figure, "quick", chosen=chosen)}
    assert used == {(0.6, ("transport.pfabric.initial_window", 2)), (0.3, ("transport.phost.free_tokens", 4))}
    # The trials of one tuning select nothing for the other.
    with pytest.raises(ScenarioError, match=r"no trial selects the parameters of the point load 0\.3"):
        figure_with(papers, "[scale.quick]", tune.replace('load = 0.3, transport = "phost"', "load = 0.6"))


def test_a_setting_that_leaves_flows_unfinished_is_not_the_best(papers):
    figure = figure_with(papers, "[scale.quick]", TUNE.replace("minimise", "at = { load = 0.3 }\nminimise"))
    tried = trials(figure, "quick")

    def chosen(*found):
        made = {
            run.job.key: Results({"slowdown": {"mean": mean}, "flows": 9, "finished": 9 - left - gone, "aborted": gone}, "", {})
            for run, (mean, left, gone) in zip(tried, found, strict=True)
        }
        (tuning,) = choose(figure, tried, made).values()
        return tuning["transport.pfabric.initial_window"]

    assert chosen((1.0, 1, 0), (3.0, 0, 0), (2.0, 0, 0)) == 12
    # A transport may give up flows by design. If all leave some, the mean decides.
    assert chosen((1.0, 0, 2), (3.0, 0, 0), (2.0, 0, 0)) == 1
    assert chosen((2.0, 1, 0), (1.0, 5, 0), (3.0, 1, 0)) == 2
    assert chosen((math.nan, 0, 0), (3.0, 1, 0), (2.0, 1, 0)) == 12


def test_a_setting_without_a_value_at_some_point_is_not_the_best(papers):
    tune = TUNE.replace("minimise", "at = { load = [0.3, 0.6] }\nminimise")
    figure = figure_with(papers, "[scale.quick]", tune)
    tried = trials(figure, "quick")

    def chosen(*found):
        """Choose between settings by their values at both loads; at a load without a value, all flows were given up."""
        values = dict(zip((1, 2, 12), found, strict=True))
        made = {}
        for run in tried:
            value = values[run.tuning["transport.pfabric.initial_window"]][[0.3, 0.6].index(run.point["load"])]
            gone = 9 if math.isnan(value) else 0
            summary = {"slowdown": {"mean": value}, "flows": 9, "finished": 9 - gone, "aborted": gone}
            made[run.job.key] = Results(summary, "", {})
        (tuning,) = choose(figure, tried, made).values()
        return tuning["transport.pfabric.initial_window"]

    nan = math.nan
    assert chosen((1.0, nan), (2.0, 5.0), (2.0, 6.0)) == 2
    # If all lack values, those that lack fewer are compared, and then their means.
    assert chosen((nan, nan), (2.0, nan), (1.5, nan)) == 12
    assert chosen((nan, nan), (nan, nan), (nan, nan)) == 1


def test_a_figure_with_trials_is_run_and_drawn(papers, tmp_path):
    figure = figure_with(papers, "[scale.quick]", TUNE.replace("minimise", "at = { load = 0.3 }\nminimise"))
    outcome = run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", workers=2)
    data = pq.read_table(outcome.directory / "data.parquet").to_pylist()
    tried = {row["tuning"]: row["slowdown.mean"] for row in data if row["seed"] == TRIAL_SEED}
    assert len(tried) == 3
    used = {row["tuning"] for row in data if row["transport"] == "pfabric" and row["shown"]}
    assert used == {min(tried, key=tried.__getitem__)}


def test_a_panel_may_average_over_an_axis(papers):
    panel = 'kind = "bars"\nx = "metric"\ny = [{ metric = "slowdown.mean" }]\nover = ["load"]'
    figure = figure_with(papers, 'kind = "lines"\nx = "load"\ny = "slowdown.mean"', panel)
    runs = plan(figure, "quick")
    # The geometric means of 2 and 8 are 4 with the first seed, and those of 4 and 16 are 8 with the second.
    made = {
        run.job.key: Results({"slowdown": {"mean": {0.3: 2, 0.6: 8}[run.point["load"]] * run.seed}, "nfct": 1.0}, "", {})
        for run in runs
    }
    grid = Grid(figure, runs, made)
    point = {"load": 0.3, "transport": "phost"}
    assert grid.drawn(figure.panels[0], "slowdown.mean", point).mean == pytest.approx(6)
    panel = figure.panels[0].model_copy(update={"mean": "arithmetic"})
    assert grid.drawn(panel, "slowdown.mean", point).mean == pytest.approx(7.5)
    with pytest.raises(ScenarioError, match="shows axis transport, so it cannot average over it"):
        figure_with(papers, 'x = "load"', 'x = "load"\nover = ["transport"]')


COURSES = """
[[panel]]
kind = "course"
course = "queues"
x = "time"
y = "bytes"
percent = true
[[panel]]
kind = "course"
course = "queues"
x = "time"
y = "packets"
[[panel]]
kind = "course"
course = "steps"
x = "step"
y = "slowest_fct"
[[claim]]
id = "tiny/9"
says = ""
[[claim.check]]
kind = "growth"
course = "steps"
x = "step"
y = "slowest_fct"
early = [0, 0]
late = [1, 1]
at_most = 2.0
"""
QUEUES = {
    "time": [1.0, 1.0, 2.0, 2.0, 6.0], "span": [1.0] * 5, "link": ["a", "b", "a", "b", "a"],
    "bytes": [10, 20, 30, 40, 50], "packets": [1, 2, 3, 4, 5],
}  # fmt: skip
STEPS = {"job": [0, 0, 0, 1], "step": [0, 0, 1, 0], "slowest_fct": [2.0, 4.0, None, 5.0]}


def test_courses_have_a_line_for_each_link_and_no_point_for_what_did_not_end(papers, tmp_path):
    figure = figure_with(papers, "[[panel]]", f"{COURSES}[[panel]]")
    runs = plan(figure, "quick", 1)
    series = {"queues": pa.table(QUEUES), "steps": pa.table(STEPS)}
    summary = {"slowdown": {"mean": 1.0}, "nfct": 1.0, "transport": "phost"}
    made = {run.job.key: Silenced(summary, "", {}, _series=series) for run in runs}
    grid = Grid(figure, runs, made)

    def lines(grid, panel):
        (frame,) = frames.frames(grid, figure.panels[panel])
        return [(line.xs, line.ys) for line in frames.courses(grid, frame)]

    # Time is no share, so it is not in percent.
    # A link without a row has an empty queue, also at the samples from 3 to 5, at which none has one.
    times = [1.0, 2.0, 3.0, 5.0, 6.0]
    of_bytes = [(times, [1000.0, 3000.0, 0, 0, 5000.0]), (times, [2000.0, 4000.0, 0, 0, 0])] * 3
    of_packets = [(times, [1, 3, 0, 0, 5]), (times, [2, 4, 0, 0, 0])] * 3
    of_steps = [([0, 0], [2.0, 4.0]), ([0], [5.0])] * 3
    assert [lines(grid, panel) for panel in range(3)] == [of_bytes, of_packets, of_steps]
    # A check takes the steps of all jobs together: the mean of the first ones is 11/3, and the last one has not ended.
    point = {"load": 0.3, "transport": "phost"}
    assert grid.course("steps", "step", "slowest_fct", point) == [([0, 0, 0], [2.0, 4.0, 5.0])]
    assert evaluate_one(figure, grid, "tiny/9").measured.startswith("no value")
    # The files have what all panels draw.
    paper._write_data(grid, tmp_path)
    saved = SavedGrid(figure, tmp_path, pq.read_table(tmp_path / "data.parquet"))
    assert [lines(saved, panel) for panel in range(3)] == [of_bytes, of_packets, of_steps]
    assert (tmp_path / "queues.csv").read_text().splitlines()[:2] == [
        '"load","transport","seed","link","time","bytes","span","packets"', '0.3,"phost",1,"a",1,10,1,1'
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("panel", "name"),
    [
        ('kind = "course"\ncourse = "queues"\nx = "time"\ny = "bytes"', "link"),
        ('kind = "course"\ncourse = "flows"\nx = "time"\ny = "goodput_gbps"', "flow"),
        ('kind = "course"\ncourse = "hosts"\nx = "time"\ny = "sending"', "span"),
        ('kind = "course"\ncourse = "steps"\nx = "step"\ny = "slowest_fct"', "step"),
        ('kind = "cdf"\nx = "fct_us"', "flows"),
        ('kind = "lines"\nx = "transport"\ny = "goodput_gbps"\nseries = "load"', "goodput_gbps"),
    ],
)
def test_no_axis_is_called_like_a_column_of_a_file_that_the_figure_writes(papers, panel, name):
    text = FIGURE.replace('name = "load"', f'name = "{name}"').replace('x = "load"', f'x = "{name}"')
    (papers / "fig1.toml").write_text(text)
    reader.read(papers / "fig1.toml")
    drawn = panel.replace('series = "load"', f'series = "{name}"')
    with (papers / "fig1.toml").open("a") as file:
        file.write(f"\n[[panel]]\n{drawn}\n")
    with pytest.raises(ScenarioError, match=rf"fig1\.toml:3: axis: axis {name} has the name of a column"):
        reader.read(papers / "fig1.toml")


def evaluate_one(figure, grid, id):
    (claim,) = [claim for claim in figure.claims if claim.id == id]
    return ledger.evaluate(claim, grid).checks[0]


def test_the_axes_of_a_drawing_name_their_units(papers, tmp_path, monkeypatch):
    panel = 'kind = "lines"\nx = "load"\ny = "deadlines_met"\npercent = true'
    figure = figure_with(papers, 'kind = "lines"\nx = "load"\ny = "slowdown.mean"', panel)
    assert frames.y_label(None, figure.panels[0]) == "Deadlines met (%)"
    drawings = []
    monkeypatch.setattr(style, "save", lambda drawing, stem: drawings.append(drawing) or [])
    for count, title in ((11, "Load (kB)"), (10, "Load")):
        values = json.dumps([f"{number}kB" for number in range(9, 9 + count)])
        figure = figure_with(papers, '"workload.load"\nvalues = [0.3, 0.6]', f'"fabric.buffer"\nvalues = {values}')
        runs = plan(figure, "quick", 1)
        made = {run.job.key: Silenced({"slowdown": {"mean": 1.0}, "nfct": 1.0}, "", {}) for run in runs}
        drawing.draw(Grid(figure, runs, made), tmp_path / "x", "")
        (spot,) = drawings.pop().axes
        assert (len(spot.lines[0].get_xdata()), spot.get_xlabel()) == (count, title)
    # A list of metrics has no unit, and no title.
    several = 'kind = "lines"\nx = "metric"\ny = [{ metric = "nfct" }, { metric = "slowdown.mean" }]'
    figure = figure_with(papers, 'kind = "lines"\nx = "load"\ny = "slowdown.mean"', several)
    runs = plan(figure, "quick", 1)
    made = {run.job.key: Silenced({"slowdown": {"mean": 1.0}, "nfct": 1.0}, "", {}) for run in runs}
    drawing.draw(Grid(figure, runs, made), tmp_path / "x", "")
    assert drawings[0].axes[0].get_xlabel() == ""


def test_a_figure_without_panels_draws_nothing(papers, tmp_path):
    (papers / "fig2.toml").write_text('extends = "fig1.toml"\ntitle = "Without drawings"\n')
    folders = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, ["paper", "run", "tiny/fig2", *folders])
    assert done.exit_code == 0, done.output
    assert "picture" not in done.output and f"data: {tmp_path / 'out' / 'data.csv'}" in done.output.replace("\n", "")


def test_a_figure_is_run_drawn_judged_and_entered_into_the_ledger(papers, tmp_path):
    figure = reader.read(papers / "fig1.toml")
    outcome = run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", workers=2)
    assert [p.suffix for p in outcome.pictures] == [".png", ".svg"]
    assert all(p.stat().st_size > 5000 for p in outcome.pictures)
    # With two seeds tiny/1 is undecided, and with four seeds it is decided.
    assert (tmp_path / "out/data.csv").read_text().count("\n") == 1 + 24
    assert outcome.claims["tiny/1"].verdict == "holds"
    assert outcome.claims["tiny/2"].verdict == "differs"
    data = pq.read_table(tmp_path / "out/data.parquet").to_pylist()
    measured = json.loads((papers / "claims.json").read_text())["tiny/2"]["fig1"]["quick"]
    means = [sum(r["slowdown.mean"] for r in data if (r["load"], r["transport"]) == (load, "phost")) / 4 for load in (0.3, 0.6)]
    said = re.sub(r" \[[^]]*\]", "", measured["checks"][0]["measured"])
    assert said == f"{means[0]:.3g} (load 0.3, phost) to {means[1]:.3g} (load 0.6, phost)"
    assert measured["checks"][0]["value"] == pytest.approx(max(means))
    low, high = measured["checks"][0]["interval"]
    assert low < max(means) < high
    assert (measured["seeds"], measured["runs"]) == (4, 24)
    assert ledger.fresh([figure], "quick") == {"tiny/fig1"}
    # A second call uses the saved runs and gives the same outcome.
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir() if p.name != "claims.json"}
    run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", workers=2)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir() if p.name != "claims.json"} == before


def call(*words: object, code: int = 0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.output, result.exc_info)
    return result


@pytest.fixture
def installed(papers, tmp_path, monkeypatch):
    """The papers of an installed package, in a working directory without papers."""
    # `pip install .` puts a folder into the package, where a checkout has a link.
    folder = tmp_path / "site-packages/flowloom/papers"
    shutil.copytree(papers.parent, folder)
    shutil.rmtree(papers.parent)
    monkeypatch.delenv("FLOWLOOM_PAPERS")
    monkeypatch.setattr(catalogue, "_INSTALLED", folder)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder


def test_figures_that_came_with_the_package_are_found_anywhere_and_keep_their_ledger(installed):
    assert catalogue.papers() == ["tiny"]
    assert catalogue.figure_path("tiny/fig1") == installed / "tiny/fig1.toml"
    ledger_of_package = installed / "tiny/claims.json"
    run = ["paper", "run", "tiny/fig1", "--jobs", 1]
    for more, why in (([], "this figure belongs to the installed package"), (["--out", "mine"], "of --out")):
        said = call(*run, *more).stdout
        out = Path(*more[1:] or ("results/tiny/fig1",))
        assert f"verdicts: {out / 'claims.json'}\nledger: unchanged, because {why}; --ledger writes it" in said
        assert json.loads((out / "claims.json").read_text())["claims"]["tiny/1"]["verdict"] == "holds"
        assert not ledger_of_package.exists()
    assert f"ledger: {ledger_of_package}" in call(*run, "--out", "mine", "--ledger").stdout
    assert set(json.loads(ledger_of_package.read_text())) == {"tiny/1", "tiny/2"}
    said = call(*run, "--ledger", "--set", "workload.flows=50", code=2).stderr
    assert "--ledger and --set: verdicts on changed scenarios cannot go to the ledger" in said


def test_the_ledger_of_a_users_own_figures_is_written_unless_out_is_given(papers):
    call("paper", "run", "tiny/fig1", "--jobs", 1, "--out", "mine")
    assert not (papers / "claims.json").exists()
    assert f"ledger: {papers / 'claims.json'}" in call("paper", "run", "tiny/fig1", "--jobs", 1).stdout
    assert (papers / "claims.json").exists()


def test_a_users_papers_add_to_those_of_the_package(installed, fake):
    shutil.copytree(installed / "tiny", "papers/own")
    assert catalogue.papers() == ["own", "tiny"]
    done = call("paper", "list")
    assert "own/fig1" in done.stdout and "tiny/fig1" in done.stdout
    assert done.stderr == ""
    # Of two figures of one name, that of the user counts, and one line says so.
    shutil.copytree(installed / "tiny", "papers/tiny")
    (Path("papers/tiny") / "fig1.toml").write_text(FIGURE.replace("Slowdown against load", "Mine"))
    done = call("paper", "list", "tiny")
    assert re.findall(r"tiny/fig1 .*", done.stdout)[0].startswith("tiny/fig1  Mine")
    assert done.stderr == "note: your figures replace those of the package with the same names: tiny/fig1\n"
    assert call("paper", "list", "own").stderr == ""
    assert catalogue.figure_path("tiny/fig1") == Path.cwd() / "papers/tiny/fig1.toml"
    assert "note: your figures replace" in call("claims").stderr


def test_a_checkouts_own_papers_are_not_listed_twice(papers, monkeypatch):
    monkeypatch.delenv("FLOWLOOM_PAPERS")
    monkeypatch.chdir(ROOT)
    assert catalogue.folders() == [ROOT / "papers"]
    assert catalogue.hidden() == []


def test_the_wheel_has_all_papers():
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["maturin"]
    packed = {file.resolve() for entry in configuration["include"] for file in ROOT.glob(entry["path"])}
    assert {entry["format"] for entry in configuration["include"]} == {"wheel"}
    assert packed == {file for file in (ROOT / "papers").rglob("*") if file.is_file()}
    assert catalogue._INSTALLED.resolve() == ROOT / "papers"


def claim_figures(papers: Path, names=("fig1", "fig2")) -> list[schema.Figure]:
    for name in names:
        (papers / f"{name}.toml").write_text(FIGURE)
    return [reader.read(papers / f"{name}.toml") for name in names]


def outcome(verdict: str) -> dict[str, OfClaim]:
    return {"tiny/1": OfClaim(verdict=verdict, checks=[OfCheck(paper="", verdict=verdict, measured="1", band="≤ 2")])}


ABOUT = About(seeds=1, seconds=2.0, commit="abc", date="2026-01-01")


def test_a_claim_that_two_figures_answer_needs_both(papers):
    first, second = figures = claim_figures(papers)

    def verdict() -> str:
        return ledger.entries(figures)[0].verdict

    assert verdict() == "not yet run"
    ledger.record(first, "quick", outcome("holds"), ABOUT)
    assert verdict() == "not yet run"
    ledger.record(second, "quick", outcome("holds"), ABOUT)
    assert verdict() == "holds"
    ledger.record(first, "quick", outcome("differs"), ABOUT)
    assert verdict() == "differs"
    assert ledger.entries(figures)[0].content()["seconds"] == 4.0


def test_the_ledger_shows_the_largest_scale_and_keeps_the_others(papers):
    figures = claim_figures(papers, ["fig1"])
    ledger.record(figures[0], "full", outcome("differs"), ABOUT)
    ledger.record(figures[0], "quick", outcome("holds"), ABOUT)
    assert next((e.verdict, e.content()["scale"]) for e in ledger.entries(figures)) == ("differs", "full")
    assert next((e.verdict, e.content()["scale"]) for e in ledger.entries(figures, "quick")) == ("holds", "quick")


def test_causes_are_shown_where_a_claim_differs_and_survive_every_run(papers):
    figures = claim_figures(papers, ["fig1"])
    text = '["tiny/1"]\ncause = "because"\nexperiment = "flowloom run"\n'
    (papers / "causes.toml").write_text(text)
    ledger.record(figures[0], "quick", outcome("differs"), ABOUT)
    assert ledger.entries(figures)[0].cause.cause == "because"
    assert (papers / "causes.toml").read_text() == text
    ledger.record(figures[0], "quick", outcome("holds"), ABOUT)
    assert ledger.entries(figures)[0].cause is None


def test_claims_are_in_the_order_of_their_numbers():
    assert sorted(["phost/10", "phost/9", "pase/2"], key=ledger.claim_order) == ["pase/2", "phost/9", "phost/10"]


def test_a_damaged_ledger_is_told(papers):
    figures = claim_figures(papers, ["fig1"])
    (papers / "claims.json").write_text("{")
    with pytest.raises(ScenarioError, match="damaged"):
        ledger.entries(figures)


def test_figures_are_found_and_wrong_names_corrected(papers):
    assert [p.stem for p in catalogue.figures()] == ["fig1"]
    with pytest.raises(ScenarioError, match='did you mean "tiny/fig1"'):
        catalogue.figure_path("tiny/fig11")
    with pytest.raises(ScenarioError, match='no paper "tny": did you mean "tiny"'):
        catalogue.figures("tny")
    with pytest.raises(ScenarioError, match='no scale "huge": there are quick, full'):
        plan(reader.read(papers / "fig1.toml"), "huge")


def test_every_metric_of_a_figure_is_in_its_data(papers):
    assert expressions(reader.read(papers / "fig1.toml")) == ["slowdown.mean", "nfct"]
