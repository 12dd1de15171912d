"""Pictures: no text is clipped or covered, transports look different, and values are at the right places."""

from __future__ import annotations

import colorsys
import dataclasses
import itertools
import json
import math
import os
import random
import re
import statistics
import zlib
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer

from flowloom import _native
from flowloom.axes import Axis
from flowloom.demotion.sizes import Sizes
from flowloom.distributions import Distribution, quantiles
from flowloom.figures import reader
from flowloom.figures.grid import Grid
from flowloom.overlays import Points
from flowloom.plots import bars, comparison, figure, flows, over, pictures, series, sizes, style, tables, thresholds, variants
from flowloom.plots.subjects import Each, Over
from flowloom.reports import charts
from flowloom.results import Results
from flowloom.sweeps import Run, Sweep
from flowloom.transports import Family, transports

ROOT = Path(__file__).parents[2]
FIGURES = sorted(path for path in (ROOT / "papers").glob("*/*.toml") if "[[panel]]" in path.read_text(encoding="utf-8"))
NAMES = [name for name in transports() if name != "ideal"]


@pytest.fixture
def drawings(monkeypatch, tmp_path):
    """All drawings that a test saves. Set GALLERY to a folder to keep the pictures."""
    saved = []

    def keep(drawing, stem):
        style.fit(drawing)
        drawing.draw_without_rendering()
        if "GALLERY" in os.environ:
            drawing.savefig(Path(os.environ["GALLERY"]) / f"{Path(stem).name}.png", dpi=80)
            drawing.draw_without_rendering()
        saved.append(drawing)
        return [Path(f"{stem}.png")]

    monkeypatch.setattr(style, "save", keep)
    return saved


def texts(drawing):
    """Return every visible text of the axes, the legend and the drawing itself, with its box in pixels."""
    found = [drawing._suptitle] if drawing._suptitle else []
    for below in drawing.legends:
        found += [*below.get_texts(), below.get_title()]
    for spot in drawing.axes:
        found += [spot.title, spot.xaxis.label, spot.yaxis.label]
        for axis, (low, high) in ((spot.xaxis, spot.get_xlim()), (spot.yaxis, spot.get_ylim())):
            shown = [tick for tick in axis.get_major_ticks() if low - 1e-9 * abs(low) <= tick.get_loc() <= high * (1 + 1e-9)]
            found += [tick.label1 for tick in shown if tick.label1.get_visible()]
    return [
        (text.get_text(), text, text.get_window_extent()) for text in found if text.get_visible() and text.get_text().strip()
    ]


def sound(drawing):
    """Check that every text is inside the drawing, and that no text covers another."""
    seen = texts(drawing)
    assert seen
    for text, _, box in seen:
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= drawing.bbox.width + 1 and box.y1 <= drawing.bbox.height + 1, text
    for (a, one, here), (b, other, there) in itertools.combinations(seen, 2):
        if one.get_rotation() in (0, 90) and other.get_rotation() in (0, 90):  # the box of slanted text is larger than the text
            width = min(here.x1, there.x1) - max(here.x0, there.x0)
            height = min(here.y1, there.y1) - max(here.y0, there.y0)
            assert width <= 1 or height <= 1, (a, b)


def result(name: str, slowdown: float, seed: int = 1) -> Results:
    """Make a result of made-up numbers."""
    import pyarrow as pa

    draw = np.random.default_rng(seed)
    size = np.exp(draw.uniform(np.log(100), np.log(3e7), 400)).astype(int)
    values = 1 + (slowdown - 1) * draw.exponential(1, 400)
    flows = pa.table({"bytes": size, "slowdown": values, "finish": np.ones(400)})
    spread = {"mean": float(values.mean()), "p99": float(np.percentile(values, 99))}
    return Results({"transport": name, "slowdown": spread}, "", {}, _flows=flows)


class Made(Grid):
    """Make a figure's grid of made-up numbers, so that every figure can be drawn without running it."""

    def __init__(self, of):
        super().__init__(of, [], {})
        self.scale = 10 ** random.Random(of.name).uniform(-1, 4)

    def samples(self, metric, point):
        draw = random.Random(f"{metric} {point}")
        if draw.random() < 0.03:
            return [math.nan] * 3
        mean, spread = self.scale * draw.uniform(0.5, 1.5), draw.uniform(0, 0.04)
        return [mean * (1 - spread), mean, mean * (1 + spread)]

    def distribution(self, quantity, point):
        values = np.random.default_rng(zlib.crc32(str(point).encode())).exponential(self.scale, 400)
        return Distribution(400, quantiles(values))

    def recorded(self, series, columns, point):
        assert len(columns) == 2
        xs = list(np.linspace(0, 1, 50))
        return [[(value, value * self.scale * random.Random(str(point)).random()) for value in xs]]


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_figure_of_every_paper_is_drawn_whole(path, drawings, tmp_path):
    figure.draw(Made(reader.read(path)), tmp_path / f"{path.parent.name}-{path.stem}", "phost/fig0, scale quick: one seed")
    (drawing,) = drawings
    sound(drawing)


def test_bars_stand_on_a_line_and_no_bar_is_on_a_logarithmic_axis(drawings):
    drawing = style.canvas(6, 4)
    linear, log = drawing.subplots(1, 2)
    members = [
        bars.Member(style.transport("phost"), [2.0, 3.0], [0.1, 0.2]),
        bars.Member(style.transport("pfabric"), [20.0, 1.5], [0.0, 0.0]),
        bars.Member(style.transport("ideal"), [1.2, 1.1], [0.0, 0.0]),
    ]
    handles = bars.draw(linear, members, ["a", "b"], log=False, base=1.0)
    assert isinstance(handles["pHost"], BarContainer)
    assert [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in handles["pHost"]] == [(1.0, 2.0), (1.0, 3.0)]
    assert [list(line.get_ydata()) for line in linear.lines if line.get_color() == "black"] == [[1.0, 1.0]]
    dots = bars.draw(log, members, ["a", "b"], log=True)
    assert log.get_yscale() == "log"
    assert not log.patches
    assert list(dots["pFabric"].get_ydata()) == [20.0, 1.5]
    assert (dots["pHost"].get_marker(), dots["pFabric"].get_marker()) == ("o", "s")


def look_at(drawing, name):
    """Check a drawing that is not saved, and return it. Set GALLERY to a folder to keep the pictures."""
    style.fit(drawing)
    drawing.draw_without_rendering()
    sound(drawing)
    if "GALLERY" in os.environ:
        drawing.savefig(Path(os.environ["GALLERY"]) / f"{name}.png", dpi=80)
        drawing.draw_without_rendering()
    return drawing


