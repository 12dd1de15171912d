"""Ledger entries: the digests of their inputs and behaviour, and when an entry is stale."""

from __future__ import annotations

import json
import math
import re
import shlex
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import FIGURE, SMALL
from flowloom import RunError, ScenarioError, provenance
from flowloom.claims import digests, ledger
from flowloom.claims.digests import Digests
from flowloom.claims.entries import About, OfCheck, OfClaim, OfReading
from flowloom.cli.common import parse_value, split_list
from flowloom.figures import reader
from flowloom.figures.grid import Grid, plan
from flowloom.figures.paper import run_figure
from flowloom.results import Results
from flowloom.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Leave out the pictures, which take most of the time."""
    monkeypatch.setattr("flowloom.plots.figure.draw", lambda grid, target, footnote: [])


def now(papers, scale="quick"):
    figure = reader.read(papers / "fig1.toml")
    return digests.today([(figure, scale)])[figure.name, scale]


def rewrite(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_same_figure_has_the_same_digests(papers, monkeypatch, tmp_path):
    first = now(papers)
    assert isinstance(first, Digests)
    assert first.inputs != first.behaviour
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "another"))
    assert now(papers) == first


@pytest.mark.parametrize(
    ("file", "old", "new", "inputs", "behaviour"),
    [
        # Measurements do not depend on texts, pictures and seeds.
        ("fig1.toml", 'title = "Slowdown against load"', 'title = "Another"', False, False),
        ("fig1.toml", "seeds_max = 4", "seeds_max = 8", False, False),
        ("fig1.toml", 'says = "Something', 'calibrated = "yes"\nsays = "Something', False, False),
        ("default.toml", "[workload]", "# a comment\n[workload]", False, False),
        # Inputs are what the file says, without defaults, so a key with the value of its default changes them too.
        ("default.toml", "[workload]", '[fabric]\nrouting = "spray_round_robin"\n[workload]', True, False),
        # Parameters of transports that no scenario runs do not count.
        ("default.toml", 'name = "phost"', 'name = "phost"\ntcp.max_window = 100', False, False),
        # A band, a parameter.
        ("fig1.toml", "at_most = 0.5", "at_most = 0.6", True, False),
        ("default.toml", "flows = 200", "flows = 201", True, True),
        ("default.toml", 'name = "phost"', 'name = "phost"\nphost.free_tokens = 1', True, True),
    ],
)
def test_digests_follow_what_matters_and_nothing_else(papers, file, old, new, inputs, behaviour):
    before = now(papers)
    rewrite(papers / file, old, new)
    after = now(papers)
    assert (after.inputs != before.inputs, after.behaviour != before.behaviour) == (inputs, behaviour)


SCHEMES = """
[[axis]]
name = "scheme"
values = ["small", "large"]
[[set]]
when = { scheme = "small" }
keys = { "workload.flows" = 20 }
[[set]]
when = { scheme = "large" }
keys = { "workload.flows" = 30 }
[[tune]]
when = { transport = "pfabric" }
at = { load = 0.6 }
minimise = "slowdown.mean"
keys = { "transport.pfabric.initial_window" = [1, 2] }
[scale.quick]
"""


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        # The same scenarios run at other points.
        ("= 20 }\n[[set]]\nwhen = { scheme = \"large\" }\nkeys = { \"workload.flows\" = 30",
         "= 30 }\n[[set]]\nwhen = { scheme = \"large\" }\nkeys = { \"workload.flows\" = 20", True),
        ('values = ["small", "large"]', 'values = ["large", "small"]', False),
        # The same runs decide otherwise.
        ('minimise = "slowdown.mean"', 'minimise = "slowdown.p99"', True),
        ("at = { load = 0.6 }", 'at = { load = 0.6, scheme = ["small", "large"] }', True),
    ],
)  # fmt: skip
def test_which_point_a_scenario_is_of_and_how_tunings_choose_are_inputs(papers, old, new, changes):
    rewrite(papers / "fig1.toml", "[scale.quick]\n", SCHEMES)
    before = now(papers)
    assert isinstance(before, Digests)
    rewrite(papers / "fig1.toml", old, new)
    after = now(papers)
    assert isinstance(after, Digests)
    assert (after.inputs != before.inputs) == changes


STEPS = """
[[claim]]
id = "tiny/3"
says = "Something along the load."

