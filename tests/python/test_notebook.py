"""What notebooks show: short texts, tables as HTML, pictures and data frames; and the example notebook runs."""

from __future__ import annotations

import html
import importlib
import json
import re
import shutil
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

import flowloom
from conftest import HANG_S, SMALL
from flowloom import ScenarioError, display, tables
from flowloom.results import Results
from test_cli import call
from test_comparisons import SHALLOW

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = SMALL.replace("flows = 200", "flows = 40")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def compared():
    return flowloom.compare(QUICK, ["phost"], variants={"<b>shallow</b>": SHALLOW}, workers=1)


@pytest.fixture(scope="module")
def over():
    return flowloom.compare(QUICK, ["phost", "ideal"], over={"workload.load": [0.2, 0.4]}, workers=1)


@pytest.fixture(scope="module")
def swept():
    return flowloom.sweep(QUICK, {"workload.load": [0.2, 0.4], "transport.name": ["phost"]}, seeds=2, workers=1)


def test_what_is_printed_is_short_and_says_what_it_is(compared, over, swept):
    result = compared["phost"]
    mean, tail = (f"{result.summary['slowdown'][name]:.3g}" for name in ("mean", "p99"))
    assert repr(result).startswith("<Results: pHost, seed 1, 40 of 40 flows finished, mean slowdown ")
    assert mean in repr(result) and tail in repr(result)
    assert repr(compared) == "<Comparison of pHost, <b>shallow</b> on scenario: 2 runs>"
    assert repr(over) == "<Comparison of pHost, ideal on scenario over workload.load = 0.2, 0.4: 4 runs>"
    assert repr(swept) == "<Sweep of scenario over workload.load, transport.name: 2 points, 4 runs>"
    assert all(len(repr(each)) < 300 for each in (result, compared, over, swept, swept.runs[0]))
    assert repr(Results({"found": 1.0}, "", {})) == "<Results of a tool: found>"
    assert Results({"found": 1.0}, "", {})._repr_html_() is None