SIZES = Axis.of("workload.sizes", ["web_search", "data_mining", "imc10"])


@pytest.mark.parametrize(("worst", "scale"), [(2.0, "linear"), (60.0, "log")])
def test_a_tournament_has_all_transports_in_all_rounds(worst, scale):
    names = [*NAMES[:10], "ideal"]
    series = [
        over.Series(
            style.transport(name), [[result(name, 1 + (worst - 1) * at / 10, seed) for seed in (1, 2)] for _ in SIZES.values]
        )
        for at, name in enumerate(names)
    ]
    drawing = look_at(over.draw(SIZES, series, ("slowdown.mean", "slowdown.p99"), "A tournament"), f"tournament-{scale}")
    assert drawing.axes[0].get_yscale() == scale
    assert drawing.axes[0].get_xlabel() == "workload.sizes"
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == [style.transport(name).label for name in names]
    assert "2 seeds with 95 % confidence intervals" in drawing.legends[0].get_title().get_text()


BUFFERS = Axis.of("fabric.buffer", ["1MB", "36kB", "0.2MB"])


def test_quantities_have_one_unit_and_a_place_on_a_numeric_axis():
    assert (BUFFERS.at, BUFFERS.unit, BUFFERS.title) == ((1000, 36, 200), "kB", "fabric.buffer (kB)")
    assert BUFFERS.log
    assert Axis.of("topology.host_rate", ["400Mb/s", "1Gb/s"])[3:] == ((400, 1000), "Mb/s")
    assert Axis.of("topology.host_rate", ["400Mbps", "1Gb/s"])[3:] == ((400, 1000), "Mbps")
    assert Axis.of("workload.load", [0.3, 0.5, 0.7, 0.9]).log is False
    assert [Axis.of("workload.senders", values).log for values in ([5, 20, 80], [10, 20, 30], [0, 1, 100])] == [
        True,
        False,
        False,
    ]
    for values in ([0.3], [True, False], ["a", "b"], ["1kB", "1us"], [1, "1kB"], [[1], [2]], ["1kB", "1000B"]):
        assert Axis.of("k", values).at is None


def test_lines_over_a_numeric_axis_go_through_the_means(drawings):
    runs = [[result("phost", 2 + place, seed) for seed in (1, 2, 3)] for place in range(3)]
    series = [
        over.Series(style.transport("phost"), runs),
        over.Series(style.transport("ideal"), [runs[0][:1], [], runs[2][:1]]),
    ]
    points = [(variants.overlay("paper", 0), Points([100.0, 500.0], {"slowdown.p99": [3.0, 4.0]}))]
    drawing = look_at(over.draw(BUFFERS, series, ("slowdown.mean", "slowdown.p99"), "buffers", points), "buffers")
    mean, tail = drawing.axes
    (line,) = (line for line in mean.lines if line.get_marker() == "o")
    expected = [statistics.fmean(run.summary["slowdown"]["mean"] for run in runs[place]) for place in (1, 2, 0)]
    assert list(line.get_xdata()) == [36, 200, 1000]
    assert list(line.get_ydata()) == pytest.approx(expected)
    assert (mean.get_xscale(), mean.get_xlabel(), mean.get_ylabel()) == ("log", "fabric.buffer (kB)", "Mean slowdown")
    assert [tick.get_text() for tick in mean.get_xticklabels()] == ["1,000", "36", "200"]
    # A run that failed is a gap.
    (bound,) = (line for line in mean.lines if line.get_linestyle() == "--")
    assert [math.isnan(y) for y in bound.get_ydata()] == [True, False, False]
    # Other tools' points are in the panel of their metric.
    (paper,) = (line for line in tail.lines if line.get_marker() == "$A$")
    assert (list(paper.get_xdata()), list(paper.get_ydata())) == ([100, 500], [3, 4])
    assert not [line for line in mean.lines if line.get_marker() == "$A$"]
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["pHost", "ideal", "paper"]
    for spot in drawing.axes:
        for each in spot.lines:
            if each.get_marker() not in ("", "None", "_", "|"):
                whole_marks(spot, each)


def test_no_interval_hides_another(drawings):
    runs = [[result("phost", 2, seed) for seed in (1, 2)]] * 3
    names = NAMES[:5]
    series = [over.Series(style.transport(name), runs) for name in names]
    one_seed = over.Series(style.transport("ideal"), [each[:1] for each in runs])
    (spot,) = look_at(over.draw(BUFFERS, [*series, one_seed], ["slowdown.mean"], "x"), "intervals").axes
    lines = {line.get_color(): line for line in spot.lines if line.get_marker() not in ("", "None", "_", "|")}
    marks = [lines[style.transport(name).color].get_transform().transform((200, 1))[0] for name in names]
    bars = [bars.get_transform().transform((200, 1))[0] for bars in spot.collections]
    assert bars == pytest.approx(marks)
    caps = [cap for cap in spot.lines if cap.get_marker() == "_"]
    assert sorted({round(cap.get_transform().transform((200, 1))[0], 3) for cap in caps}) == pytest.approx(marks, abs=1e-3)
    apart = np.diff(marks) / spot.figure.dpi * 72
    assert apart == pytest.approx([4] * 4)
    assert statistics.fmean(marks) == pytest.approx(spot.transData.transform((200, 1))[0])
    # What has no interval, and what is alone, is where its value is.
    (bound,) = (line for line in spot.lines if line.get_color() == style.transport("ideal").color)
    assert bound.get_transform().transform((200, 1)) == pytest.approx(spot.transData.transform((200, 1)))
    (spot,) = over.draw(BUFFERS, series[:1], ["slowdown.mean"], "x").axes
    assert spot.lines[0].get_transform().transform((200, 1)) == pytest.approx(spot.transData.transform((200, 1)))
    # Many values leave less room between them.
    loads = Axis.of("workload.load", [number / 25 for number in range(1, 25)])
    many = [over.Series(each.look, [each.runs[0]] * 24) for each in series]
    (spot,) = look_at(over.draw(loads, many, ["slowdown.mean"], "x"), "intervals-many").axes
    left, right = (bars.get_transform().transform((0.4, 1))[0] for bars in (spot.collections[0], spot.collections[-1]))
    gap = spot.transData.transform((0.44, 1))[0] - spot.transData.transform((0.4, 1))[0]
    assert 0.1 * gap < right - left < 0.6 * gap


def test_panels_fill_their_rows():
    assert [style.grid(count) for count in range(1, 8)] == [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (3, 2), (3, 3)]


