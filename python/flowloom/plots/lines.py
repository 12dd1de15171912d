"""Draws lines of means with intervals, and the axis of numbers below them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flowloom.axes import Axis
from flowloom.plots import style
from flowloom.plots.bars import Member

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_APART, _SPREAD = 4.0, 16.0
"""In points: the distance between intervals at one value, and how far the first and the last of them may be from each other."""
_PANEL = 100.0
"""How far that may be for all values together, in points, which is less than half of the width of a panel."""
_TICKS_MAX = 10
"""The maximum number of values that have a tick each."""


def draw(spot: Axes, at: Sequence[float], members: Sequence[Member]) -> dict[str, Any]:
    """Draw a line for each member, with its intervals; return the handles for a legend.

    Lines with intervals are moved aside by a few points, so that no interval hides another.

    Args:
        spot: Where to draw.
        at: Where the groups of the members are on the x axis. A line goes through them in ascending order.
        members: What is drawn. A value that is NaN is a gap in its line.
    """
    order = sorted(range(len(at)), key=lambda number: at[number])
    xs = [at[number] for number in order]
    handles = {}
    spread = [member for member in members if any(member.half_widths)]
    for member in members:
        heights, half_widths = ([values[number] for number in order] for values in (member.heights, member.half_widths))
        (line,) = spot.plot(xs, heights, **member.look.pen, label=member.look.label)
        handles[member.look.label] = line
        if member in spread:
            bars = spot.errorbar(xs, heights, half_widths, color=member.look.color, fmt="none", elinewidth=1, capsize=2)
            apart = min(_APART, min(_SPREAD, _PANEL / len(xs)) / max(len(spread) - 1, 1))
            _aside([line, *bars.get_children()], (spread.index(member) - (len(spread) - 1) / 2) * apart)
    return handles


def _aside(artists: Sequence[Artist], points: float) -> None:
    """Move a line aside on the paper. Its data, and so the limits of the axis, stay as they are."""
    from matplotlib.transforms import ScaledTranslation

    for artist in artists:
        assert artist.axes is not None and artist.figure is not None
        artist.set_transform(artist.axes.transData + ScaledTranslation(points / 72, 0, artist.figure.dpi_scale_trans))


def numbers(spot: Axes, axis: Axis) -> None:
    """Give the x axis the scale, the ticks and the limits that suit numbers, with room for whole markers."""
    assert axis.at is not None
    low, high = min(axis.at), max(axis.at)
    if axis.log:
        style.logarithmic(spot.xaxis)
        room = (high / low) ** 0.05
        spot.set_xlim(low / room, high * room)
    else:
        room = 0.05 * (high - low)
        spot.set_xlim(low - room, high + room)
    if len(axis.at) <= _TICKS_MAX:
        spot.set_xticks(axis.at, [f"{number:,.6g}" for number in axis.at])
        spot.minorticks_off()
