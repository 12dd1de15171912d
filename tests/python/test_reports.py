"""Pages: their numbers are those of the results, names from users stay texts, and they work in a real browser."""

from __future__ import annotations

import html.parser
import json
import math
import re
import statistics
from pathlib import Path
from typing import NamedTuple

import pytest
from scipy import stats as scipy_stats
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from typer.testing import CliRunner

import flowloom
from browser import Browser
from conftest import FIGURE, HANG_S, SMALL
from flowloom import ScenarioError, provenance, tables
from flowloom.claims import ledger
from flowloom.claims.entries import OfCheck
from flowloom.claims.listing import Ledger
from flowloom.cli import app
from flowloom.figures import reader
from flowloom.figures.paper import run_figure
from flowloom.plots.tables import Row
from flowloom.reports import claims, content, facts, findings, looks, panels
from flowloom.reports.findings import Rated
from flowloom.scenario import Scenario
from flowloom.stats import Estimate
from flowloom.transports import transports

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = '</script><img src=x onerror="alert(1)">&<b>'
"""The label of a variant, which ends a script, starts an image, and has a tag that plotly would obey."""

TABLE_PANEL = """
[[panel]]
kind = "table"
x = "load"
y = "slowdown.p99"

[[panel]]
kind = "cdf"
x = "fct_us"
where = { load = [0.6] }
"""


class Made(NamedTuple):
    """Results and their pages."""

    folder: Path
    compared: flowloom.Comparison
    swept: flowloom.Sweep
    run: flowloom.Results
    entries: Ledger

    def page(self, name: str) -> Path:
        return self.folder / f"{name}.html"


PAGES = ("run", "observed", "compared", "over", "swept", "figure", "several", "claims")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOWLOOM_CACHE", str(folder / "cache"))
        patch.setenv("FLOWLOOM_PAPERS", str(folder / "papers"))
        patch.chdir(folder)
        run = flowloom.run(SMALL, out="run")
        small = Scenario.of(SMALL).set({"workload.flows": 60})
        # The file beside it has the flows of a trace.
        flowloom.run(EXAMPLES / "over_time.toml", {"observe.period": "50us"}, out="observed")
        variants = {HOSTILE: {"transport.name": "pfabric", "transport.pfabric.initial_window": 4}}
        compared = flowloom.compare(small, ["phost", "pfabric", "ideal"], variants=variants, seeds=3, out="compared", workers=1)
        loads = {"workload.load": [0.3, 0.6]}
        flowloom.compare(small, ["phost", "pfabric"], over=loads, seeds=2, out="over", workers=1)
        swept = flowloom.sweep(small, loads | {"transport.name": ["phost", "dctcp"]}, seeds=2, out="swept", workers=1)
        paper = folder / "papers" / "tiny"
        paper.mkdir(parents=True)
        (paper / "default.toml").write_text(SMALL)
        (paper / "fig1.toml").write_text(FIGURE + TABLE_PANEL)
        figure = reader.read(paper / "fig1.toml")
        run_figure(figure, "quick", out=Path("results/tiny/fig1"), runs=Path("runs"), workers=1)
        for name in ("run", "observed", "compared", "over", "swept"):
            flowloom.report(name)
        flowloom.report("results/tiny/fig1", "figure.html")
        flowloom.report(["compared", "results/tiny/fig1", "run"], "several.html")
        entries = Ledger(ledger.entries([figure]))
        flowloom.report(entries, "claims.html")
    return Made(folder, compared, swept, run, entries)


@pytest.fixture(scope="module")
def browser():
    found = Browser()
    yield found
    found.close()