def test_the_labels_of_a_narrow_logarithmic_axis_are_left_out_and_not_slanted():
    drawing = style.canvas(3, 2)
    spot = drawing.subplots()
    spot.plot([80, 14_000], [1, 2])
    style.logarithmic(spot.xaxis)
    look_at(drawing, "narrow")
    labels = [tick.label1 for tick in spot.xaxis.get_major_ticks() if 80 <= tick.get_loc() <= 14_000]
    assert [label.get_text() for label in labels] == ["100", "1,000", "10,000"]
    assert {label.get_rotation() for label in labels} == {0}


def test_a_panel_without_values_says_so():
    nothing = Results({"slowdown": {"mean": None}}, "", {})
    words = {
        over.draw(BUFFERS, [over.Series(style.transport("phost"), [[nothing]] * 3)], ["slowdown.mean"], "x"): "no values",
        flows.chart(few(sim_s=0.0), "x"): "no flow has started",
        comparison.draw([comparison.Scheme(style.transport("phost"), [open_flows(100, 200)])], "x"): "no flow has finished",
        comparison.draw([comparison.Scheme(style.transport("phost"), [open_flows(100)])], "x"): "no flow has finished",
    }
    for number, (drawing, said) in enumerate(words.items()):
        for spot in look_at(drawing, f"nothing-{number}").axes:
            assert [text.get_text() for text in spot.texts] == [said]
            assert not spot.get_yticks().size


def open_flows(*sizes):
    import pyarrow as pa

    return Results({}, "", {}, _flows=pa.table({"bytes": sizes, "slowdown": pa.array([None] * len(sizes), "float64")}))


def whole_marks(spot, line):
    """Check that a line's marks are inside the axes, and not cut off at their edge."""
    box = spot.get_window_extent()
    places = line.get_transform().transform(np.array(line.get_data()).T)
    known = places[~np.isnan(places[:, 1])]
    assert (known[:, 0] >= box.x0).all() and (known[:, 0] <= box.x1).all()
    assert (known[:, 1] >= box.y0).all() and (known[:, 1] <= box.y1).all()
    radius = line.get_markersize() / 2 * spot.figure.dpi / 72
    assert not line.get_clip_on() or (known[:, 1] - radius >= box.y0).all()


@pytest.mark.parametrize(
    ("name", "value", "scale", "low"),
    [("drops.rate", lambda place: 0.01 * place, "linear", 0), ("fct_us.mean", lambda place: 10.0 ** (1 + place), "log", None)],
)
def test_other_metrics_have_axes_that_suit_them(name, value, scale, low):
    group, member = name.split(".")
    runs = [[Results({group: {member: value(place)}}, "", {})] for place in range(3)]
    drawing = look_at(over.draw(BUFFERS, [over.Series(style.transport("phost"), runs)], [name], "x"), name)
    (spot,) = drawing.axes
    assert spot.get_yscale() == scale
    assert low is None or spot.get_ylim()[0] == low
    shown = [text for text, artist, _ in texts(drawing) if artist in spot.get_yticklabels()]
    assert all(text.endswith(" %") for text in shown) == (name == "drops.rate")
    assert "One seed" in drawing.legends[0].get_title().get_text()


def test_another_tools_flows_are_drawn_as_ours_and_without_slowdowns_completion_times_are():
    import pyarrow as pa

    ours = result("phost", 2)
    ours._flows = ours.flows.append_column("optimum", pa.array([1e-3] * 400))
    flows = pa.table({"bytes": [1000.0, 1000.0, 10**6], "fct_us": [100.0, 300.0, None]})
    theirs = comparison.Scheme(variants.overlay("htsim", 0), [Results({}, "", {}, _flows=flows)])
    points = [(variants.overlay("paper", 1), Points([5000.0], {"y": [70.0]}))]
    drawing = look_at(comparison.draw([comparison.Scheme(style.transport("phost"), [ours]), theirs], "x", points), "fct")
    left, right = drawing.axes
    assert (left.get_ylabel(), right.get_xlabel()) == ("Mean FCT (µs)", "FCT (µs)")
    (by_size,) = (line for line in left.lines if line.get_marker() == "$A$")
    assert [*by_size.get_xdata(), *by_size.get_ydata()] == pytest.approx([1000, 200])  # the third flow is not finished
    (paper,) = (line for line in left.lines if line.get_marker() == "$B$")
    assert (list(paper.get_xdata()), list(paper.get_ydata())) == ([5000], [70])
    slowest = ours.flows["slowdown"].to_numpy().max() * 1e-3 * 1e6  # an optimum of 1 ms, in µs
    assert (right.lines[0].get_xdata()[0], right.lines[0].get_ydata()[0]) == pytest.approx((slowest, 1 / 400))


def flow(id, start, finish, optimum=1e-3, **more):
    slowdown = None if finish is None else (finish - start) / optimum
    row = {"id": id, "src": id + 1, "dst": 0, "bytes": 250_000, "start": start, "finish": finish, "optimum": optimum}
    return row | {"slowdown": slowdown, "deadline": None, "aborted": None} | more


def few(*rows, transport="phost", **summary):
    import pyarrow as pa

    nothing = pa.table({"deadline": pa.array([], "float64"), "finish": pa.array([], "float64")})
    table = pa.Table.from_pylist(list(rows)) if rows else nothing
    return Results({"transport": transport, "seed": 1, "sim_s": 0.01} | summary, "", {}, _flows=table)


def test_few_flows_are_bars_from_start_to_end():
    run = few(
        flow(0, 0.0, 0.001),
        flow(1, 0.002, 0.006, deadline=0.008),
        flow(2, 0.001, None),
        flow(3, 0.001, None, aborted="deadline"),
    )
    drawing = look_at(flows.chart(run, "three flows"), "chart")
    (spot,) = drawing.axes
    assert spot.get_xlabel() == "Time (ms)"
    boxes = [(bar.get_y() + bar.get_height() / 2, bar.get_x(), bar.get_width()) for bar in spot.patches]
    # The first part of a bar is as long as the flow takes alone. An unfinished flow is open until the run ends.
    expected = [(0, 0, 1), (0, 1, 0), (1, 2, 1), (1, 3, 3), (2, 1, 9), (3, 1, 9)]
    assert [value for box in boxes for value in box] == pytest.approx([value for box in expected for value in box])
    assert [text.get_text() for text in spot.texts] == ["1.00", "4.00", "not finished", "aborted"]
    assert [tick.get_text() for tick in spot.get_yticklabels()][:2] == ["0: 1 → 0, 250 kB", "1: 2 → 0, 250 kB"]
    (deadline,) = (line for line in spot.lines if line.get_marker() == "|")
    assert (list(deadline.get_xdata()), list(deadline.get_ydata())) == ([8], [1])
    assert spot.get_ylim()[0] > spot.get_ylim()[1]  # the first flow is on top
    legend = [text.get_text() for text in drawing.legends[0].get_texts()]
    assert legend == ["as long as alone in the network", "waiting, losses and start-up", "deadline", "not finished"]
    # The number after the last bar has room.
    edge = drawing.axes[0].get_window_extent().x1
    assert all(text.get_window_extent().x1 <= edge + 1 for text in spot.texts)


