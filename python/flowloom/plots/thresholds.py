"""Draws demotion thresholds over the distributions of flows and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom.plots import style
from flowloom.plots.sizes import corners, draw_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from flowloom.demotion.sizes import Sizes


def draw(sizes: Sizes, sets: Mapping[str, Sequence[int]], stem: Path, title: str) -> list[Path]:
    """Draw both distributions with the first set's thresholds, and all sets' thresholds below, as `stem`.png and .svg.

    Args:
        sizes: The flow sizes.
        sets: Thresholds in bytes by name. The first set is the highlighted one.
        stem: The path of the pictures without the suffix.
        title: The title, which describes the thresholds.
    """
    drawing = style.canvas(8, 4.4 + 0.22 * len(sets))
    top, below = drawing.subplots(2, 1, sharex=True, height_ratios=[9, 0.7 * len(sets) + 0.5])
    handles = _distributions(top, sizes)
    found = next(iter(sets.values()))
    for number, threshold in enumerate(found, 1):
        top.axvline(threshold, color=style.VERMILLION, lw=1)
        top.annotate(f"{number}", (threshold, 1.015), xycoords=("data", "axes fraction"), ha="center", fontsize=8)
    for row, thresholds in enumerate(sets.values()):
        color = style.VERMILLION if row == 0 else style.BLACK
        below.plot(thresholds, [row] * len(thresholds), "|", color=color, ms=9, mew=1.6)
    below.set_yticks(range(len(sets)), list(sets))
    style.sizes_axis(below.xaxis)
    below.set(xlabel="Flow size or offset", ylim=(len(sets) - 0.5, -0.5))
    below.grid(axis="y", visible=False)
    style.heading(drawing, title)
    style.legend(drawing, handles)
    return style.save(drawing, stem)


def _distributions(spot: Axes, sizes: Sizes) -> dict[str, Any]:
    at = corners(sizes)
    f, survival = sizes.at(at)
    (flows,) = draw_share(spot, sizes)
    # The bytes of flows no larger than x are the bytes at offsets up to x, minus those of larger flows.
    carried = (survival - at * (1 - f)) / sizes.mean
    (bytes_,) = spot.plot(at, carried, color=style.GREEN, linestyle=(0, (4, 2)))
    (sent,) = spot.plot(at, survival / sizes.mean, color=style.PURPLE, linestyle=(0, (1, 1)))
    spot.set(ylabel="Share", ylim=(0, 1.02))
    return {"flows up to this size": flows, "bytes of flows up to this size": bytes_, "bytes up to this offset": sent}
