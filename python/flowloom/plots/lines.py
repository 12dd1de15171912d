"""Draws lines of means with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flowloom.axes import Axis
from flowloom.plots import style
from flowloom.plots.bars import Member

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(spot: Axes, at: Sequence[float], members: Sequence[Member]) -> dict[str, Any]:
    """Draw a line for each member, with its intervals; return the handles for a legend.

    Args:
        spot: Where to draw.
        at: Where the groups of the members are on the x axis. A line goes through them in ascending order.
        members: What is drawn. A value that is NaN is a gap in its line.
    """
    order = sorted(range(len(at)), key=lambda number: at[number])
    xs = [at[number] for number in order]
    handles = {}
    for member in members:
        heights, half_widths = ([values[number] for number in order] for values in (member.heights, member.half_widths))
        (handles[member.look.label],) = spot.plot(xs, heights, **member.look.pen, label=member.look.label)
        if any(half_widths):
            spot.errorbar(xs, heights, half_widths, color=member.look.color, fmt="none", elinewidth=1, capsize=2)
    return handles


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
        spot.set_xticks(axis.at, [f"{number:.6g}" for number in axis.at])
        spot.minorticks_off()


_TICKS_MAX = 10