class Page(html.parser.HTMLParser):
    """The tables and the elements of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.orders: list[list[list[str | None]]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.text = ""
        self._cell = self._small = self._raw = False
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag == "table":
            self.tables.append([])
            self.orders.append([])
        elif tag == "tr":
            self.tables[-1].append([])
            self.orders[-1].append([])
        elif tag in ("td", "th"):
            self._cell = True
            self.tables[-1][-1].append("")
            self.orders[-1][-1].append(given.get("data-order"))
        elif tag == "small":
            self._small = True
        elif tag == "script":
            self.scripts.append((given.get("type"), ""))
        self._raw = tag in ("script", "style")

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._cell = False
        self._small = self._small and tag != "small"
        self._raw = False

    def handle_data(self, data):
        if self._raw and self.scripts:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif not self._raw:
            self.text += data
        if self._cell and not self._small:
            self.tables[-1][-1][-1] += data.strip()

    def plots(self) -> list[dict]:
        return [json.loads(text) for kind, text in self.scripts if kind == "application/json"]


def mean(values):
    """Format a mean with its interval, computed apart from Flowloom."""
    half_width = scipy_stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half_width


def numbers(text):
    return [float(word.replace(",", "")) for word in re.findall(r"\d[\d,]*\.?\d*", text)]


def test_the_numbers_of_a_run_are_those_of_its_summary(made):
    rows = dict(Page(made.page("run")).tables[0])
    summary = made.run.summary
    for label, value in {
        "Mean slowdown": summary["slowdown"]["mean"],
        "99th-percentile slowdown": summary["slowdown"]["p99"],
        "Mean FCT (µs)": summary["fct_us"]["mean"],
        "Normalised FCT": summary["nfct"],
        "Packets dropped": summary["drops"]["total"],
        "Packet-hops": summary["packet_hops"],
    }.items():
        assert numbers(rows[label])[0] == pytest.approx(value, rel=0.005), label
    assert f"{summary['finished']} of {summary['flows']} flows finished" in Page(made.page("run")).text


def test_the_numbers_of_a_comparison_are_means_over_its_seeds(made):
    head, *rows = Page(made.page("compared")).tables[0]
    _, *orders = Page(made.page("compared")).orders[0]
    (found,) = made.compared.rounds().values()
    assert [row[0] for row in rows] == list(found) == ["pHost", "pFabric", "ideal", HOSTILE]
    for label, path in (("Mean slowdown", ("slowdown", "mean")), ("Mean FCT (µs)", ("fct_us", "mean"))):
        column = head.index(label)
        for row, order, runs in zip(rows, orders, found.values(), strict=True):
            expected = mean([run.summary[path[0]][path[1]] for run in runs])
            assert numbers(row[column]) == pytest.approx(expected, rel=0.015, abs=0.006)
            assert float(order[column]) == numbers(row[column])[0]  # by which a click sorts


def test_the_numbers_of_a_sweep_are_means_over_its_seeds(made):
    head, *rows = Page(made.page("swept")).tables[0]
    assert [(row[0], row[1]) for row in rows] == [("0.3", "phost"), ("0.3", "dctcp"), ("0.6", "phost"), ("0.6", "dctcp")]
    for row, (_, runs) in zip(rows, made.swept.points(), strict=True):
        expected = mean([run.summary["slowdown"]["mean"] for run in runs])
        assert numbers(row[head.index("Mean slowdown")]) == pytest.approx(expected, rel=0.015, abs=0.006)
    _, *each = Page(made.page("swept")).tables[1]
    assert len(each) == len(made.swept) == 8


def test_a_figure_shows_what_its_directory_has(made):
    import pyarrow.parquet as pq

    page = Page(made.page("figure"))
    rows = pq.read_table(made.folder / "results/tiny/fig1/data.parquet").to_pylist()
    for number, metric in ((0, "slowdown.mean"), (1, "slowdown.p99")):
        head, *lines = page.tables[number]
        assert head[1:] == ["0.3", "0.6"]
        by_name = {line[0]: line for line in lines}
        assert set(by_name) == {"pHost", "pFabric", "ideal"}
        for load, column in ((0.3, 1), (0.6, 2)):
            values = [row[metric] for row in rows if (row["load"], row["transport"]) == (load, "phost")]
            assert numbers(by_name["pHost"][column])[0] == pytest.approx(statistics.fmean(values), rel=0.01)
    best = [line[0] for line in page.tables[1][1:]]
    assert best[0] == "ideal"  # the best row of a table of a figure is on top
    assert "tiny/2" in page.text and "differs" in page.text and "Something that cannot be." in page.text
    traces = page.plots()[0]["panels"][0]["traces"]
    ours = next(trace for trace in traces if page.plots()[0]["keys"][trace["key"]] == "pHost")
    drawn = [row["slowdown.mean"] for row in rows if (row["load"], row["transport"]) == (0.6, "phost")]
    assert ours["x"] == [0.3, 0.6] and ours["y"][1] == pytest.approx(statistics.fmean(drawn), rel=1e-5)


def test_a_figure_whose_file_has_changed_shows_its_pictures(made, tmp_path, monkeypatch):
    paper = tmp_path / "papers" / "tiny"
    paper.mkdir(parents=True)
    (paper / "default.toml").write_text(SMALL)
    (paper / "fig1.toml").write_text(FIGURE.replace("0.6]", "0.7]"))
    monkeypatch.setenv("FLOWLOOM_PAPERS", str(paper.parent))
    page = Page(flowloom.report(made.folder / "results/tiny/fig1", tmp_path / "page.html"))
    assert "has changed since it was run" in page.text and not page.plots()
    (picture,) = [given["src"] for tag, given in page.elements if tag == "img"]
    assert picture.startswith("data:image/png;base64,")


def test_the_ledger_has_each_claim_with_its_band(made):
    page = Page(made.page("claims"))
    counts, listed = page.tables
    assert counts[1:] == [["tiny", "2", "1", "1", "0"]]
    assert [(row[0], row[1]) for row in listed[1:]] == [("tiny/1", "holds"), ("tiny/2", "differs")]
    for entry, row in zip(made.entries, listed[1:], strict=True):
        assert entry.paper in row and row[3].startswith(entry.checks[0].text)
        assert row[4:7] == [str(entry.parts[0].seeds), "quick", entry.parts[0].commit]
        assert "flowloom paper run tiny/fig1" in page.text
    # The plot of the figure comes from where `paper run` has written it, once for both claims.
    assert len(page.plots()) == 1


def test_names_from_users_stay_texts(made):
    for name in ("compared", "several"):
        page = Page(made.page(name))
        assert HOSTILE in page.text
        tags = {tag for tag, _ in page.elements}
        assert "img" not in tags and "b" not in tags
        assert not any(attribute.startswith("on") for _, given in page.elements for attribute in given)
        assert any(HOSTILE in plot["keys"] for plot in page.plots())
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.text)


def test_a_page_loads_nothing(made):
    for name in PAGES:
        page = Page(made.page(name))
        for tag, given in page.elements:
            for attribute in ("src", "href", "data", "action", "srcset", "poster"):
                value = given.get(attribute) or ""
                assert not value or value.startswith(("#", "data:")), (name, tag, value)
            assert tag not in ("link", "iframe", "object", "embed", "base")
        own = re.sub(r"<script>.*?</script>", "", page.source, flags=re.S)
        assert "@import" not in own and "url(" not in own
        policy = next(given["content"] for tag, given in page.elements if given.get("http-equiv"))
        assert "default-src 'none'" in policy
        # Plotly is there once, where there are plots.
        assert page.source.count("plotly.js v") == 1, name


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda folder: (folder / "summary.json").unlink(), "summary.json is damaged: it is missing"),
        (lambda folder: (folder / "summary.json").write_text("{}"), "summary.json is damaged"),
        (lambda folder: (folder / "flows.parquet").write_bytes(b"PAR1"), "flows.parquet is damaged"),
        (lambda folder: (folder / "series/pending.parquet").write_bytes(b"no"), "pending.parquet is damaged"),
    ],
)
def test_a_damaged_result_is_an_error_that_names_the_file(tmp_path, damage, named):
    flowloom.run(SMALL, {"workload.flows": 40}, out=tmp_path / "run")
    damage(tmp_path / "run")
    with pytest.raises(ScenarioError, match=re.escape(named)):
        flowloom.report(tmp_path / "run")
    assert not (tmp_path / "run.html").exists()


def test_a_damaged_figure_is_an_error_that_names_the_file(made, tmp_path):
    import shutil

    folder = shutil.copytree(made.folder / "results/tiny/fig1", tmp_path / "fig1")
    marker = json.loads((folder / "claims.json").read_text())
    for broken in ({"claims": {"tiny/1": {"verdict": "maybe"}}}, {"figure": 7}, {"seeds": 0}):
        (folder / "claims.json").write_text(json.dumps(marker | broken))
        with pytest.raises(ScenarioError, match=r"claims\.json is damaged"):
            flowloom.report(folder)
    (folder / "claims.json").write_text(json.dumps(marker))
    (folder / "data.parquet").unlink()
    with pytest.raises(ScenarioError, match=r"data\.parquet is damaged: it is missing"):
        flowloom.report(folder)


def test_what_is_no_result_is_an_error_that_says_what_would_be(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name, why in (
        ("empty", "it has none of provenance.json, sweep.toml"),
        ("file", "it is a file"),
        ("none", "does not exist"),
    ):
        with pytest.raises(
            ScenarioError, match=f"{name} is not the directory of a run, a comparison, a sweep or a figure: .*{why}"
        ):
            flowloom.report(tmp_path / name)
    with pytest.raises(ScenarioError, match="there is nothing to report"):
        flowloom.report([], tmp_path / "page.html")
    with pytest.raises(ScenarioError, match=r"give a \.html file"):
        flowloom.report(tmp_path / "empty", tmp_path / "page.pdf")


def test_only_pages_of_flowloom_are_replaced(made, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><p>mine</p>")
    for force in (False, True):
        with pytest.raises(ScenarioError, match="it was not written by Flowloom, and would be lost"):
            flowloom.report(made.run, page, force=force)
    assert page.read_text() == "<!doctype html><p>mine</p>"
    page.unlink()
    flowloom.report(made.run, page)
    first = page.read_bytes()
    flowloom.report(made.run, page)  # the same result
    assert page.read_bytes() == first
    with pytest.raises(ScenarioError, match="it is a page about other results; give another file, or --force"):
        flowloom.report(made.swept, page)
    with pytest.raises(ScenarioError, match="other results"):
        flowloom.report(made.entries, page)
    flowloom.report(made.swept, page, force=True)
    assert page.read_bytes() != first
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ScenarioError, match="it is a directory; give a file"):
        flowloom.report(made.run, tmp_path / "folder.html", force=True)


def test_the_page_lies_beside_its_directory(made, tmp_path, monkeypatch):
    monkeypatch.chdir(made.folder)
    assert flowloom.report("run") == Path("run.html")
    monkeypatch.chdir(made.folder / "run")
    assert flowloom.report(".") == Path(made.folder.resolve() / "run.html")
    with pytest.raises(ScenarioError, match="this result has no directory"):
        flowloom.report(flowloom.run(SMALL, {"workload.flows": 20}))


def test_the_commands(made, monkeypatch):
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("FLOWLOOM_PAPERS", str(made.folder / "papers"))
    invoke = CliRunner().invoke
    done = invoke(app, ["report", "compared", "swept", "--out", "two.html"])
    assert done.exit_code == 0 and done.stdout == "page: two.html\n"
    page = Page(Path("two.html"))
    assert [given["id"] for tag, given in page.elements if tag == "section"] == ["section-1", "section-2"]
    done = invoke(app, ["report", "run", "--out", "two.html"])
    assert done.exit_code == 2 and "other results" in done.stderr
    done = invoke(app, ["claims", "--report"])
    assert done.exit_code == 0 and done.stdout.splitlines()[-1] == "page: results/claims.html"
    assert Page(Path("results/claims.html")).tables[1][1][0] == "tiny/1"
    done = invoke(app, ["claims", "--out", "claims.html"])
    assert done.exit_code == 2 and "--report" in done.stderr


def test_the_command_that_repeats_a_run_can_be_copied(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/flowloom/__main__.py", "run", "a b.toml"])
    assert provenance.command() == "flowloom run 'a b.toml'"


def rated(name, mean, half_width=None):
    return Rated(name, Estimate(mean, half_width, 1 if half_width is None else 3))


def test_the_finding_names_the_best_and_by_how_much():
    def said(*means):
        return " ".join(findings.best_of(means, "mean", lambda value: f"{value.mean:g}"))

    assert said(rated("A", 2.0, 0.1), rated("B", 2.5, 0.1)) == (
        "A has the lowest mean, 2. B comes next with 2.5, which is 25 % more; their 95 % confidence intervals do not overlap."
    )
    assert "intervals overlap, so more seeds may change the order" in said(rated("A", 2.0, 0.3), rated("B", 2.5, 0.3))
    assert "there are no confidence intervals, so chance may decide" in said(rated("A", 2.0), rated("B", 2.5))
    assert "which is 3.0 times as much" in said(rated("A", 2.0), rated("B", 6.0))
    assert said(rated("A", 2.0), rated("B", 2.0)) == "A and B have the lowest mean, 2."
    assert said(rated("A", 2.0)) == "A has a mean of 2."
    assert "No flow finished" in said(rated("A", math.nan), rated("B", math.nan))


def test_the_bound_is_not_the_best_of_a_comparison(made):
    page = Page(made.page("compared"))
    (found,) = made.compared.rounds().values()
    means = {name: statistics.fmean(run.summary["slowdown"]["mean"] for run in runs) for name, runs in found.items()}
    assert min(means, key=means.get) == "ideal"
    del means["ideal"]
    best = min(means, key=means.get)
    # Two whose means differ by less than 0.05 % are named together.
    others = [f"and {name} have" for name in means if name != best]
    assert any(f"{best} {words} the lowest mean slowdown" in page.text for words in ["has", *others])
    assert "The lower bound, ideal, is at" in page.text


def test_the_best_row_of_a_table_of_a_figure():
    rows = [Row("A", [1.0, 4.0]), Row("B", [2.0, 1.0]), Row("C", [3.0, 3.0])]
    assert findings.of_table(rows, "mean")[0].startswith("B has the lowest mean over the columns (mean), ahead of A; ")
    assert "in 1 of 2 columns" in findings.of_table(rows, "mean")[0]
    seeds = [Row("A", [1.0], counts=[1]), Row("B", [2.0], counts=[3])]
    assert "B has the lowest mean" in (said := findings.of_table(seeds, "mean")[0])
    assert "ahead of A, which has values of fewer seeds" in said
    gains = [Row("A", [10.0, -20.0], whole=100.0), Row("B", [30.0, 40.0], whole=100.0)]
    assert findings.of_table(gains, "gain") == [
        "B has the largest mean over the columns (gain), ahead of A; it is the largest in every column."
    ]


def test_cells_are_sorted_by_their_first_number():
    assert content.ordered(["1.56 ± 0.03", "1,235", "-"]) == [1.56, 1235.0, None]
    assert content.ordered(["up to 10 kB", "10 kB to 100 kB", "over 1 MB"]) == [10e3, 10e3, 1e6]
    assert content.ordered(["10Gb/s", "900Mb/s"]) == [10e9, 900e6]
    assert content.ordered(["200 of 200", "7 of 8 (1 aborted)"]) == [200.0, 7.0]
    assert content.ordered(["pHost", "3"]) == [None, None]
    assert content.ordered(["12.5%", "3%"]) == [12.5, 3.0]


def test_a_measured_value_lies_where_it_should_in_its_band():
    def bullet(band, value, interval=None):
        check = OfCheck(paper="", verdict="holds", measured="", band=band, value=value, interval=interval)
        return claims.bullet(check)

    # From 1 to 3 there is a room of 15 % of 2 on both sides: 0.7 to 3.3.
    found = bullet("ratio 1 to 3", 2.0, [1.5, 2.5])
    assert found.value == 50.0
    assert found.band == pytest.approx((100 * 0.3 / 2.6, 100 * 2 / 2.6), abs=0.02)
    assert found.interval == pytest.approx((100 * 0.8 / 2.6, 100 / 2.6), abs=0.02)
    below = bullet("x of a / b ≤ 1.05", 2.0)
    assert below.band[0] == 0 and below.band[1] < below.value and below.interval is None
    # An interval without ends goes over the whole drawing, and one with one end to its border.
    assert bullet("ratio 1 to 3", 2.0, [None, None]) == (found.band, 50.0, (0.0, 100.0))
    assert bullet("ratio 1 to 3", 2.0, [1.5, None]).interval == pytest.approx((100 * 0.8 / 2.6, 100 * 1.8 / 2.6), abs=0.02)
    above = bullet("≥ 1.2e-03", 1.0)
    assert above.band[0] + above.band[1] == 100 and above.band[0] < above.value
    assert bullet("in ascending order", 1.0) is None


def test_colours_are_legible_on_dark_pages():
    for transport in transports().values():
        found = looks.legible(transport.color)
        assert looks.contrast(found, looks.PAPER["dark"]) >= 4.5, transport
    assert looks.contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert looks.legible("#FFFFFF") == "#FFFFFF"


def test_a_line_of_many_points_keeps_its_peaks():
    ys = [math.nan if at == 5 else math.sin(at / 997) + (3 if at == 77_777 else 0) for at in range(100_000)]
    trace = panels.course(0, looks_of("pHost"), range(100_000), ys)
    assert len(trace["x"]) <= panels.POINTS_MAX + 3
    assert trace["x"] == sorted(trace["x"]) and 77_777 in trace["x"]
    assert max(y for y in trace["y"] if y is not None) == pytest.approx(max(y for y in ys if y == y), rel=1e-5)


def looks_of(label):
    from flowloom.plots.style import numbered

    return numbered(0, 1, label)


def test_a_scenario_in_words():
    text = facts.phrase({"kind": "leaf_spine", "racks": 9, "host_rate": "10Gb/s", "k": 4, "gaps": False, "push_out": True})
    assert text == "leaf spine, 9 racks, host rate 10Gb/s, k 4, push out"


def test_what_was_run_has_what_matters(made):
    named = {fact.name: fact.text for fact in facts.of_scenario(made.run.scenario, alone=True)}
    assert named["Network"] == "single switch, 8 hosts, host rate 10Gb/s, delay 200ns"
    assert "load 0.5" in named["Workload"] and "200 flows" in named["Workload"]
    assert named["Transport"] == "pHost, with its default parameters"
    without = {fact.name: fact.text for fact in facts.of_scenario(made.run.scenario, alone=False, varied=["workload.load"])}
    assert "load 0.5" not in without["Workload"] and "Transport" not in without
    observed = flowloom.load(made.folder / "observed").scenario
    changed = {fact.name: fact.text for fact in facts.of_scenario(observed, alone=True)}["Transport"]
    assert changed == "DCTCP: initial window 10, port (mark above 30kB)"  # what examples/over_time.toml sets


# In a browser.


@pytest.mark.parametrize("name", ["observed", "compared", "swept", "figure", "claims"])
def test_a_page_draws_its_plots_and_fits_a_phone(made, browser, name):
    browser.open(made.page(name))
    panels_ = sum(len(plot["panels"]) for plot in Page(made.page(name)).plots())
    drawn = browser.run("return [...document.querySelectorAll('.plot')].filter((plot) => plot.querySelector('.xtick')).length")
    assert drawn == panels_ > 0
    # Nothing is loaded but the page.
    assert browser.run("return performance.getEntriesByType('resource').map((each) => each.name)") == []
    browser.resize(390)
    browser.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    browser.draw()
    assert browser.run("return [document.documentElement.scrollWidth, innerWidth]") == [390, 390]
    # What is wider than its box scrolls inside of it.
    right = "return [...document.querySelectorAll(arguments[0])].map((each) => each.getBoundingClientRect().right)"
    assert max(browser.run(right, ".scroll")) <= 390
    assert max(browser.run(right, ".plot .main-svg")) <= 390
    assert browser.log() == []


def column(browser, table, number):
    script = (
        "return [...document.querySelectorAll('table')[arguments[0]].tBodies[0].rows].map((row) => row.cells[arguments[1]]."
    )
    return browser.run(script + "textContent.trim())", table, number)


def test_a_click_on_a_head_sorts_by_numbers(made, browser):
    browser.open(made.page("compared"))
    head, *rows = Page(made.page("compared")).tables[0]
    at = head.index("Mean FCT (µs)")
    button = browser.driver.find_elements(By.CSS_SELECTOR, "table")[0].find_elements(By.CSS_SELECTOR, "thead button")[at]
    by_number = sorted((row[at] for row in rows), key=lambda text: numbers(text)[0])
    button.click()
    assert column(browser, 0, at) == by_number
    heads = """
      const sorted = [...document.querySelectorAll("table")[0].querySelectorAll("th[aria-sort]")];
      return sorted.map((head) => [head.cellIndex, head.ariaSort]);
    """
    assert browser.run(heads) == [[at, "ascending"]]
    # The keyboard sorts, too.
    button.send_keys(Keys.ENTER)
    assert column(browser, 0, at) == by_number[::-1]
    assert browser.run(heads) == [[at, "descending"]]
    first = browser.driver.find_elements(By.CSS_SELECTOR, "thead button")[0]
    first.send_keys(Keys.SPACE)
    assert column(browser, 0, 0) == sorted([row[0] for row in rows], key=str.casefold)
    assert browser.run(heads) == [[0, "ascending"]]


def test_a_plot_zooms(made, browser):
    browser.open(made.page("swept"))
    plot = browser.driver.find_element(By.CSS_SELECTOR, ".plot")
    ends = "return document.querySelector('.plot')._fullLayout.xaxis.range.slice()"
    before = browser.run(ends)
    browser.run("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", plot)
    place = plot.find_element(By.CSS_SELECTOR, ".nsewdrag")
    ActionChains(browser.driver).move_to_element(place).click_and_hold().move_by_offset(80, 60).release().perform()
    after = browser.run(ends)
    assert before[0] < after[0] < after[1] < before[1]
    browser.draw()
    assert browser.run(ends) == after  # what the reader has zoomed stays


def test_a_zoomed_logarithmic_axis_has_closer_labels(made, browser):
    browser.open(made.page("compared"))
    plot = browser.driver.find_element(By.CSS_SELECTOR, ".plot")
    labels = "return [...arguments[0].querySelectorAll('.xtick text')].map((each) => each.textContent)"
    before = browser.run(labels, plot)
    assert "10 kB" in before and "20 kB" not in before
    browser.run("Plotly.relayout(arguments[0], { 'xaxis.range': [4, 5] })", plot)
    zoomed = WebDriverWait(browser.driver, HANG_S).until(lambda _: "20 kB" in (found := browser.run(labels, plot)) and found)
    assert zoomed == ["10 kB", "20 kB", "50 kB", "100 kB"]


def test_a_long_table_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(content, "ROWS_MAX", 3)
    found = content.Table.of(tables.Table(["a"], [[str(number)] for number in range(10)]), "", "10 runs")
    assert [row[0].text for row in found.rows] == ["0", "1", "2"]
    assert found.note == "10 runs, of which the first 3 are here; the files of the result have all"


def hovered(browser, plot, trace, point):
    """Return what a plot shows at a point."""
    browser.run("Plotly.Fx.hover(arguments[0], [{ curveNumber: arguments[1], pointNumber: arguments[2] }])", plot, trace, point)
    return WebDriverWait(browser.driver, HANG_S).until(lambda _: plot.find_element(By.CSS_SELECTOR, ".hoverlayer").text)


def test_a_plot_shows_the_numbers_of_its_points(made, browser):
    browser.open(made.page("swept"))
    shown = hovered(browser, browser.driver.find_element(By.CSS_SELECTOR, ".plot"), 0, 1)
    runs = [run.results for run in made.swept if run.point == {"workload.load": 0.6, "transport.name": "phost"}]
    expected = mean([run.summary["slowdown"]["mean"] for run in runs])
    assert shown.startswith("pHost") and "workload.load 0.6" in shown
    assert numbers(shown)[-2:] == pytest.approx(expected, rel=0.001)


def test_the_legend_hides_lines_in_all_panels(made, browser):
    browser.open(made.page("compared"))
    count = "return [...document.querySelectorAll('.plots')[0].querySelectorAll('.plot')].map((plot) => plot.data.length)"
    before = browser.run(count)
    figure = browser.driver.find_element(By.CSS_SELECTOR, ".plots")
    button = figure.find_elements(By.CSS_SELECTOR, ".legend button")[-1]
    assert button.text == HOSTILE
    button.click()
    assert browser.run(count) == [number - 1 for number in before]
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert browser.run(count) == before


def test_a_hostile_name_is_a_text_in_plots(made, browser):
    browser.open(made.page("compared"))
    plot = browser.driver.find_element(By.CSS_SELECTOR, ".plot")
    last = browser.run("return arguments[0].data.length - 1", plot)
    assert HOSTILE in hovered(browser, plot, last, 0)
    assert not browser.driver.find_elements(By.CSS_SELECTOR, "img")


def test_a_dark_page_is_dark_with_its_plots(made, browser):
    look = """
      const style = getComputedStyle(document.body), tick = document.querySelector('.plot .xtick text');
      return [style.backgroundColor, style.color, getComputedStyle(tick).fill];
    """
    browser.open(made.page("compared"))
    light = browser.run(look)
    browser.open(made.page("compared"), dark=True)
    dark = browser.run(look)
    for one, other, lighter in zip(light, dark, (False, True, True), strict=True):
        assert (sum(numbers(other)[:3]) > sum(numbers(one)[:3])) is lighter, (one, other)
    lines = "return document.querySelector('.plot').data.map((trace) => trace.line.color)"
    for color in browser.run(lines):
        assert looks.contrast(color, looks.PAPER["dark"]) >= 4.5
    # A page that is open follows.
    browser.scheme(dark=False)
    WebDriverWait(browser.driver, HANG_S).until(lambda _: browser.run(look) == light)
    assert browser.log() == []


def test_the_backgrounds_of_colours_are_those_of_the_page():
    text = (Path(flowloom.__file__).parent / "reports/templates/style.css").read_text()
    assert re.findall(r"--paper: (#\w+)", text) == [looks.PAPER["light"], looks.PAPER["dark"]]


@pytest.mark.parametrize("name", ["compared", "figure", "claims"])
def test_without_javascript_the_tables_are_there(made, browser, name):
    browser.open(made.page(name), script=False)
    found = browser.driver.find_elements(By.CSS_SELECTOR, "table")[0]
    first = Page(made.page(name)).tables[0]
    assert found.is_displayed() and found.find_elements(By.CSS_SELECTOR, "tbody th")[0].text == first[1][0]
    assert not browser.driver.find_elements(By.CSS_SELECTOR, "button:not([hidden])")
    if name != "claims":
        notes = [each.text for each in browser.driver.find_elements(By.CSS_SELECTOR, ".plots .note")]
        assert "This plot needs JavaScript. The tables below have the numbers." in notes
    assert not any(each.is_displayed() for each in browser.driver.find_elements(By.CSS_SELECTOR, ".plot, .legend, .filter"))


def test_claims_can_be_filtered_and_opened(made, browser):
    browser.open(made.page("claims"))
    rows = """
      const rows = [...document.querySelectorAll(".ledger tbody tr")].filter((row) => row.offsetHeight);
      return rows.map((row) => row.cells[0].textContent);
    """
    assert browser.run(rows) == ["tiny/1", "tiny/2"]
    Select(browser.driver.find_element(By.NAME, "verdict")).select_by_visible_text("differs")
    assert browser.run(rows) == ["tiny/2"]
    assert browser.driver.find_element(By.CSS_SELECTOR, ".filter output").text == "1 of 2 claims"
    assert len([each for each in browser.driver.find_elements(By.CSS_SELECTOR, ".card") if each.is_displayed()]) == 1
    Select(browser.driver.find_element(By.NAME, "verdict")).select_by_visible_text("all")
    browser.driver.find_element(By.LINK_TEXT, "tiny/1").click()
    card = browser.driver.find_elements(By.CSS_SELECTOR, "details.card")[0]
    assert card.get_attribute("open") and "The bound is never beaten on average." in card.text


def test_a_command_is_copied(made, browser):
    browser.open(made.page("figure"))
    button = browser.driver.find_element(By.CSS_SELECTOR, ".copy")
    # The button says so for a moment only, in which a busy machine may not look.
    note = "told = []; new MutationObserver(() => told.push(button.textContent)).observe(button, { childList: true })"
    browser.run(f"const button = arguments[0]; window.{note}", button)
    button.click()
    WebDriverWait(browser.driver, HANG_S).until(lambda _: "Copied" in browser.run("return told"))
    assert browser.log() == []