def cells(page):
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    return [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


def test_tables_in_notebooks_are_those_of_the_command_line(compared, over, swept):
    for what, found in (
        (compared["phost"], tables.of_run(compared["phost"])),
        (compared, tables.of_comparison(compared)),
        (over, tables.of_comparison(over)),
        (swept, tables.of_sweep(swept)),
    ):
        page = what._repr_html_()
        expected = [list(row) for table in found for row in ([table.head] if any(table.head) else []) + list(table.rows)]
        assert cells(page) == expected
        assert "<b>" not in page
    assert "&lt;b&gt;shallow&lt;/b&gt;" in compared._repr_html_()
    assert "<p>warning: unfinished: " in flowloom.run(QUICK, {"run.time_limit": "300us"})._repr_html_()


def test_names_and_long_tables_do_no_harm():
    page = display.page([tables.Table(["a<script>", "b"], [["x\x1b[2J", str(n)] for n in range(100)], (1,))], ["1 < 2"])
    assert "<script>" not in page and "\x1b" not in page and "1 &lt; 2" in page
    assert len(cells(page)) == 1 + display.ROWS_MAX and "and 40 more rows" in page


def test_pictures_are_shown_and_saved_and_matplotlib_stays_as_it_was(compared, over, swept, tmp_path):
    mpl.rcParams["font.size"] = 17.5
    before, backend = dict(mpl.rcParams), mpl.get_backend()
    try:
        pictures = {
            "run": compared["phost"].plot(), "series": compared["phost"].plot("pending"), "compared": compared.plot(),
            "over": over.plot(), "at": over.plot(at=0.2), "swept": swept.plot(), "metric": swept.plot(["drops.rate"]),
        }  # fmt: skip
        for name, picture in pictures.items():
            assert picture._repr_png_().startswith(PNG), name
            assert repr(picture).startswith("<Picture: ")
        assert pictures["swept"].figure.axes[0].xaxis.label.get_fontsize() == 10
        assert dict(mpl.rcParams) == before
        assert mpl.get_backend() == backend
        assert pictures["over"].save(tmp_path / "x.svg").read_text().startswith("<?xml")
        assert pictures["over"].save(tmp_path / "x.png").read_bytes().startswith(PNG)
        assert dict(mpl.rcParams) == before
    finally:
        mpl.rcdefaults()
    assert [spot.get_ylabel() for spot in pictures["metric"].figure.axes] == ["Drop rate"]
    assert [spot.get_title() for spot in pictures["at"].figure.axes] == ["By flow size", "Distribution"]
    assert pictures["over"].figure.axes[0].get_xlabel() == "workload.load"


def test_what_cannot_be_drawn_is_told(compared, over, swept, tmp_path):
    for draw, complaint in (
        (lambda: compared["phost"].plot("queues"), 'no series "queues"'),
        (lambda: compared.plot(at=0.2), "for a comparison over the values of a key"),
        (lambda: compared.plot(["slowdown.mean"]), "for a comparison over the values of a key"),
        (lambda: over.plot(at=0.3), "0.3 is no value of workload.load"),
        (lambda: over.plot(["slowdwn.mean"]), 'did you mean "slowdown"'),
        (lambda: swept.plot(["slowdown"]), "must be a number"),
        (lambda: swept.plot().save(tmp_path / "x.pdf"), "give a .png or a .svg file"),
    ):
        with pytest.raises(ScenarioError, match=re.escape(complaint)):
            draw()


def test_data_frames_have_what_the_tables_have(compared, over, swept):
    flows = compared["phost"].flows
    assert compared["phost"].to_pandas()["slowdown"].tolist() == flows["slowdown"].to_pylist()
    polars = compared["phost"].to_polars()
    assert polars["slowdown"].to_list() == flows["slowdown"].to_pylist()
    assert polars["coflow"].to_list() == [None] * 40
    assert polars.columns == flows.column_names
    for what in (compared, over, swept):
        assert what.to_pandas()["slowdown.mean"].tolist() == what.table()["slowdown.mean"].to_pylist()
        assert what.to_polars()["run"].to_list() == what.table()["run"].to_pylist()
    assert over.to_pandas()["variant"].tolist() == ["phost", "ideal"] * 2


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(compared, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=re.escape(f'{package}, which is not installed: pip install "flowloom[{package}]"')):
        getattr(compared["phost"], f"to_{package}")()
    extras = importlib.import_module("tomllib").loads((EXAMPLES.parent / "pyproject.toml").read_text())
    assert package in extras["project"]["optional-dependencies"]


def test_the_ledger_is_that_of_the_command_line(papers):
    call("paper", "run", "tiny/fig1", "--jobs", 1)
    told = json.loads(call("claims", "tiny", "--json").stdout)
    ledger = flowloom.ledger("tiny")
    assert [entry.content() for entry in ledger] == told
    assert repr(ledger) == "<Ledger of 2 claims: 1 holds, 1 differs, 0 stale>"
    assert ledger["tiny/2"] is ledger[1] and len(ledger) == 2
    with pytest.raises(KeyError):
        ledger["tiny/3"]
    head, *rows = cells(ledger._repr_html_())
    assert head == ["claim", "verdict", "the paper says", "measured", "cause"]
    assert [row[:4] for row in rows] == [[entry["id"], entry["verdict"], entry["paper"], entry["measured"]] for entry in told]
    frame = ledger.to_pandas()
    assert frame["verdict"].tolist() == ["holds", "differs"]
    assert frame["seeds"].tolist() == [entry["seeds"] for entry in told]
    assert ledger.to_polars()["stale"].to_list() == [False, False]
    with pytest.raises(ScenarioError, match="tinny"):
        flowloom.ledger("tinny")
    with pytest.raises(ScenarioError, match='no scale "fulll": did you mean "full"'):
        flowloom.ledger(scale="fulll")


def test_a_claim_that_was_not_run_is_in_the_ledger_too(papers):
    ledger = flowloom.ledger()
    assert ledger.counts == {"not yet run": 2, "stale": 0}
    assert ledger.table()["date"].to_pylist() == [None, None]
    (papers / "claims.json").write_text('{"tiny/1": 3}')
    with pytest.raises(ScenarioError, match=r"claims\.json is damaged"):
        flowloom.ledger()


def test_the_example_runs_and_shows_tables_and_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the sockets between this process and the kernel are there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that run notebooks
        import nbformat
        from nbclient import NotebookClient
        from traitlets.config import Config

        shutil.copy(EXAMPLES / "incast.toml", tmp_path)
        book = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
        nbformat.validate(book)
        assert not any(cell.get("outputs") for cell in book.cells), "the outputs are not kept in the repository"
        no_network = Config({"KernelManager": {"transport": "ipc"}})
        NotebookClient(book, timeout=int(HANG_S), config=no_network).execute()
    shown = {cell.id: [out.get("data", {}) for out in cell.outputs] for cell in book.cells if cell.cell_type == "code"}
    for name, kind in {
        "run": "text/html", "run-plot": "image/png", "flows": "text/html", "compare": "text/html", "compare-plot": "image/png",
        "compare-at": "image/png", "sweep": "image/png", "sweep-frame": "text/plain",
    }.items():  # fmt: skip
        assert any(kind in data for data in shown[name]), (name, shown[name])
    assert "10 of 10 flows finished" in shown["run"][-1]["text/html"]