[[claim.check]]
kind = "{kind}"
metric = "slowdown.mean"
along = "{along}"
{more}
"""
RATIO = 'of = {transport = "phost"}\nto = {transport = "ideal"}'


@pytest.mark.parametrize(
    ("kind", "along", "more", "swapped", "changes"),
    [
        ("trend", "load", "", "[0.3, 0.6]", True),
        ("ratio_trend", "load", RATIO, "[0.3, 0.6]", True),
        # The order of another axis decides nothing.
        ("trend", "load", "", '["phost", "pfabric", "ideal"]', False),
        ("trend", "transport", "", "[0.3, 0.6]", False),
    ],
)
def test_the_order_of_an_axis_is_an_input_of_checks_that_go_along_it(papers, kind, along, more, swapped, changes):
    with (papers / "fig1.toml").open("a") as file:
        file.write(STEPS.format(kind=kind, along=along, more=more))
    before = now(papers)
    assert isinstance(before, Digests)
    values = ", ".join(reversed(swapped.strip("[]").split(", ")))
    rewrite(papers / "fig1.toml", f"values = {swapped}", f"values = [{values}]")
    after = now(papers)
    assert isinstance(after, Digests)
    assert (after.inputs != before.inputs) == changes
    # What is run is the same, so the simulator's behaviour is.
    assert after.behaviour == before.behaviour


def test_a_scale_is_its_own_question_though_a_probe_is_cut(papers):
    rewrite(papers / "fig1.toml", '"workload.flows" = 300', '"workload.flows" = 500000')
    quick, full = now(papers), now(papers, "full")
    assert quick.inputs != full.inputs
    rewrite(papers / "fig1.toml", '"workload.flows" = 500000', '"workload.flows" = 600000')
    # Both scenarios have the same probe, but different inputs.
    assert now(papers, "full").behaviour == full.behaviour
    assert now(papers, "full").inputs != full.inputs


def test_what_a_file_holds_counts(papers):
    (papers / "sizes.csv").write_text("1000,0.5\n2000,1\n")
    rewrite(papers / "default.toml", 'sizes = "imc10"', 'sizes = { cdf = "sizes.csv", dialect = "bytes_probability" }')
    before = now(papers)
    assert isinstance(before, Digests)
    (papers / "sizes.csv").write_text("1000,0.5\n3000,1\n")
    assert now(papers).inputs != before.inputs


def test_a_simulator_that_behaves_otherwise_shows(papers, fake, monkeypatch, tmp_path):
    before = now(papers)
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "another"))
    assert now(papers) == before
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "a third"))
    monkeypatch.setitem(fake.PACE, "pfabric", 1.0200001)
    after = now(papers)
    assert after.inputs == before.inputs
    assert after.behaviour != before.behaviour


def test_todays_digests_are_computed_once(papers, fake, monkeypatch):
    before = now(papers)

    def fails(*_):
        raise AssertionError("asked again")

    monkeypatch.setattr(fake, "run", fails)
    assert now(papers) == before


def test_a_cache_that_cannot_be_read_or_written_is_done_without(papers, fake, monkeypatch, tmp_path):
    before = now(papers)
    damaged = next((tmp_path / "cache").rglob("digests-*.json"))
    damaged.write_text("{")
    assert now(papers) == before
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "file"))
    assert now(papers) == before


def test_overrides_are_put_in_place():
    text = "x = 1\n[workload]\npart = [{ load = 0.1 }, { load = 0.2 }]\n[transport.phost]\na = 1\nb = 2\n"
    scenario = Scenario(text).set({"workload.part.1.load": 0.5, "transport.phost.a": [3], "transport.name": "phost"})
    assert digests.merged(scenario) == {
        "x": 1,
        "workload": {"part": [{"load": 0.1}, {"load": 0.5}]},
        "transport": {"phost": {"a": [3], "b": 2}, "name": "phost"},
    }


@pytest.mark.parametrize(
    ("text", "changes"),
    [("x = 1\n", {"x.y": 1}), ("x = [1]\n", {"x.5": 1}), ("x = [1]\n", {"x.y": 1}), ("x = \n", {})],
)
def test_an_override_without_a_place_is_told(text, changes):
    with pytest.raises(ScenarioError):
        digests.merged(Scenario(text).set(changes))


def entry(papers):
    (found,) = [e for e in ledger.entries([reader.read(papers / "fig1.toml")]) if e.id == "tiny/1"]
    return found


def test_an_entry_is_stale_once_its_figure_or_the_simulator_has_changed(papers, fake, monkeypatch, tmp_path):
    figure = reader.read(papers / "fig1.toml")
    run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", executor=ThreadPoolExecutor(1))
    assert not entry(papers).stale
    assert ledger.fresh([figure], "quick") == {"tiny/fig1"}
    rewrite(papers / "fig1.toml", "at_most = 0.5", "at_most = 0.6")
    assert "checks have changed" in entry(papers).parts[0].stale_because
    rewrite(papers / "fig1.toml", "at_most = 0.6", "at_most = 0.5")
    assert not entry(papers).stale
    monkeypatch.setitem(fake.PACE, "ideal", 0.91)
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "another"))
    assert "the simulator's behaviour has changed" in entry(papers).parts[0].stale_because
    assert ledger.fresh([figure], "quick") == set()


def test_what_cannot_be_compared_is_stale_and_says_why(papers, fake, monkeypatch, tmp_path):
    figure = reader.read(papers / "fig1.toml")
    run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", executor=ThreadPoolExecutor(1))
    written = json.loads((papers / "claims.json").read_text())
    rewrite(papers / "default.toml", 'kind = "poisson"', 'kind = "fails"')
    assert "no progress" in entry(papers).parts[0].stale_because
    rewrite(papers / "default.toml", "[workload]", "[worklaod]")
    assert "worklaod" in entry(papers).parts[0].stale_because
    (papers / "default.toml").write_text("[")
    assert "default.toml" in entry(papers).parts[0].stale_because
    (papers / "default.toml").unlink()
    assert "cannot read the scenario" in entry(papers).parts[0].stale_because
    (papers / "default.toml").write_text(SMALL)
    monkeypatch.setattr(fake, "run", lambda *_: 1 / 0)
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "another"))
    assert "division by zero" in entry(papers).parts[0].stale_because
    for key in ("inputs", "behaviour"):
        del written["tiny/1"]["fig1"]["quick"][key]
    (papers / "claims.json").write_text(json.dumps(written))
    assert "no digest" in entry(papers).parts[0].stale_because


def test_an_entry_says_what_was_run(papers, fake, monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "tree", lambda: ("abc123", False))
    figure = reader.read(papers / "fig1.toml")
    run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", executor=ThreadPoolExecutor(1))
    found = entry(papers)
    assert found.parts[0].commit == "abc123+"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found.content()["date"])
    assert (found.content()["seeds"], found.content()["scale"], found.stale) == (2, "quick", False)


def test_a_ledger_that_runs_write_leaves_the_tree_clean(tmp_path, monkeypatch):
    import subprocess

    def git(*words):
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e", *words], check=True, capture_output=True
        )

    package = tmp_path / "python/flowloom"
    package.mkdir(parents=True)
    (tmp_path / "papers/tiny").mkdir(parents=True)
    for name in ("papers/tiny/claims.json", "papers/tiny/fig1.toml"):
        (tmp_path / name).write_text("{}")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.setattr(provenance, "__file__", str(package / "provenance.py"))
    head, clean = provenance.tree.__wrapped__()
    assert clean
    (tmp_path / "papers/tiny/claims.json").write_text("[]")
    assert provenance.tree.__wrapped__() == (head, True)
    (tmp_path / "papers/tiny/fig1.toml").write_text("[]")
    assert provenance.tree.__wrapped__() == (head, False)


def made(figure, scale, seeds, value):
    """Make runs with made-up slowdowns: `value(point, seed)`."""
    runs = plan(figure, scale, seeds)
    results = {r.job.key: Results({"slowdown": {"mean": value(r.point, r.seed)}, "nfct": 1.0}, "", {}) for r in runs}
    return Grid(figure, runs, results)


def test_a_claim_on_inferred_values_is_calibrated_where_it_would_hold(papers):
    rewrite(papers / "fig1.toml", 'id = "tiny/2"', 'id = "tiny/2"\ncalibrated = "x from y"')
    figure = reader.read(papers / "fig1.toml")
    claim = figure.claims[1]
    for mean, verdict in ((0.4, "calibrated"), (0.6, "differs")):
        found = ledger.evaluate(claim, made(figure, "quick", 2, lambda _, seed, mean=mean: mean + seed / 1e4))
        assert found.verdict == verdict
    noisy = ledger.evaluate(claim, made(figure, "quick", 2, lambda _, seed: 0.4 + seed / 50))
    assert noisy.verdict == "undecided"


def test_the_ledger_keeps_an_interval_without_ends(papers):
    figure = reader.read(papers / "fig1.toml")
    missing = made(figure, "quick", 3, lambda _, seed: 0.4 if seed > 1 else math.nan)
    found = ledger.evaluate(figure.claims[1], missing)
    ledger.record(figure, "quick", {"tiny/2": found}, About(seeds=3, seconds=1.0, date="2026-01-01"))
    (check,) = ledger.read(papers / "claims.json")["tiny/2"]["fig1"]["quick"].checks
    assert (check.verdict, check.value, check.interval) == ("undecided", 0.4, [None, None])
    assert check.text == "0.4 [-inf, inf] at load 0.3, phost; all points: 0.4 [-inf, inf] (all 2 points)"
    # Without a value, or with one seed, there is no interval.
    for runs in (made(figure, "quick", 2, lambda *_: math.nan), made(figure, "quick", 1, lambda *_: 0.4)):
        assert ledger.evaluate(figure.claims[1], runs).checks[0].interval is None


def with_one_more_check(papers, key):
    """Evaluate a claim that holds, with a second check that would differ and has one more key."""
    more = f"""
    [[claim.check]]
    kind = "level"
    metric = "slowdown.mean"
    at_most = 0.1
    {key}
    """
    rewrite(papers / "fig1.toml", "at_least = 1.0\n", f"at_least = 1.0\n{more}")
    figure = reader.read(papers / "fig1.toml")
    return ledger.evaluate(figure.claims[0], made(figure, "quick", 2, lambda *_: 2.0))


def test_a_check_that_cannot_fail_does_not_count(papers):
    found = with_one_more_check(papers, 'given = "the configuration sets it"')
    assert found.verdict == "holds"
    assert [c.given for c in found.checks] == ["", "the configuration sets it"]
    rewrite(papers / "fig1.toml", "at_most = 0.5 }", 'at_most = 0.5, given = "always" }')
    with pytest.raises(ScenarioError, match="at least one check that counts"):
        reader.read(papers / "fig1.toml")


def test_a_check_beside_the_others_is_shown_but_does_not_count(papers):
    found = with_one_more_check(papers, 'beside = "another variant"')
    assert found.verdict == "holds"
    assert [(c.verdict, c.beside) for c in found.checks] == [("holds", ""), ("differs", "another variant")]
    rewrite(papers / "fig1.toml", "at_most = 0.5 }", 'at_most = 0.5, beside = "always" }')
    with pytest.raises(ScenarioError, match="at least one check that counts"):
        reader.read(papers / "fig1.toml")


@pytest.fixture
def two_readings(papers):
    """The figure with two readings of its load; the second one is that of the links of the core."""
    old = 'key = "workload.load"\nvalues = [0.3, 0.6]\n'
    new = 'key = "workload.load"\nvalues = [0.3, 0.6]\nlabels = ["hosts", "core"]\nreading = "section 1 says so"\n'
    rewrite(papers / "fig1.toml", old, new)
    return papers / "fig1.toml"


def test_the_first_reading_of_a_set_up_decides_and_the_others_stand_beside_it(two_readings):
    figure = reader.read(two_readings)
    claim = figure.claims[1]  # the mean slowdown of pHost is at most 0.5
    for first, second in ((0.4, 0.6), (0.6, 0.4)):
        means = {0.3: first, 0.6: second}
        found = ledger.evaluate(claim, made(figure, "quick", 2, lambda point, _, means=means: means[point["load"]]))
        verdicts = {0.4: "holds", 0.6: "differs"}
        (check,) = found.checks
        assert (found.verdict, check.measured) == (verdicts[first], str(first))
        assert check.readings == {"core": OfReading(verdict=verdicts[second], measured=str(second))}


def test_a_check_may_be_about_a_reading_of_its_own(two_readings):
    rewrite(two_readings, '{ transport = "phost" }, at_most', '{ transport = "phost", load = 0.6 }, at_most')
    figure = reader.read(two_readings)
    found = ledger.evaluate(figure.claims[1], made(figure, "quick", 2, lambda point, _: point["load"]))
    assert [check.measured for check in found.checks] == ["0.6"]


def test_which_reading_is_the_first_is_an_input(two_readings, papers):
    before = now(papers)
    rewrite(two_readings, "values = [0.3, 0.6]", "values = [0.6, 0.3]")
    assert now(papers).inputs != before.inputs


def test_without_readings_a_check_has_none(papers):
    figure = reader.read(papers / "fig1.toml")
    found = ledger.evaluate(figure.claims[0], made(figure, "quick", 2, lambda *_: 2.0))
    assert not any(check.readings for check in found.checks)


def outcome(verdict: str) -> dict[str, OfClaim]:
    check = OfCheck(paper="", verdict=verdict if verdict != "calibrated" else "holds", measured="1", band="≤ 2")
    return {"tiny/1": OfClaim(verdict=verdict, checks=[check])}


@pytest.mark.parametrize(
    ("verdicts", "together"),
    [
        (("holds", "holds"), "holds"),
        (("holds", "undecided"), "undecided"),
        (("undecided", "differs"), "differs"),
        (("differs", None), "not yet run"),
        (("calibrated", "holds"), "calibrated"),
        (("calibrated", "undecided"), "undecided"),
        (("calibrated", "differs"), "differs"),
    ],
)
def test_the_worst_of_several_figures_counts(papers, verdicts, together):
    same = {"inputs": "i", "behaviour": "b"}
    figures = []
    for number, verdict in enumerate(verdicts):
        text = FIGURE.replace('id = "tiny/1"', 'id = "tiny/1"\ncalibrated = "x"') if verdict == "calibrated" else FIGURE
        path = papers / f"fig{number}.toml"
        path.write_text(text)
        figures.append(reader.read(path))
        about = {"seeds": 2 + number, "seconds": 1.0, "commit": f"c{number}", "clean": True, "date": f"2026-01-0{2 - number}"}
        if verdict:
            ledger.record(figures[-1], "quick", outcome(verdict), About(**about, **same))
    found = ledger.entries(figures, today=lambda wanted: {(f.name, s): Digests(**same) for f, s in wanted})[0]
    assert found.verdict == together
    assert not found.stale
    if None not in verdicts:
        said = found.content()
        assert (said["seeds"], said["commit"], said["date"]) == (2, "c0, c1", "2026-01-01")
    other = ledger.entries(
        figures, today=lambda wanted: {(f.name, s): Digests("i", "b" if "0" in f.name else "x") for f, s in wanted}
    )
    assert other[0].stale == (None not in verdicts)


def test_a_figure_without_claims_writes_no_ledger(papers):
    ledger.record(reader.read(papers / "fig1.toml"), "quick", {}, About(seeds=1, seconds=1.0, date="2026-01-01"))
    assert not (papers / "claims.json").exists()


def test_a_figure_whose_claim_is_undecided_is_run_again_while_seeds_are_left(papers):
    figure = reader.read(papers / "fig1.toml")
    same = {"inputs": "i", "behaviour": "b"}
    about = {"seconds": 1.0, "commit": "c", "clean": True, "date": "2026-01-01", **same}

    def fresh(verdict, seeds):
        for claim in ("tiny/1", "tiny/2"):
            ledger.record(figure, "quick", {claim: outcome(verdict)["tiny/1"]}, About(**about, seeds=seeds))
        return bool(ledger.fresh([figure], "quick", lambda wanted: {(f.name, s): Digests(**same) for f, s in wanted}))

    assert fresh("differs", 2)
    assert not fresh("undecided", 2)
    assert fresh("undecided", 4)


def test_seeds_are_doubled_until_a_claim_is_decided_or_the_limit_is_reached(papers, fake, tmp_path, monkeypatch):
    rewrite(papers / "fig1.toml", "seeds_max = 4", "seeds_max = 7")
    figure = reader.read(papers / "fig1.toml")
    looks = []

    def evaluate(claim, grid):
        looks.append(len(grid.samples("nfct", grid.points({})[0])))
        return OfClaim(verdict="undecided" if claim.id == "tiny/1" and looks[-1] < enough else "holds", checks=[])

    monkeypatch.setattr(ledger, "evaluate", evaluate)
    for enough, seeds in ((1, [2]), (3, [2, 4]), (100, [2, 4, 7])):  # noqa: B007, `evaluate` reads it
        looks.clear()
        found = run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", executor=ThreadPoolExecutor(1))
        assert looks[::2] == seeds
        assert found.seeds == seeds[-1]


def test_a_try_with_other_keys_stays_out_of_the_ledger(papers, fake, tmp_path):
    figure = reader.read(papers / "fig1.toml")
    options = {"out": tmp_path / "out", "runs": tmp_path / "runs", "executor": ThreadPoolExecutor(1)}
    found = run_figure(figure, "quick", changes={"workload.flows": 60}, **options)
    assert not (papers / "claims.json").exists()
    assert found.claims.keys() == {"tiny/1", "tiny/2"}
    written = json.loads((tmp_path / "out/claims.json").read_text())
    assert written["set"] == {"workload.flows": "60"}
    assert "behaviour" not in written
    options["out"] = tmp_path / "another"
    with pytest.raises(ScenarioError, match="its axis load sets this key"):
        run_figure(figure, "quick", changes={"workload.load": 0.7}, **options)
    with pytest.raises(ScenarioError, match="its runs have the seeds 1, 2"):
        run_figure(figure, "quick", changes={"run.seed": 3}, **options)


def test_a_run_that_fails_leaves_the_ledger_as_it_was(papers, fake, tmp_path):
    figure = reader.read(papers / "fig1.toml")
    options = {"out": tmp_path / "out", "runs": tmp_path / "runs", "executor": ThreadPoolExecutor(1)}
    run_figure(figure, "quick", **options)
    before = (papers / "claims.json").read_bytes()
    rewrite(papers / "default.toml", 'kind = "poisson"', 'kind = "fails"')
    with pytest.raises(RunError):
        run_figure(figure, "quick", **options)
    assert (papers / "claims.json").read_bytes() == before


def written_run(papers, fake, tmp_path):
    """Run the small figure, and return its ledger as JSON."""
    figure = reader.read(papers / "fig1.toml")
    run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", executor=ThreadPoolExecutor(1))
    return json.loads((papers / "claims.json").read_text())


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        ((), [], r"claims\.json is damaged: must be a table, not \[\]; restore it"),
        (("tiny/1",), 3, r"claims\.json is damaged: tiny/1: must be a table, not 3"),
        (("tiny/1", "fig1", "quick"), None, r"damaged: tiny/1\.fig1\.quick: must be a table, not null"),
        (
            ("tiny/1", "fig1", "quick", "verdict"),
            "holdz",
            r'tiny/1\.fig1\.quick\.verdict: unknown verdict "holdz": did you mean "holds"',
        ),
        (("tiny/1", "fig1", "quick", "seeds"), "2", r'tiny/1\.fig1\.quick\.seeds: must be a whole number, not "2"'),
        (("tiny/1", "fig1", "quick", "seeds"), 0, r"tiny/1\.fig1\.quick\.seeds: must be at least 1"),
        (
            ("tiny/1", "fig1", "quick", "seconds"),
            float("nan"),
            r"tiny/1\.fig1\.quick\.seconds: must be a finite number, not nan",
        ),
        (("tiny/1", "fig1", "quick", "checks"), {}, r"tiny/1\.fig1\.quick\.checks: must be a list, not {}"),
        (
            ("tiny/1", "fig1", "quick", "checks", 0, "band"),
            1,
            r"tiny/1\.fig1\.quick\.checks\[0\]\.band: must be a string, not 1",
        ),
        (("tiny/1", "fig1", "quick", "sed"), 1, r'tiny/1\.fig1\.quick\.sed: unknown key in .*: did you mean "seeds"'),
    ],
)
def test_a_ledger_of_another_shape_is_told_with_its_place_before_anything_runs(
    papers, fake, tmp_path, monkeypatch, place, value, complaint
):
    content = written_run(papers, fake, tmp_path)
    if place:
        holder = content
        for part in place[:-1]:
            holder = holder[part]
        holder[place[-1]] = value
    (papers / "claims.json").write_text(json.dumps(content if place else value))
    monkeypatch.setattr(fake, "run", lambda *_: pytest.fail("something was run"))
    figures = [reader.read(papers / "fig1.toml")]
    for use in (
        lambda: ledger.entries(figures),
        lambda: ledger.fresh(figures, "quick"),
        lambda: run_figure(figures[0], "quick", out=tmp_path / "out", runs=tmp_path / "other", executor=ThreadPoolExecutor(1)),
    ):
        with pytest.raises(ScenarioError, match=complaint):
            use()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"tiny/1": {}, "tiny/2": {}, "tiny/1": {}}', "tiny/1"),
        (
            '{"tiny/1": {"fig1": {"quick": {"checks": [{}, {"band": "", "band": "x"}]}}}}',
            r"tiny/1\.fig1\.quick\.checks\[1\]\.band",
        ),
    ],
)
def test_a_key_that_occurs_twice_in_a_ledger_is_told(papers, text, place):
    (papers / "claims.json").write_text(text)
    with pytest.raises(ScenarioError, match=rf"claims\.json is damaged: {place} occurs twice; restore it"):
        ledger.read(papers / "claims.json")


@pytest.mark.parametrize("path", sorted((ROOT / "papers").glob("*/claims.json")), ids=lambda path: path.parent.name)
def test_a_ledger_is_written_as_it_was_read(path):
    again = ledger._FILE.dump_python(ledger.read(path), exclude_unset=True)
    # As texts, since 1 and 1.0 are equal numbers.
    assert json.dumps(again, sort_keys=True) == json.dumps(json.loads(path.read_text()), sort_keys=True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('["tiny/1"]\ncauze = "x"\n', r'causes\.toml:2: cauze: unknown key in \[tiny/1\]: did you mean "cause"'),
        ('["tiny/1"]\ncause = 1\n', r"causes\.toml:2: cause: must be a string, not 1"),
        ('["tiny/2"]\ncause = ""\n\n["tiny/1"]\nexperiment = "x"\n', r"causes\.toml:4: tiny/1: \[tiny/1\] needs `cause`"),
        ("tiny = 3\n", r"causes\.toml:1: tiny: must be a table, not 3"),
        ("[", r"causes\.toml: "),
    ],
)
def test_a_mistake_in_a_cause_is_told_with_its_line(papers, text, complaint):
    (papers / "causes.toml").write_text(text)
    with pytest.raises(ScenarioError, match=complaint):
        ledger.entries([reader.read(papers / "fig1.toml")])


def test_a_verdict_names_the_point_that_decides(papers):
    figure = reader.read(papers / "fig1.toml")
    means = {(0.3, "phost"): 0.4, (0.6, "phost"): 0.7}
    grid = made(figure, "quick", 2, lambda point, _: means.get((point["load"], point["transport"]), 1.0))
    (check,) = ledger.evaluate(figure.claims[1], grid).checks
    assert (check.verdict, check.where) == ("differs", "load 0.6, phost")
    assert check.text == "0.7 at load 0.6, phost; all points: 0.4 (load 0.3, phost) to 0.7 (load 0.6, phost)"
    # Without a value there is none to name, but its point.
    (check,) = ledger.evaluate(figure.claims[1], made(figure, "quick", 2, lambda *_: None)).checks
    assert check.text == "no value at load 0.3, phost"


def test_an_entry_of_an_earlier_version_names_its_point_if_the_check_looks_at_one(papers):
    rewrite(papers / "fig1.toml", '{ transport = "phost" }, at_most', '{ transport = "phost", load = 0.6 }, at_most')
    figure = reader.read(papers / "fig1.toml")
    old = OfCheck(paper="", verdict="differs", measured="753 [752, 754]", band="≤ 0.5", value=753.0, interval=[752.0, 754.0])
    ledger.record(
        figure, "quick", {"tiny/2": OfClaim(verdict="differs", checks=[old])}, About(seeds=2, seconds=1.0, date="2026-01-01")
    )
    found = next(e for e in ledger.entries([figure]) if e.id == "tiny/2")
    assert found.measured == found.content()["measured"] == "753 [752, 754] at load 0.6, phost"
    # The entry itself is not changed.
    assert "where" not in (papers / "claims.json").read_text()


COMMANDS = [
    (f"{path.parent.name}: {claim}", cause["command"])
    for path in sorted((ROOT / "papers").glob("*/causes.toml"))
    for claim, cause in tomllib.loads(path.read_text()).items()
    if "command" in cause
]


@pytest.mark.parametrize(("claim", "command"), COMMANDS, ids=[claim for claim, _ in COMMANDS])
def test_the_command_of_a_cause_can_be_run(claim, command, monkeypatch):
    monkeypatch.chdir(ROOT)
    program, kind, scenario, *options = shlex.split(command)
    assert (program, kind in ("run", "sweep")) == ("flowloom", True)
    named = dict.fromkeys(("--set", "--vary", "--seed", "--seeds", "--out"), ())
    for name, value in zip(options[::2], options[1::2], strict=True):
        named[name] = (*named[name], value)
    assert named.keys() == {"--set", "--vary", "--seed", "--seeds", "--out"}
    changes = {key: parse_value(value) for key, _, value in (pair.partition("=") for pair in named["--set"])}
    changes |= {key: split_list(values)[0] for key, _, values in (pair.partition("=") for pair in named["--vary"])}
    assert Scenario.of(Path(scenario)).set(changes).plan()
