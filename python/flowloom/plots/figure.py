"""Draws a paper's figure as its file defines it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom.axes import Axis as Numbers
from flowloom.distributions import STEPS
from flowloom.figures.grid import Grid
from flowloom.figures.schema import METRIC_AXIS, Axis, Panel
from flowloom.plots import bars, lines, style, tables
from flowloom.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class _Frame(NamedTuple):
    """One set of axes: a panel, at one value of its facet."""

    panel: Panel
    title: str
    fixed: dict[str, Any]


class _Drawn(NamedTuple):
    """What was drawn into one set of axes."""

    handles: dict[str, Any]
    """The handles for the legend."""
    least: float
    """The least value on the y axis; NaN if there is none."""


def draw(grid: Grid, stem: Path, footnote: str) -> list[Path]:
    """Draw all panels side by side, and write `stem`.png and .svg."""
    frames = [frame for panel in grid.figure.panels for frame in _frames(grid, panel)]
    across, down = style.grid(len(frames))
    high = max(_height(grid, frame) for frame in frames)
    drawing = style.canvas(max(4.2 * across, 5.6), high * down + 0.8)
    axes = drawing.subplots(down, across, squeeze=False)
    handles: dict[str, Any] = {}
    for spot, frame in zip(axes.flat, frames, strict=False):
        kind = {"bars": _bars, "lines": _lines, "table": _table, "course": _course, "cdf": _cdf}[frame.panel.kind]
        drawn = kind(grid, frame, spot)
        handles |= drawn.handles
        if frame.panel.kind == "table":
            spot.set_title(" · ".join(filter(None, (frame.title, _y_label(grid, frame.panel)))))
            continue
        spot.set_ylabel(_y_label(grid, frame.panel))
        _finish(frame, spot, drawn.least)
    for spare in list(axes.flat)[len(frames):]:  # fmt: skip
        spare.remove()
    style.heading(drawing, grid.figure.title)
    style.legend(drawing, handles, footnote)
    return style.save(drawing, stem)


def _frames(grid: Grid, panel: Panel) -> list[_Frame]:
    if panel.facet is None:
        return [_Frame(panel, panel.title, {})]
    axis = grid.figure.axis(panel.facet)
    values = panel.shown(axis)
    return [_Frame(panel, " · ".join(filter(None, (panel.title, _name(axis, v)))), {panel.facet: v}) for v in values]


def _height(grid: Grid, frame: _Frame) -> float:
    """Return how many inches a set of axes needs from top to bottom."""
    rows = len(_values(grid, frame, frame.panel.series)) if frame.panel.kind == "table" else 0
    return max(3.5, 0.36 * rows + 0.6)


def _values(grid: Grid, frame: _Frame, name: str) -> list[Any]:
    """Return the values of an axis of the panel; the metric axis has the numbers of the metrics."""
    if name == METRIC_AXIS:
        return list(range(len(frame.panel.y)))
    return frame.panel.shown(grid.figure.axis(name))


def _label(grid: Grid, frame: _Frame, name: str, value: Any) -> str:
    if name == METRIC_AXIS:
        return frame.panel.y[int(value)].label
    return _name(grid.figure.axis(name), value)


def _name(axis: Axis, value: Any) -> str:
    return style.transport(value).label if axis.name == "transport" else axis.label(value)


def _looks(grid: Grid, frame: _Frame) -> list[tuple[Any, style.Look]]:
    """Return the members of a panel's series, each with its look."""
    name = frame.panel.series
    members = _values(grid, frame, name)
    if name == "transport":
        return [(member, style.transport(member)) for member in members]
    # A number alone would be unclear in the legend, so it is preceded by the axis's title.
    title = "" if name == METRIC_AXIS or isinstance(members[0], str) else f"{grid.figure.axis(name).title} "
    labels = [title + _label(grid, frame, name, member) for member in members]
    return [(m, style.numbered(n, len(members), labels[n])) for n, m in enumerate(members)]


def _estimate(grid: Grid, frame: _Frame, place: dict[str, Any]) -> Estimate:
    """Return the value at a place."""
    metric = frame.panel.y[place.get(METRIC_AXIS, 0)].expression
    return grid.drawn(frame.panel, metric, _point(grid, frame, place))


def _point(grid: Grid, frame: _Frame, place: dict[str, Any]) -> dict[str, Any]:
    """Return the point of the grid at a place of the panel."""
    at = frame.fixed | place
    return {name: at.get(name, values[0]) for name, values in grid.figure.selected(frame.panel).items()}


def _scale(frame: _Frame) -> float:
    return 100.0 if frame.panel.percent else 1.0


def _bars(grid: Grid, frame: _Frame, spot: Axes) -> _Drawn:
    panel = frame.panel
    groups = _values(grid, frame, panel.x)
    members = []
    for member, look in _looks(grid, frame):
        found = [_estimate(grid, frame, {panel.x: g, panel.series: member}) for g in groups]
        members.append(bars.Member(look, *([v * _scale(frame) for v in values] for values in _intervals(found))))
    base = panel.y_min or 0.0
    handles = bars.draw(spot, members, [_label(grid, frame, panel.x, g) for g in groups], log=panel.log_y, base=base)
    bars.write_values(spot, members, log=panel.log_y, base=base)
    return _Drawn(handles, _least(members))


