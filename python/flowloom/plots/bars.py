"""Draws grouped values: bars from a base line on a linear axis, and dots on a logarithmic one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom.metrics import significant
from flowloom.plots.style import Look
from flowloom.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Member(NamedTuple):
    """The values of one scheme, one in each group."""

    look: Look
    heights: Sequence[float]
    half_widths: Sequence[float]
    """Half the widths of the confidence intervals; 0 stands for no interval."""
    counts: Sequence[int] = ()
    """How many seeds each value is over, if that is known."""

    @classmethod
    def of(cls, look: Look, found: Sequence[Estimate], scale: float = 1.0) -> Member:
        """Create a member of means, in units of 1 / `scale`."""
        widths = [(each.half_width or 0.0) * scale for each in found]
        return cls(look, [each.mean * scale for each in found], widths, [each.n for each in found])


def counts(members: Sequence[Member]) -> list[int]:
    """Return how many seeds each value of some members is over."""
    return [count for member in members for count in member.counts]


def draw(
    spot: Axes, members: Sequence[Member], groups: Sequence[str], *, log: bool, base: float = 0.0, lying: bool = False
) -> dict[str, Any]:
    """Draw members side by side in each group; return the handles for a legend.

    The length of a bar has no meaning on a logarithmic axis, so dots are drawn there. A bound is drawn as a line.

    Args:
        spot: Where to draw.
        members: What is drawn in each group, from left to right.
        groups: The groups' names.
        log: Whether the axis is logarithmic.
        base: The value at which bars start.
        lying: Bars lie, and the groups are below each other, which leaves room for long names.
    """
    (spot.set_xscale if lying else spot.set_yscale)("log" if log else "linear")
    beside = [member for member in members if not member.look.bound]
    width = 0.8 / max(len(beside), 1)
    handles: dict[str, Any] = {}
    for member in members:
        look = member.look
        if look.bound:
            begin, end = ([at + side for at in range(len(groups))] for side in (-0.45, 0.45))
            across = spot.vlines if lying else spot.hlines
            handles[look.label] = across(member.heights, begin, end, color=look.color, linestyle=look.dash, zorder=3)
            continue
        shift = (beside.index(member) - (len(beside) - 1) / 2) * width
        places = [at + shift for at in range(len(groups))]
        error: dict[str, Any] = {"elinewidth": 1, "capsize": 2}
        spread: dict[str, Any] = {"xerr" if lying else "yerr": list(member.half_widths) if any(member.half_widths) else None}
        if log:
            xs, ys = (member.heights, places) if lying else (places, member.heights)
            handles[look.label] = spot.errorbar(xs, ys, **spread, **look.dot, **error)[0]
        else:
            lengths = [height - base for height in member.heights]
            stand: dict[str, Any] = {"left" if lying else "bottom": base}
            handles[look.label] = (spot.barh if lying else spot.bar)(
                places, lengths, width * 0.92, **stand, **spread, color=look.color, hatch=look.hatch, edgecolor="white",
                linewidth=0.5, error_kw=error,
            )  # fmt: skip
    if not log:
        (spot.axvline if lying else spot.axhline)(base, color="black", lw=0.8, zorder=2.5)
    for edge in range(1, len(groups)):
        (spot.axhline if lying else spot.axvline)(edge - 0.5, color="#DDDDDD", lw=0.6, zorder=0)
    (spot.set_yticks if lying else spot.set_xticks)(range(len(groups)), groups)
    if lying:
        spot.set_ylim(len(groups) - 0.5, -0.5)  # the first group is on top
    else:
        spot.set_xlim(-0.5, len(groups) - 0.5)
    spot.grid(axis="y" if lying else "x", visible=False)
    return handles


def write_values(spot: Axes, members: Sequence[Member], *, log: bool, base: float = 0.0) -> None:
    """Write each value above its bar or dot, rotated if there is too little room."""
    beside = [member for member in members if not member.look.bound]
    width = 0.8 / max(len(beside), 1)
    bars = sum(len(member.heights) for member in beside)
    inches = spot.get_window_extent().width / spot.get_figure().dpi  # type: ignore[union-attr]
    crowded = bars * 0.34 > inches
    spot.margins(y=0.2 if crowded else 0.12)
    for number, member in enumerate(beside):
        for at, (height, half_width) in enumerate(zip(member.heights, member.half_widths, strict=True)):
            missing = math.isnan(height) or (log and height <= 0)
            # The value of a bar that hangs down from the base line is written above that line.
            low = spot.get_ylim()[0] if log else base
            top = low if missing else max(height + half_width, low)
            text = "none" if math.isnan(height) else significant(height, 3)
            spot.annotate(
                text, (at + (number - (len(beside) - 1) / 2) * width, top), (0, 6 if log and not missing else 2),
                textcoords="offset points", ha="center", va="bottom", fontsize=7, rotation=90 if crowded else 0,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
            )  # fmt: skip
