"""Draws metrics over the values of a scenario key: lines with intervals over numbers, bars or dots over anything else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom import metrics
from flowloom.axes import Axis
from flowloom.overlays import Points, Y
from flowloom.plots import bars, lines, style
from flowloom.results import Results
from flowloom.stats import averaged, estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_DECADES = 1.5
"""An axis is logarithmic if its values span more than this many powers of ten."""


class Series(NamedTuple):
    """What is drawn as one line, or as a bar in each group."""

    look: style.Look
    runs: Sequence[Sequence[Results]]
    """For each value of the axis, the runs, which differ in their seeds. Without a run, there is no value."""


def draw(
    axis: Axis,
    series: Sequence[Series],
    names: Sequence[str],
    title: str,
    points: Sequence[tuple[style.Look, Points]] = (),
) -> Canvas:
    """Draw a panel for each metric.

    Args:
        axis: The key and its values.
        series: What is drawn.
        names: The metrics.
        title: The title.
        points: Other tools' points, with their looks.
    """
    across = min(len(names), 3)
    drawing = style.canvas(max(5.0 * across, 6.4), 4.0 * math.ceil(len(names) / across) + 0.4)
    spots = drawing.subplots(math.ceil(len(names) / across), across, squeeze=False)
    handles: dict[str, Any] = {}
    for number, (spot, name) in enumerate(zip(spots.flat, names, strict=False)):
        members = [_member(each, name) for each in series]
        beside = [_Beside(look, each.x, each.y.get(name, each.y.get(Y, []) if number == 0 else [])) for look, each in points]
        for label, handle in _panel(spot, axis, name, members, beside).items():
            # If one panel has bars and another dots, the legend shows both.
            shown = handles.setdefault(label, ())
            handles[label] = shown if type(handle) in map(type, shown) else (*shown, handle)
    for spare in list(spots.flat)[len(names):]:  # fmt: skip
        spare.remove()
    style.heading(drawing, title)
    counts = [len(runs) for each in series for runs in each.runs if runs]
    style.legend(drawing, handles, averaged(counts) or "One seed, so there are no confidence intervals")
    return drawing


def _member(series: Series, name: str) -> bars.Member:
    found = [estimate([metrics.evaluate(name, run.summary) for run in runs]) for runs in series.runs]
    return bars.Member(series.look, [e.mean for e in found], [e.half_width or 0.0 for e in found])


def _panel(spot: Axes, axis: Axis, name: str, members: Sequence[bars.Member], beside: Sequence[_Beside]) -> dict[str, Any]:
    """Draw a panel; return the handles for a legend."""
    heights = [height for member in members for height in member.heights] + [y for each in beside for y in each.ys]
    tops = [height + width for member in members for height, width in zip(member.heights, member.half_widths, strict=True)]
    known = [height for height in heights if not math.isnan(height)]
    least = min(known, default=math.nan)
    top = max([*known, *(top for top in tops if not math.isnan(top))], default=math.nan)
    slowdowns = name in metrics.METRICS and name.split(".")[0] == "slowdown"
    log = top > style.LINEAR_MAX if slowdowns else least > 0 and top > least * 10**_DECADES
    if axis.at is None:
        handles = bars.draw(spot, members, axis.names, log=log, base=1.0 if slowdowns else 0.0)
    else:
        handles = lines.draw(spot, axis.at, members)
        lines.numbers(spot, axis)
    for look, xs, ys in beside:
        if len(ys):
            (handles[look.label],) = spot.plot(xs, ys, **look.dot, zorder=4)
    spot.set(ylabel=metrics.label(name), xlabel=axis.title)
    _limit(spot, least, top, slowdowns=slowdowns, log=log, hanging=axis.at is None and not log)
    style.percent(spot.yaxis, name)
    for line in spot.lines:
        # Markers are whole, also at the edge; a line without markers is an interval, or the base of bars.
        line.set_clip_on(line.get_marker() in ("", "None", "_", "|"))
    return handles


class _Beside(NamedTuple):
    """Points of another tool in one panel."""

    look: style.Look
    xs: Sequence[float]
    ys: Sequence[float]


def _limit(spot: Axes, least: float, top: float, *, slowdowns: bool, log: bool, hanging: bool) -> None:
    """Set the limits of the y axis; `hanging` says that bars stand on the line at its base."""
    if math.isnan(top):
        return
    if slowdowns:
        style.from_one(spot.yaxis, 1.05 * top, least)
        if hanging and least >= 1:
            spot.set_ylim(bottom=1)
    elif log:
        style.logarithmic(spot.yaxis)
    elif least >= 0:
        spot.set_ylim(0, 1.05 * top if top > 0 else 1.0)