def test_a_bar_ends_with_the_run_and_begins_with_its_request():
    # The deadline of an unfinished flow is after the run, which ends at 10 ms. A request takes half a millisecond.
    run = few(
        flow(0, 0.0, None, deadline=0.04),
        flow(1, 0.0, 0.001) | {"slowdown": 1.5},
        flow(2, 0.001, None, aborted="deadline", deadline=0.03),
    )
    found = flows.bars_of(run)
    assert (found.begin, found.end, found.unit) == (pytest.approx(-0.5), 40, "ms")
    assert [bar.end for bar in found.rows] == pytest.approx([10, 1, 10])
    (spot,) = look_at(flows.chart(run, "a request"), "request").axes
    assert spot.get_xlim()[0] < -0.5 and spot.get_xlim()[1] > 40


def test_a_short_flow_is_visible_and_its_number_is_beside_it():
    long = flow(0, 0.0, 1.0, optimum=1.0)
    run = few(long, flow(1, 0.0, 1e-6, optimum=1e-6, deadline=0.9), flow(2, 0.0, 1e-6, optimum=1e-6, deadline=0.02))
    (spot,) = look_at(flows.chart(run, "short flows"), "short").axes
    shown = [bar for bar in spot.patches if to_rgb(bar.get_facecolor()) == to_rgb(style.transport("phost").color)]
    assert len(shown) == 3
    assert all(bar.get_linewidth() > 0.5 and to_rgb(bar.get_edgecolor()) == to_rgb(bar.get_facecolor()) for bar in shown)
    # A deadline just after the bar is not covered.
    assert [text.xy[0] for text in spot.texts] == pytest.approx([1, 1e-6, 0.02])
    # The axis line covers no bar that starts at 0.
    assert spot.get_xlim()[0] < 0


@pytest.mark.parametrize("count", [0, 1, 30])
def test_a_chart_has_room_for_every_flow(count):
    rows = [flow(number, 1e-5 * number, 1e-5 * number + 3e-3, bytes=10 ** (number % 10)) for number in range(count)]
    run = few(*rows, sim_s=0.01 if rows else 0.0)
    look_at(
        flows.chart(run, "a scenario with a name that says everything about it, as long as that may become"), f"chart-{count}"
    )


def test_few_flows_are_compared_one_by_one():
    def scheme(name, *factors):
        return comparison.Scheme(
            style.transport(name), [few(flow(0, 0.0, 0.001 * f), flow(1, 0.0, 0.002 * f), transport=name) for f in factors]
        )

    schemes = [scheme("phost", 1.0, 1.2), scheme("dctcp", 1.5, 1.5), scheme("ideal", 1.0, 1.0)]
    groups = flows.groups(schemes)
    assert [group.label for group in groups] == ["0: 1 → 0, 250 kB", "1: 2 → 0, 250 kB"]
    drawing = look_at(flows.draw(schemes, groups, "two flows"), "few")
    times, slowdowns = drawing.axes
    assert (times.get_xlabel(), slowdowns.get_xlabel()) == ("FCT (µs)", "Slowdown")
    # Means over the seeds: 1.1 and 1.5 ms, twice as long for the second flow.
    assert [bar.get_width() for bar in times.patches] == pytest.approx([1100, 2200, 1500, 3000])
    assert [bar.get_x() + bar.get_width() for bar in slowdowns.patches] == pytest.approx([1.1, 2.2, 1.5, 3.0])
    assert "2 seeds" in drawing.legends[0].get_title().get_text()


@pytest.mark.parametrize(
    ("means", "note"),
    [
        ((1.5, 1.7, None), "Means of 2 to 3 seeds with"),
        ((1.5, None, None), "Means of 1 to 3 seeds with"),
        ((None, None, None), "Means of 3 seeds with"),
    ],
)
def test_notes_say_how_many_seeds_means_are_over(means, note):
    """A seed of which no flow has finished is in no mean, and a mean over no seed is not drawn."""
    import pyarrow as pa

    def run(slowdown):
        flows = pa.table({"bytes": [25_000], "slowdown": pa.array([slowdown], "float64")})
        return Results({"slowdown": {"mean": slowdown, "p99": slowdown}}, "", {}, _flows=flows)

    schemes = [
        comparison.Scheme(style.transport(name), [run(each) for each in of])
        for name, of in (("phost", means), ("dctcp", (2.0, 2.5, 3.0)))
    ]
    named = ("slowdown.mean", "slowdown.p99")
    lines, groups = [over.Series(look, [of]) for look, of in schemes], flows.groups(schemes)
    drawings = [
        over.draw(Axis.none(), lines, named, "x"),
        comparison.draw(schemes, "x"),
        flows.draw(schemes, groups, "x"),
    ]
    subjects = [Over(Axis.none(), lines, named, "x"), Each(schemes, groups, "x")]
    notes = [drawing.legends[0].get_title().get_text() for drawing in drawings]
    notes += [plots.note for subject in subjects for plots in charts.of(subject)]
    assert [text.replace("\n", " ").startswith(note) for text in notes] == [True] * 5, notes


def test_flows_that_differ_or_are_many_are_not_compared_one_by_one():
    phost, dctcp = (style.transport(name) for name in ("phost", "dctcp"))
    one, other = few(flow(0, 0.0, 0.001)), few(flow(0, 0.0, 0.001, bytes=7), seed=2)
    assert flows.groups([comparison.Scheme(phost, [one]), comparison.Scheme(dctcp, [other])]) == []
    # Other flows of another seed are groups of their own.
    seeds = [comparison.Scheme(phost, [one, other]), comparison.Scheme(dctcp, [one, other])]
    assert [group.label for group in flows.groups(seeds)] == ["seed 1, 0: 1 → 0, 250 kB", "seed 2, 0: 1 → 0, 7 B"]
    assert flows.groups([comparison.Scheme(phost, [few(*(flow(n, 0.0, 0.001) for n in range(31)))])]) == []
    # Of another tool's flows, only the sizes are known.
    import pyarrow as pa

    theirs = Results({}, "", {}, _flows=pa.table({"bytes": [250_000.0], "slowdown": [2.0]}))
    both = [comparison.Scheme(phost, [one]), comparison.Scheme(variants.overlay("htsim", 0), [theirs])]
    assert [group.label for group in flows.groups(both)] == ["0: 250 kB"]
    drawing = look_at(flows.draw(both, flows.groups(both), "x"), "few-other")
    assert [spot.get_xlabel() for spot in drawing.axes] == ["Slowdown"]


