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
    across, down = style.grid(len(names))
    drawing = style.canvas(max(5.0 * across, 6.4), 4.0 * down + 0.4)
    spots = drawing.subplots(down, across, squeeze=False)
    handles: dict[str, Any] = {}
    drawn: list[bars.Member] = []
    for number, (spot, name) in enumerate(zip(spots.flat, names, strict=False)):
        members = [member(each, name) for each in series]
        drawn += members
        beside = others(points, name, first=number == 0)
        style.join(handles, panel(spot, axis, metrics.label(name), members, beside, slowdowns=is_slowdown(name)))
        style.percent(spot.yaxis, name)
    for spare in list(spots.flat)[len(names):]:  # fmt: skip
        spare.remove()
    style.heading(drawing, title)
    style.legend(drawing, handles, note(drawn))
    return drawing


def member(series: Series, name: str) -> bars.Member:
    """Return the mean of a metric at each value of the axis, with its interval."""
    found = [estimate([metrics.evaluate(name, run.summary) for run in runs]) for runs in series.runs]
    return bars.Member.of(series.look, found)


def note(members: Sequence[bars.Member]) -> str:
    """Say how many seeds the values of some members are over."""
    counts = bars.counts(members)
    return averaged(counts) or ("One seed, so there are no confidence intervals" if any(counts) else "")


def is_slowdown(name: str) -> bool:
    """Return whether a metric is a slowdown, for which 1 is the best."""
    return name in metrics.METRICS and name.split(".")[0] == "slowdown"


class Beside(NamedTuple):
    """Points of another tool in one panel."""

    look: style.Look
    xs: Sequence[float]
    ys: Sequence[float]


def others(points: Sequence[tuple[style.Look, Points]], name: str, *, first: bool) -> list[Beside]:
    """Return other tools' points of a metric; the first panel has those without the name of a metric."""
    return [Beside(look, each.x, each.y.get(name, each.y.get(Y, []) if first else [])) for look, each in points]


def panel(
    spot: Axes,
    axis: Axis,
    label: str,
    members: Sequence[bars.Member],
    beside: Sequence[Beside] = (),
    *,
    slowdowns: bool,
) -> dict[str, Any]:
    """Draw a panel; return the handles for a legend.

    Args:
        spot: Where to draw.
        axis: What is on the x axis: numbers for lines, anything else for bars.
        label: The label of the y axis.
        members: What is drawn.
        beside: Other tools' points.
        slowdowns: Whether the values are slowdowns, whose axis starts at 1.
    """
    least, top = extent(members, beside)
    log = is_log(least, top, slowdowns=slowdowns)
    if axis.at is None:
        handles = bars.draw(spot, members, axis.names, log=log, base=1.0 if slowdowns else 0.0)
        if not any(axis.names):
            spot.set_xticks([])
    else:
        handles = lines.draw(spot, axis.at, members)
        lines.numbers(spot, axis)
    for look, xs, ys in beside:
        if len(ys):
            (handles[look.label],) = spot.plot(xs, ys, **look.dot, zorder=4)
    spot.set(ylabel=label, xlabel=axis.title)
    if math.isnan(top):
        style.nothing(spot, "no values")
    _limit(spot.yaxis, least, top, slowdowns=slowdowns, log=log, standing=axis.at is None)
    style.whole_markers(spot)
    return handles


def rows(spot: Axes, names: Sequence[str], label: str, members: Sequence[bars.Member], *, slowdowns: bool) -> dict[str, Any]:
    """Draw groups below each other, for few groups with long names; return the handles for a legend. See `panel`."""
    least, top = extent(members, ())
    log = is_log(least, top, slowdowns=slowdowns)
    handles = bars.draw(spot, members, names, log=log, base=1.0 if slowdowns else 0.0, lying=True)
    spot.set_xlabel(label)
    _limit(spot.xaxis, least, top, slowdowns=slowdowns, log=log, standing=True)
    style.whole_markers(spot)
    return handles


def extent(members: Sequence[bars.Member], beside: Sequence[Beside]) -> tuple[float, float]:
    """Return the least value, and the largest one or the top of its interval; NaN without values."""
    heights = [height for member in members for height in member.heights] + [y for each in beside for y in each.ys]
    tops = [height + width for member in members for height, width in zip(member.heights, member.half_widths, strict=True)]
    known, all_ = ([value for value in values if not math.isnan(value)] for values in (heights, heights + tops))
    return min(known, default=math.nan), max(all_, default=math.nan)


def is_log(least: float, top: float, *, slowdowns: bool) -> bool:
    """Return whether the axis of values in this range is logarithmic."""
    return top > style.LINEAR_MAX if slowdowns else least > 0 and top > least * 10**_DECADES


def _limit(axis: Any, least: float, top: float, *, slowdowns: bool, log: bool, standing: bool) -> None:
    """Set the limits of the axis of values; `standing` says that bars, if any, begin at its lower limit."""
    if math.isnan(top):
        return
    limits = axis.axes.set_ylim if axis.axis_name == "y" else axis.axes.set_xlim
    if not log:
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    if slowdowns:
        style.from_one(axis, 1.05 * top, least)
        if standing and not log and least >= 1:
            limits(1)
    elif log:
        style.logarithmic(axis)
    elif least >= 0:
        limits(0, 1.05 * top if top > 0 else 1.0)