def _lines(grid: Grid, frame: _Frame, spot: Axes) -> _Drawn:
    panel = frame.panel
    xs = _values(grid, frame, panel.x)
    numbers = Numbers.of(panel.x, xs).at
    at = range(len(xs)) if numbers is None else numbers
    members = []
    for member, look in _looks(grid, frame):
        found = [_estimate(grid, frame, {panel.x: x, panel.series: member}) for x in xs]
        members.append(bars.Member(look, *([v * _scale(frame) for v in values] for values in _intervals(found))))
    handles = lines.draw(spot, at, members)
    if numbers is None or len(at) <= 10:
        spot.set_xticks(at, [_label(grid, frame, panel.x, x) for x in xs])
        spot.minorticks_off()
    spot.set_xlabel(grid.figure.axis(panel.x).title)
    return _Drawn(handles, _least(members))


def _intervals(found: list[Estimate]) -> tuple[list[float], list[float]]:
    """Return means, and half the widths of their intervals, 0 for none."""
    return [e.mean for e in found], [e.half_width or 0.0 for e in found]


def _least(members: list[bars.Member]) -> float:
    heights = (height for member in members for height in member.heights)
    return min((height for height in heights if not math.isnan(height)), default=math.nan)


def _table(grid: Grid, frame: _Frame, spot: Axes) -> _Drawn:
    panel = frame.panel
    columns = _values(grid, frame, panel.x)
    rows = []
    for member, look in _looks(grid, frame):
        found = [_estimate(grid, frame, {panel.x: x, panel.series: member}) for x in columns]
        spread = [None if e.half_width is None else e.half_width * _scale(frame) for e in found]
        rows.append(tables.Row(look.label, [e.mean * _scale(frame) for e in found], spread))
    tables.draw(spot, rows, [_label(grid, frame, panel.x, x) for x in columns])
    return _Drawn({}, 0.0)


def _course(grid: Grid, frame: _Frame, spot: Axes) -> _Drawn:
    panel = frame.panel
    handles: dict[str, Any] = {}
    for member, look in _looks(grid, frame):
        point = _point(grid, frame, {panel.series: member})
        for xs, ys in grid.course(panel.course, panel.x, panel.y[0].expression, point):
            xs, ys = ([v * _scale(frame) for v in values] for values in (xs, ys))
            handles[look.label] = style.line(spot, xs, ys, look, linewidth=1.2)
    return _Drawn(handles, 0.0)


def _cdf(grid: Grid, frame: _Frame, spot: Axes) -> _Drawn:
    panel = frame.panel
    assert panel.quantity is not None
    handles: dict[str, Any] = {}
    for member, look in _looks(grid, frame):
        found = grid.distribution(panel.quantity, _point(grid, frame, {panel.series: member})).values
        # The curve of flows that do not all finish ends below 1.
        steps = [(value, step / STEPS * _scale(frame)) for step, value in enumerate(found.tolist()) if math.isfinite(value)]
        xs, ys = [value for value, _ in steps], [share for _, share in steps]
        handles[look.label] = style.line(spot, xs, ys, look, linewidth=1.4, drawstyle="steps-post")
    if not panel.log_x and spot.dataLim.x0 >= 0:
        spot.set_xlim(left=0)
    return _Drawn(handles, 0.0)


def _y_label(grid: Grid, panel: Panel) -> str:
    if panel.y_label is not None:
        return panel.y_label
    unit = " (%)" if panel.percent else ""
    if panel.kind == "cdf":
        return f"Share of flows{unit}"
    if not panel.to:
        return panel.y[0].label
    measure = panel.y[0].label.partition(" (")[0]  # a ratio has no unit
    other = ", ".join(_name(grid.figure.axis(axis), values[0]) for axis, values in panel.to.items())
    return f"{measure}{': reduction from' if panel.reduction else ' relative to'} {other}{unit}"


def _finish(frame: _Frame, spot: Axes, least: float) -> None:
    panel = frame.panel
    if panel.x_min is not None or panel.x_max is not None:
        spot.set_xlim(panel.x_min, panel.x_max)
    spot.set_title(frame.title)
    if least < 0:
        spot.axhline(0, color="black", lw=0.8, zorder=2.5)
    if panel.kind == "course" or panel.x_label:
        spot.set_xlabel(panel.x_label or panel.x.replace("_", " ").capitalize())
    if panel.log_x:
        style.logarithmic(spot.xaxis)
    if panel.log_y:
        style.logarithmic(spot.yaxis)
    low, high = spot.get_ylim()
    # The length of a bar has a meaning, so its axis starts at the bar's base. Lines do the same unless the file sets y_min.
    start = panel.y_min if panel.y_min is not None else low if panel.log_y or least < 0 else 0
    if not panel.log_y:
        high += 0.05 * max(low - start, 0)  # the margin above is a share of the axis, not of the range of values
    spot.set_ylim(start, panel.y_max if panel.y_max is not None else high)