def test_lines_of_long_names_are_kept_when_the_axis_is_drawn_again():
    names = tuple(f"a value of a key with many words, number {number}" for number in range(3))
    runs = [[result("phost", 2)] for _ in names]
    series = [over.Series(style.transport("phost"), runs)]
    drawing = look_at(
        over.draw(Axis("k", names, names, None, ""), series, ["slowdown.mean", "slowdown.p99"], "x"), "long-names"
    )
    assert all("\n" in tick.get_text() for spot in drawing.axes for tick in spot.get_xticklabels())


def swept(*points):
    """Make a sweep whose runs have made-up numbers."""
    runs = []
    for number, (point, name, value) in enumerate(points):
        summary = {"transport": name, "seed": 1, "slowdown": {"mean": value, "p99": 2 * value}, "drops": {"rate": value / 100}}
        runs.append(Run(point, 1, Results(summary, "", {}), str(number), "run"))
    return Sweep(runs, (), "made up")


def drawn(sweep):
    ((name, drawing),) = pictures.of_sweep(sweep)
    return look_at(drawing, name)


def test_a_sweep_is_drawn_over_its_numbers_with_a_line_for_each_combination_of_the_others():
    grid = [(load, name, kb) for load in (0.7, 0.3, 0.5) for name in ("phost", "dctcp") for kb in ("12kB", "36kB")]
    points = [
        (
            {"workload.load": load, "transport.name": name, "fabric.buffer": kb},
            name,
            1 + load + (name == "dctcp") + (kb == "12kB"),
        )
        for load, name, kb in grid
    ]
    drawing = drawn(swept(*points))
    mean, tail = drawing.axes
    assert (mean.get_xlabel(), mean.get_ylabel(), tail.get_ylabel()) == (
        "workload.load", "Mean slowdown", "99th-percentile slowdown",
    )  # fmt: skip
    labels = ["pHost, buffer 12kB", "pHost, buffer 36kB", "DCTCP, buffer 12kB", "DCTCP, buffer 36kB"]
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == labels
    shown = {line.get_label(): line for line in mean.lines if line.get_label() in labels}
    for label, line in shown.items():
        assert list(line.get_xdata()) == [0.3, 0.5, 0.7]
        base = 1 + ("DCTCP" in label) + ("12kB" in label)
        assert list(line.get_ydata()) == pytest.approx([base + 0.3, base + 0.5, base + 0.7])
    assert shown[labels[0]].get_color() == style.transport("phost").color
    assert shown[labels[2]].get_color() == style.transport("dctcp").color
    assert len({(line.get_color(), str(line.get_linestyle()), line.get_marker()) for line in shown.values()}) == 4


def test_one_transport_has_shades_for_the_values_of_the_other_key():
    grid = [(load, senders) for load in (0.3, 0.5, 0.7) for senders in (4, 8)]
    points = [({"workload.senders": s, "workload.load": load}, "phost", 1 + load * s / 8) for load, s in grid]
    drawing = drawn(swept(*points))
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == ["senders 4", "senders 8"]
    assert drawing.axes[0].get_xlabel() == "workload.load"


@pytest.mark.parametrize(
    ("points", "label", "legend"),
    [
        ([({"transport.name": name}, name, 1.5) for name in ("phost", "dctcp")], "", ["pHost", "DCTCP"]),
        ([({"workload.sizes": name}, "phost", 1.5) for name in ("web_search", "imc10")], "workload.sizes", ["pHost"]),
        ([({"workload.load": 0.5}, "phost", 1.5)], "workload.load", ["pHost"]),
        ([({"fabric.pfc": value}, "phost", 1.5) for value in ({}, {"headroom": "1kB"})], "fabric.pfc", ["pHost"]),
    ],
)
def test_a_sweep_without_numbers_has_bars(points, label, legend):
    drawing = drawn(swept(*points))
    spot = drawing.axes[0]
    assert spot.get_xlabel() == label
    assert [bar.get_height() for bar in spot.patches] == pytest.approx([0.5] * len(points))
    assert [text.get_text() for text in drawing.legends[0].get_texts()] == legend


def test_signs_of_mathematics_in_a_name_are_shown_as_they_are():
    names = [variants.Name("costs $5 and $6", "phost", 0), variants.Name("a_b^2 {c}", "dctcp", 1)]
    looks = variants.looks(names)
    schemes = [comparison.Scheme(looks[name.label], [result(name.transport, 2)]) for name in names]
    drawing = look_at(comparison.draw(schemes, "prices in $ and $"), "mathematics")
    assert not any(text.get_parse_math() for text in [drawing._suptitle, *drawing.legends[0].get_texts()])


def test_twelve_lines_with_long_names_and_three_panels_fit():
    values = [f'{{ uniform = ["{n}kB", "{10 * n}kB"] }}' for n in range(1, 7)]
    grid = [(load, name, value) for load in (0.1, 0.5, 0.9) for name in ("phost", "dctcp") for value in values]
    points = [
        ({"workload.load": load, "transport.name": name, "workload.sizes": value}, name, 1 + load * (1 + values.index(value)))
        for load, name, value in grid
    ]
    sweep = dataclasses.replace(swept(*points), metrics=("slowdown.mean", "drops.rate", "slowdown.p99 / slowdown.mean"))
    drawing = drawn(sweep)
    assert [spot.get_ylabel() for spot in drawing.axes] == ["Mean slowdown", "Drop rate", "slowdown.p99 / slowdown.mean"]
    assert len(drawing.legends[0].get_texts()) == 12


