"""What the panels of a paper's figure show, for `figure`, which draws them, and for pages."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from flowloom.axes import Axis as Numbers
from flowloom.distributions import STEPS
from flowloom.figures.grid import Grid
from flowloom.figures.schema import METRIC_AXIS, Axis, Panel
from flowloom.plots import bars, style, tables
from flowloom.stats import Estimate
from flowloom.summary import SHARES


class Line(NamedTuple):
    """A line of many points."""

    look: style.Look
    xs: list[float]
    ys: list[float]


class Frame(NamedTuple):
    """One set of axes: a panel, at one value of its facet."""

    panel: Panel
    title: str
    fixed: dict[str, Any]


def frames(grid: Grid, panel: Panel) -> list[Frame]:
    """Return the sets of axes of a panel."""
    if panel.facet is None:
        return [Frame(panel, panel.title, {})]
    axis = grid.figure.axis(panel.facet)
    values = panel.shown(axis)
    return [Frame(panel, " · ".join(filter(None, (panel.title, _name(axis, v)))), {panel.facet: v}) for v in values]


def values(grid: Grid, frame: Frame, name: str) -> list[Any]:
    """Return the values of an axis of the panel; the metric axis has the numbers of the metrics."""
    if name == METRIC_AXIS:
        return list(range(len(frame.panel.y)))
    return frame.panel.shown(grid.figure.axis(name))


def label(grid: Grid, frame: Frame, name: str, value: Any) -> str:
    """Return the label of a value of an axis of the panel."""
    if name == METRIC_AXIS:
        return frame.panel.y[int(value)].label
    return _name(grid.figure.axis(name), value)


def _name(axis: Axis, value: Any) -> str:
    label = axis.label(value)
    # A transport without a label of its own in the file has that of the catalogue.
    return style.transport(value).label if axis.name == "transport" and label == value else label


def looks(grid: Grid, frame: Frame) -> list[tuple[Any, style.Look]]:
    """Return the members of a panel's series, each with its look."""
    name = frame.panel.series
    members = values(grid, frame, name)
    if name == "transport":
        axis = grid.figure.axis(name)
        looks = style.together(axis.values)
        return [(member, looks[member]._replace(label=_name(axis, member))) for member in members]
    # A number alone would be unclear in the legend, so it is preceded by the axis's title.
    title = "" if name == METRIC_AXIS or isinstance(members[0], str) else f"{grid.figure.axis(name).title} "
    labels = [title + label(grid, frame, name, member) for member in members]
    return [(m, style.numbered(n, len(members), labels[n])) for n, m in enumerate(members)]


def _estimate(grid: Grid, frame: Frame, place: dict[str, Any]) -> Estimate:
    """Return the value at a place."""
    metric = frame.panel.y[place.get(METRIC_AXIS, 0)].expression
    return grid.drawn(frame.panel, metric, _point(grid, frame, place))


def _point(grid: Grid, frame: Frame, place: dict[str, Any]) -> dict[str, Any]:
    """Return the point of the grid at a place of the panel."""
    at = frame.fixed | place
    return {name: at.get(name, values[0]) for name, values in grid.figure.selected(frame.panel).items()}


def _scale(frame: Frame) -> float:
    return 100.0 if frame.panel.percent else 1.0


def groups(grid: Grid, frame: Frame) -> list[str]:
    """Return the labels of the values on the x axis of a panel of kind `bars`, `lines` or `table`."""
    return [label(grid, frame, frame.panel.x, value) for value in values(grid, frame, frame.panel.x)]


def numbers(grid: Grid, frame: Frame) -> Numbers:
    """Return the x axis of a panel of kind `bars`, `lines` or `table`, whose values are numbers if they can be."""
    title = "" if frame.panel.x == METRIC_AXIS else grid.figure.axis(frame.panel.x).title
    return Numbers.of(title, values(grid, frame, frame.panel.x))


def members(grid: Grid, frame: Frame) -> list[bars.Member]:
    """Return what a panel of kind `bars` or `lines` shows: means with half the widths of their intervals, 0 for none."""
    return [bars.Member.of(look, found, _scale(frame)) for look, found in _estimates(grid, frame)]


def rows(grid: Grid, frame: Frame) -> list[tables.Row]:
    """Return what a panel of kind `table` shows."""
    scale = _scale(frame)
    return [
        tables.Row(
            look.label,
            [e.mean * scale for e in found],
            [None if e.half_width is None else e.half_width * scale for e in found],
            scale if frame.panel.reduction else None,
            [e.n for e in found],
        )
        for look, found in _estimates(grid, frame)
    ]


def _estimates(grid: Grid, frame: Frame) -> list[tuple[style.Look, list[Estimate]]]:
    """Return the value of each member at each place on the x axis."""
    panel = frame.panel
    xs = values(grid, frame, panel.x)
    return [
        (look, [_estimate(grid, frame, {panel.x: x, panel.series: member}) for x in xs]) for member, look in looks(grid, frame)
    ]


def counts(grid: Grid) -> list[int]:
    """Return the numbers of seeds that the means of a figure are over; those of values that are drawn as none are left out."""
    drawn = [f for p in grid.figure.panels if p.kind in ("bars", "lines", "table") for f in frames(grid, p)]
    return [e.n for frame in drawn for _, found in _estimates(grid, frame) for e in found if e.n]


def courses(grid: Grid, frame: Frame) -> list[Line]:
    """Return what a panel of kind `course` shows: lines for each member and seed."""
    panel, found = frame.panel, []
    scale = _scale(frame)
    x_scale = scale if panel.x in SHARES else 1.0
    for member, look in looks(grid, frame):
        point = _point(grid, frame, {panel.series: member})
        for xs, ys in grid.lines(panel, point):
            found.append(Line(look, [x * x_scale for x in xs], [y * scale for y in ys]))
    return found


def distributions(grid: Grid, frame: Frame) -> list[Line]:
    """Return what a panel of kind `cdf` shows: the share of flows that do not exceed each value."""
    panel, lines = frame.panel, []
    assert panel.quantity is not None
    for member, look in looks(grid, frame):
        found = grid.distribution(panel.quantity, _point(grid, frame, {panel.series: member})).values
        # The curve of flows that do not all finish ends below 1.
        steps = [(value, step / STEPS * _scale(frame)) for step, value in enumerate(found.tolist()) if math.isfinite(value)]
        lines.append(Line(look, [value for value, _ in steps], [share for _, share in steps]))
    return lines


def y_label(grid: Grid, panel: Panel) -> str:
    """Return the label of a panel's y axis, which says what is drawn."""
    if panel.y_label is not None:
        return panel.y_label
    unit = " (%)" if panel.percent else ""
    if panel.kind == "cdf":
        return f"Share of flows{unit}"
    label, expression = panel.y[0].label, panel.y[0].expression
    measure = label if label == expression else label.partition(" (")[0]  # a ratio and a share have no unit
    if not panel.to:
        return f"{measure}{unit}" if unit else label
    other = ", ".join(_name(grid.figure.axis(axis), values[0]) for axis, values in panel.to.items())
    return f"{measure}{': reduction from' if panel.reduction else ' relative to'} {other}{unit}"
