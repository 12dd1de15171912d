"""Draws a paper's figure as its file defines it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom.figures.grid import Grid
from flowloom.plots import bars, frames, lines, style, tables
from flowloom.plots.frames import Frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class _Drawn(NamedTuple):
    """What was drawn into one set of axes."""

    handles: dict[str, Any]
    """The handles for the legend."""
    least: float
    """The least value on the y axis; NaN if there is none."""


def draw(grid: Grid, stem: Path, footnote: str) -> list[Path]:
    """Draw all panels side by side, and write `stem`.png and .svg; nothing, if there are none."""
    if not grid.figure.panels:
        return []
    shown = [frame for panel in grid.figure.panels for frame in frames.frames(grid, panel)]
    across, down = style.grid(len(shown))
    high = max(_height(grid, frame) for frame in shown)
    drawing = style.canvas(max(4.2 * across, 5.6), high * down + 0.8)
    axes = drawing.subplots(down, across, squeeze=False)
    handles: dict[str, Any] = {}
    for spot, frame in zip(axes.flat, shown, strict=False):
        kind = {"bars": _bars, "lines": _lines, "table": _table, "course": _course, "cdf": _cdf}[frame.panel.kind]
        drawn = kind(grid, frame, spot)
        handles |= drawn.handles
        if frame.panel.kind == "table":
            spot.set_title(" · ".join(filter(None, (frame.title, frames.y_label(grid, frame.panel)))))
            continue
        spot.set_ylabel(frames.y_label(grid, frame.panel))
        _finish(frame, spot, drawn.least)
    for spare in list(axes.flat)[len(shown):]:  # fmt: skip
        spare.remove()
    style.heading(drawing, grid.figure.title)
    style.legend(drawing, handles, footnote)
    return style.save(drawing, stem)


def _height(grid: Grid, frame: Frame) -> float:
    """Return how many inches a set of axes needs from top to bottom."""
    rows = len(frames.values(grid, frame, frame.panel.series)) if frame.panel.kind == "table" else 0
    return max(3.5, 0.36 * rows + 0.6)


def _bars(grid: Grid, frame: Frame, spot: Axes) -> _Drawn:
    panel, members = frame.panel, frames.members(grid, frame)
    base = panel.y_min or 0.0
    log = panel.log_y and any(height > 0 for member in members for height in member.heights)
    handles = bars.draw(spot, members, frames.groups(grid, frame), log=log, base=base)
    bars.write_values(spot, members, log=log, base=base)
    return _Drawn(handles, _least(members))


def _lines(grid: Grid, frame: Frame, spot: Axes) -> _Drawn:
    labels, numbers, members = frames.groups(grid, frame), frames.numbers(grid, frame), frames.members(grid, frame)
    at = range(len(labels)) if numbers.at is None else numbers.at
    handles = lines.draw(spot, at, members)
    named = numbers.at is None or len(at) <= 10
    if named:
        spot.set_xticks(at, labels)
        spot.minorticks_off()
    # Names have their units.
    spot.set_xlabel(numbers.key if named else numbers.title)
    return _Drawn(handles, _least(members))


def _least(members: list[bars.Member]) -> float:
    heights = (height for member in members for height in member.heights)
    return min((height for height in heights if not math.isnan(height)), default=math.nan)


def _table(grid: Grid, frame: Frame, spot: Axes) -> _Drawn:
    tables.draw(spot, frames.rows(grid, frame), frames.groups(grid, frame))
    return _Drawn({}, 0.0)


def _course(grid: Grid, frame: Frame, spot: Axes) -> _Drawn:
    found = frames.courses(grid, frame)
    return _Drawn({look.label: style.line(spot, xs, ys, look, linewidth=1.2) for look, xs, ys in found}, 0.0)


def _cdf(grid: Grid, frame: Frame, spot: Axes) -> _Drawn:
    found = frames.distributions(grid, frame)
    handles = {look.label: style.line(spot, xs, ys, look, linewidth=1.4, drawstyle="steps-post") for look, xs, ys in found}
    if not frame.panel.log_x and spot.dataLim.x0 >= 0:
        spot.set_xlim(left=0)
    return _Drawn(handles, 0.0)


def _finish(frame: Frame, spot: Axes, least: float) -> None:
    panel = frame.panel
    if panel.x_min is not None or panel.x_max is not None:
        spot.set_xlim(panel.x_min, panel.x_max)
    spot.set_title(frame.title)
    if least < 0:
        spot.axhline(0, color="black", lw=0.8, zorder=2.5)
    if panel.kind == "course" or panel.x_label:
        spot.set_xlabel(panel.x_label or panel.x.replace("_", " ").capitalize())
    # A logarithmic axis has no place for data of which none is above 0.
    log_x = panel.log_x and math.isfinite(spot.dataLim.minposx)
    log_y = panel.log_y and math.isfinite(spot.dataLim.minposy)
    if log_x:
        style.logarithmic(spot.xaxis)
    if log_y:
        style.logarithmic(spot.yaxis)
    low, high = spot.get_ylim()
    # The length of a bar has a meaning, so its axis starts at the bar's base. Lines do the same unless the file sets y_min.
    start = panel.y_min if panel.y_min is not None else low if log_y or least < 0 else 0
    if not log_y:
        high += 0.05 * max(low - start, 0)  # the margin above is a share of the axis, not of the range of values
    if panel.y_max is not None:
        high = panel.y_max
    spot.set_ylim(start, high if high > start else start + 1)