def test_a_series_is_drawn_with_its_units_for_each_seed():
    import pyarrow as pa

    table = pa.table({"time_us": [0.0, 1.0, 2.0], "queue_bytes": [0, 1500, 3000], "busy_share": [0.0, 0.5, 1.0]})
    runs = [Results({"transport": "phost", "seed": seed}, "", {}, _series={"busy": table}) for seed in (1, 2)]
    drawing = look_at(series.draw([comparison.Scheme(style.transport("phost"), runs)], "busy", "x"), "series")
    queue, busy = drawing.axes
    assert (queue.get_xlabel(), queue.get_ylabel(), busy.get_ylabel()) == ("Time (µs)", "Queue (B)", "Busy share")
    assert [list(line.get_ydata()) for line in queue.lines] == [[0, 1500, 3000]] * 2
    assert any(tick.get_text().endswith(" %") for tick in busy.get_yticklabels())
    for spot in drawing.axes:
        for line in spot.lines:
            whole_marks(spot, line)
    with pytest.raises(_native.ScenarioError, match='no series "bus": did you mean "busy"'):
        series.draw([comparison.Scheme(style.transport("phost"), runs)], "bus", "x")
    silent = [Results({"transport": "ideal"}, "", {}, _series={})]
    with pytest.raises(_native.ScenarioError, match="the runs have recorded none"):
        series.draw([comparison.Scheme(style.transport("ideal"), silent)], "busy", "x")


PANELS = """
title = "What is drawn"
[[axis]]
name = "load"
values = [0.5, 0.7]
[[axis]]
name = "transport"
values = ["pase", "pfabric", "dctcp"]
[[axis]]
name = "scheme"
values = ["plain", "pruned", "delegated"]
labels = ["PASE alone, without any of its optimisations", "pruning", "pruning and delegation"]
[[set]]
when = { load = 0.5, transport = "pase", scheme = "plain" }
keys = {}
[scale.quick]
"""


@pytest.fixture
def panel(tmp_path):
    """Read a figure with these panels."""

    def read(text, scenario=True):
        (tmp_path / "fig1.toml").write_text(PANELS + text)
        return reader.read(tmp_path / "fig1.toml")

    return read


def curves(spot):
    """Return the lines with markers by colour; others are axes and intervals."""
    return {
        line.get_color(): line
        for line in spot.lines
        if line.get_marker() not in ("", "None", "_", "|") and len(line.get_xdata())
    }


def test_a_distribution_is_drawn_as_steps_through_its_quantiles(panel, drawings, tmp_path):
    class Half(Made):
        def distribution(self, quantity, point):
            # Half of the flows of pFabric never finish.
            values = np.array([1.0, 2.0, 3.0, 4.0])
            return Distribution(
                4, quantiles(np.where(values > 2, np.inf, values) if point["transport"] == "pfabric" else values)
            )

    text = '[[panel]]\nkind = "cdf"\nx = "slowdown"\npercent = true\nwhere = { transport = ["pase", "pfabric"] }\n'
    figure.draw(Half(panel(text)), tmp_path / "f", "")
    (drawing,) = drawings
    sound(drawing)
    (spot,) = drawing.axes
    drawn = curves(spot)
    assert drawn.keys() == {style.transport("pase").color, style.transport("pfabric").color}
    assert {line.get_drawstyle() for line in drawn.values()} == {"steps-post"}
    whole, half = (drawn[style.transport(name).color] for name in ("pase", "pfabric"))
    assert list(whole.get_ydata()) == pytest.approx([step / 10 for step in range(1001)])
    assert [whole.get_xdata()[step] for step in (0, 250, 251, 1000)] == [1, 1, 2, 4]
    assert (half.get_xdata()[-1], half.get_ydata()[-1]) == (2, 50)
    assert (whole.get_marker(), half.get_marker()) == (style.transport("pase").marker, style.transport("pfabric").marker)
    assert (spot.get_xlim()[0], spot.get_ylim()[0], spot.get_ylabel()) == (0, 0, "Share of flows (%)")


def test_no_text_of_a_distribution_is_clipped(panel, drawings, tmp_path):
    text = """
    [[panel]]
    kind = "cdf"
    x = "fct_us / 1000"
    x_label = "Flow completion time in milliseconds, with the delay of the request and of the application (ms)"
    title = "Completion times of all flows in the left-right scenario at a load of 70 %"
    facet = "load"
    log_x = true
    [[panel]]
    kind = "cdf"
    x = "slowdown"
    sizes = { above = "10kB", up_to = "1MB" }
    series = "scheme"
    x_min = 1
    x_max = 20000
    [[panel]]
    kind = "lines"
    x = "load"
    y = "fct_us.mean"
    series = "scheme"
    to = { scheme = "plain" }
    reduction = true
    percent = true
    """
    figure.draw(Made(panel(text)), tmp_path / "f", "")
    (drawing,) = drawings
    sound(drawing)
    assert len(drawing.axes) == 4
    assert drawing.axes[0].get_xscale() == "log"
    assert drawing.axes[2].get_xlim() == (1, 20000)
    assert drawing.axes[2].get_title() == "10 kB to 1 MB"


def test_a_gain_over_a_baseline_is_the_mean_of_the_seeds_gains(panel, drawings, tmp_path):
    class Numbers(Made):
        def samples(self, metric, point):
            plain = [10.0, 20.0, 40.0]
            by = {"plain": [1, 1, 1], "pruned": [0.8, 0.9, 1.0], "delegated": [1.5, 1.5, 1.5]}[point["scheme"]]
            return [a * b * point["load"] for a, b in zip(plain, by, strict=True)]

    text = """
    [[panel]]
    kind = "KIND"
    x = "load"
    y = "fct_us.mean"
    series = "scheme"
    to = { scheme = "plain" }
    """
    lines = text.replace("KIND", "lines") + "reduction = true\npercent = true\n"
    bars_ = text.replace("KIND", "bars") + "reduction = true\n"
    figure.draw(Numbers(panel(lines + bars_ + text.replace("KIND", "lines"))), tmp_path / "f", "")
    (drawing,) = drawings
    sound(drawing)
    percent, share, ratio = drawing.axes
    label = "PASE alone, without any of its optimisations"
    assert " ".join(percent.get_ylabel().split()) == f"Mean FCT: reduction from {label} (%)"
    assert " ".join(ratio.get_ylabel().split()) == f"Mean FCT relative to {label}"
    # The baseline is not drawn. The gains of the three seeds of `pruned` are 20, 10 and 0 %.
    drawn = [list(line.get_ydata()) for line in curves(percent).values()]
    assert drawn == [pytest.approx([10, 10]), pytest.approx([-50, -50])]
    low, high = (segment[:, 1] for segment in percent.collections[0].get_segments()[0].reshape(2, 1, 2))
    assert (low[0], high[0]) == pytest.approx((10 - 24.84, 10 + 24.84), abs=0.01)  # 4.303 * 10 / sqrt(3)
    # A loss is not cut off.
    assert percent.get_ylim()[0] < -50
    assert share.get_ylim()[0] < -0.5
    assert [bar.get_height() for bar in share.patches] == pytest.approx([0.1, 0.1, -0.5, -0.5])
    assert [list(line.get_ydata()) for line in curves(ratio).values()] == [pytest.approx([0.9, 0.9]), pytest.approx([1.5, 1.5])]
    assert ratio.get_ylim()[0] == 0


def test_a_comparison_is_drawn_with_the_markers_of_its_legend():
    names = ["phost", "pfabric", "fastpass", "dctcp", "my_own", "ideal"]
    title = "a scenario whose name goes on and on, as names of scenarios do when they say all that is special about them"
    schemes = [
        comparison.Scheme(style.transport(name), [result(name, 1.5 + at, seed) for seed in (1, 2)])
        for at, name in enumerate(names)
    ]
    drawing = look_at(comparison.draw(schemes, title), "compare")
    assert drawing._suptitle.get_text().replace("\n", " ").startswith(title)
    shown = [(line.get_color(), line.get_marker()) for line in drawing.legends[0].get_lines()]
    assert shown == [(style.transport(name).color, style.transport(name).marker) for name in names]
    for spot in drawing.axes:
        assert [(line.get_color(), line.get_marker()) for line in spot.lines] == shown
    # The flows of all seeds are drawn, so the distribution starts at one in 800.
    assert drawing.axes[1].lines[0].get_ydata()[0] == 1 / 800


def test_flows_of_one_size_have_their_means_side_by_side():
    import pyarrow as pa

    def alike(name, *means):
        tables = [pa.table({"bytes": [25_000] * 40, "slowdown": np.linspace(1, 2 * mean - 1, 40)}) for mean in means]
        return comparison.Scheme(style.transport(name), [Results({}, "", {}, _flows=table) for table in tables])

    schemes = [alike("phost", 1.5, 1.7), alike("dctcp", 2.0, 2.0), alike("ideal", 1.2, 1.2)]
    drawing = look_at(comparison.draw(schemes, "incast"), "one-size")
    left, right = drawing.axes
    assert (left.get_title(), left.get_ylabel(), right.get_title()) == ("Flows of 25 kB", "Mean slowdown", "Distribution")
    assert [bar.get_y() + bar.get_height() for bar in left.patches] == pytest.approx([1.6, 2.0])
    legend = drawing.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["pHost", "DCTCP", "ideal"]
    assert "2 seeds" in legend.get_title().get_text()
    # With one scheme, there is nothing to compare.
    (only,) = look_at(comparison.draw(schemes[:1], "incast"), "one-size-alone").axes
    assert only.get_title() == "Distribution"
    # Another tool's means by flow size need the axis of sizes.
    points = [(variants.overlay("paper", 0), Points([5000.0], {"y": [1.3]}))]
    assert comparison.draw(schemes, "incast", points).axes[0].get_title() == "By flow size"


@pytest.mark.parametrize("name", ["web_search", "imc10", "homa_w1"])
def test_a_distribution_is_drawn_as_the_simulator_draws_from_it(name, drawings, tmp_path):
    (entry,) = (e for e in json.loads(_native.catalogue())["workloads"] if e["name"] == name)
    sizes.draw(Sizes.through(name, entry["points"]), tmp_path / f"sizes-{name}", f"{name}: {entry['about']}")
    (drawing,) = drawings
    sound(drawing)
    x, y = drawing.axes[0].lines[0].get_data()
    # The sampler is linear in bytes between points, and the first point's share has exactly its size.
    table, share = np.array(entry["points"]).T
    for low, high, f_low, f_high in zip(table, table[1:], share, share[1:], strict=False):
        inside = (x > low) & (x < high)
        np.testing.assert_allclose(y[inside], f_low + (x[inside] - low) / (high - low) * (f_high - f_low), atol=1e-9)
    assert (y[x < table[0]] == 0).all()
    assert y[-1] == 1


def test_thresholds_are_drawn_whole(drawings, tmp_path):
    (entry,) = (e for e in json.loads(_native.catalogue())["workloads"] if e["name"] == "web_search")
    sets = {
        "found": (1000, 20000, 300000),
        "split into parts that carry equal numbers of bytes": (5000, 10**6),
        "published": (7,),
    }
    thresholds.draw(Sizes.through("web_search", entry["points"]), sets, tmp_path / "thresholds", "Thresholds " * 20)
    sound(drawings[0])


# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), severity 1.
SEEN_BY = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]),
}


def oklab(color: str, vision: str):
    """Convert a colour to Ottosson's OKLab, whose distances are perceived differences; 0.02 is just noticeable."""
    encoded = np.array(to_rgb(color))
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    seen = np.clip(SEEN_BY[vision] @ linear, 0, 1)
    cones = np.array([
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ])  # fmt: skip
    lab = np.array([
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ])  # fmt: skip
    return lab @ np.cbrt(cones @ seen)


def apart(one: style.Look, other: style.Look, vision: str) -> float:
    return float(np.linalg.norm(oklab(one.color, vision) - oklab(other.color, vision)))


def test_no_two_transports_look_alike():
    for a, b in itertools.combinations(["ideal", *NAMES], 2):
        one, other = style.transport(a), style.transport(b)
        assert one.label != other.label
        assert one.marker != other.marker, (a, b)
        assert apart(one, other, "normal") > 0.1, (a, b)
        if one.hatch == other.hatch and "ideal" not in (a, b):  # the bound is not a bar, and has its own dash
            assert min(apart(one, other, vision) for vision in SEEN_BY) > 0.07, (a, b)


def many(transport, count, first=0):
    return [variants.Name(f"{transport} {number}", transport, first + number) for number in range(count)]


@pytest.mark.parametrize("transport", [*NAMES, "my_own"])
def test_variants_have_their_transports_hue_and_differ_in_black_and_white(transport):
    plain = [variants.Name(name, name, None) for name in NAMES]
    looks = variants.looks([*plain, *many(transport, 8), *many("pfabric" if transport != "pfabric" else "phost", 4, 8)])
    own, found = style.transport(transport), [looks[f"{transport} {number}"] for number in range(8)]
    # Without colour, lines differ in their dash, dots in their marker with its fill, and bars in their hatch.
    of_transports = [looks[name] for name in NAMES]
    of_variants = [look for look in looks.values() if look not in of_transports]
    assert len(of_variants) == 12
    for seen in (lambda look: str(look.dash), lambda look: (look.marker, look.fill), lambda look: look.hatch):
        assert len({seen(look) for look in of_variants}) == 12
        assert not {seen(look) for look in of_variants} & {seen(look) for look in of_transports}
    shades = {look.color: oklab(look.color, "normal") for look in found}
    for shade in shades.values():
        assert 0.2 < shade[0] < 0.8  # no shade is lost on white, or looks black
        hue, before = (np.arctan2(each[2], each[1]) for each in (shade, oklab(own.color, "normal")))
        assert abs((hue - before + np.pi) % (2 * np.pi) - np.pi) < 0.35
    for one, other in itertools.combinations([*(shade[0] for shade in shades.values()), oklab(own.color, "normal")[0]], 2):
        assert abs(one - other) > 0.05


def test_variants_keep_their_dash_and_hatch_across_transports():
    names = [variants.Name("a", "phost", None), *many("phost", 2), variants.Name("b", "dctcp", None), *many("dctcp", 2)]
    looks = variants.looks(names)
    assert looks["a"] == style.transport("phost")._replace(label="a")
    for number in range(2):
        one, other = (looks[f"{name} {number}"] for name in ("phost", "dctcp"))
        assert (one.dash, one.hatch) == (other.dash, other.hatch)
        assert (one.marker, one.fill) != (other.marker, other.fill)


def test_variants_of_the_bound_are_lines_too():
    looks = variants.looks([variants.Name("ideal", "ideal", None), *many("ideal", 3)])
    assert all(look.bound for look in looks.values())
    assert len({str(look.dash) for look in looks.values()}) == 4


def test_every_transport_has_a_look_of_its_own():
    assert [name for name, each in transports().items() if each.family is Family.UNKNOWN] == []
    # A transport that a user adds always has the same look, which no other transport has.
    assert style.transport("my_own") == style.transport("my_own")
    assert style.transport("my_own").color not in {each.color for each in transports().values()}


def test_names_beside_each_other_have_colours_that_differ():
    dice = random.Random(1)
    for _ in range(200):
        names = [f"variant {dice.randrange(10**6)}" for _ in range(8)]
        looks = style.together(["phost", *names])
        assert list(looks) == ["phost", *names] and looks["phost"] == style.transport("phost")
        assert looks[names[0]] == style.transport(names[0])
        for a, b in itertools.combinations(names, 2):
            between = abs(hue(looks[a].color) - hue(looks[b].color))
            assert min(between, 360 - between) >= 23, (a, b)


def hue(color):
    """Return a colour's hue in degrees, which is rounded to that of a colour of 24 bits."""
    return 360 * colorsys.rgb_to_hsv(*to_rgb(color))[0]


def test_only_the_catalogue_knows_transports_by_name():
    package = ROOT / "python" / "flowloom"
    for path in sorted(package.rglob("*.py")):
        # Demotion thresholds and the tagger are PIAS's, a family of looks has TCP's name, and the kernel has a DCTCP.
        others = (package / "cli" / "pias.py", package / "transports.py", package / "testbed" / "checks.py")
        if path.parent.name != "demotion" and path not in others:
            code = path.read_text(encoding="utf-8")
            # A name alone, or with a parameter, in quotes. Examples in help texts have several names in one text.
            named = [each for each in transports() if re.search(rf"""(['"]{each}['"]|\btransport\.{each}\.)""", code)]
            assert not named, path


def test_a_table_has_the_best_row_on_top_and_the_best_of_each_column_in_bold():
    rows = [tables.Row("slow", [8.0, 2.0]), tables.Row("none", [1.0, math.nan]), tables.Row("fast", [2.0, 3.0])]
    assert [row.label for row in tables.ranked(rows)] == ["fast", "slow", "none"]
    # A mean over fewer seeds is over other flows.
    seeds = [tables.Row("lucky", [1.0, 1.0], counts=[3, 1]), tables.Row("whole", [2.0, 2.0], counts=[3, 3])]
    assert [row.label for row in tables.ranked(seeds)] == ["whole", "lucky"]
    spot = style.canvas(6, 3).subplots()
    tables.draw(spot, rows, ["a", "b"])
    cells = {text.get_text(): text.get_fontweight() for text in spot.texts}
    assert cells == {"2.00": "bold", "3.00": "normal", "8.00": "normal", "1.00": "bold", "none": "normal"}


def test_the_best_of_a_table_of_reductions_has_the_largest():
    """Reductions by 40 and 50 % leave 60 and 50 %; an increase by 10 % and a reduction by 90 % leave 110 and 10 %."""
    rows = [
        tables.Row("little", [10.0, 20.0], whole=100.0),
        tables.Row("much", [40.0, 50.0], whole=100.0),
        tables.Row("both", [-10.0, 90.0], whole=100.0),
    ]
    # The geometric means are the roots of 90 * 80, 60 * 50 and 110 * 10.
    assert [row.label for row in tables.ranked(rows)] == ["both", "much", "little"]
    assert [row.label for row in tables.ranked(rows[:2])] == ["much", "little"]
    # 90 % of the costs is 1.5 times 60 %, and 110 % is 1.83 times.
    depths = [math.log(cost / 60) / math.log(8) for cost in (90, 60, 110)]
    assert [row[0] for row in tables.depths(rows)] == pytest.approx(depths)
    spot = style.canvas(6, 3).subplots()
    tables.draw(spot, rows, ["a", "b"])
    assert {text.get_text() for text in spot.texts if text.get_fontweight() == "bold"} == {"40.0", "90.0"}
    # Nothing but the arithmetic mean is left where the costs are none.
    assert [row.label for row in tables.ranked([tables.Row("worse", [3.0]), tables.Row("best", [-2.0])])] == ["best", "worse"]


def test_a_table_shows_no_interval_that_is_only_rounding():
    spot = style.canvas(6, 3).subplots()
    tables.draw(spot, [tables.Row("one", [210.0, 3.0], [2.8e-14, 0.5])], ["a", "b"])
    assert [text.get_text() for text in spot.texts] == ["210", "3.00", "± 0.50"]


def test_a_table_ranks_zeros_first_and_shortens_small_numbers():
    rows = [tables.Row("some", [0.0123, 2.0]), tables.Row("zero", [0.0, 0.0]), tables.Row("few", [0.0, 0.00013])]
    assert [row.label for row in tables.ranked(rows)] == ["zero", "few", "some"]
    spot = style.canvas(6, 3).subplots()
    tables.draw(spot, rows, ["a", "b"])
    assert [(text.get_text(), text.get_fontweight()) for text in spot.texts] == [
        ("0", "bold"), ("0", "bold"), ("0", "bold"), ("0.0001", "normal"), ("0.01", "normal"), ("2.00", "normal"),
    ]  # fmt: skip
