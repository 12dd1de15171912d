"""Draws a flow-size distribution."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flowloom.demotion.sizes import Floats, Sizes
from flowloom.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(sizes: Sizes, stem: Path, title: str) -> list[Path]:
    """Draw a flow-size distribution, interpolated like the simulator's sampler, as `stem`.png and .svg."""
    drawing = style.canvas(6, 3.8)
    spot = drawing.subplots()
    (line,) = draw_share(spot, sizes)
    inner = sizes.bytes[2:]  # the first two points are not in the table; see `Sizes.through`
    (points,) = spot.plot(np.maximum(inner, 1), sizes.share[2:], color=style.BLUE, marker="o", ms=3, linestyle="none")
    style.sizes_axis(spot.xaxis)
    spot.set(xlabel="Flow size", ylabel="Share of flows no larger", ylim=(0, 1.02))
    style.heading(drawing, title)
    style.legend(drawing, {"distribution of simulated flows": line, "points of the table": points})
    return style.save(drawing, stem)


def corners(sizes: Sizes) -> Floats:
    """Return sizes in bytes, at least 1, at which to draw a distribution on a logarithmic axis.

    The distribution is linear in bytes between the table's points, and therefore curved on this axis. The points themselves are
    included unless there are more than 500, as in a log of flows, where they are too close to be seen.
    """
    points = sizes.bytes[sizes.bytes > 0]
    smallest = max(points[0] / 2, 1.0)
    return np.union1d(np.geomspace(smallest, sizes.largest, 500), np.maximum(points, 1) if len(points) <= 500 else points[:0])


def draw_share(spot: Axes, sizes: Sizes) -> list[Any]:
    """Draw the share of flows that are no larger than a size."""
    at = corners(sizes)
    f, _ = sizes.at(at)
    just_below, _ = sizes.at(np.nextafter(at, 0))
    # At a step of the distribution, both sides are drawn.
    return spot.plot(np.repeat(at, 2), np.column_stack([just_below, f]).ravel(), color=style.BLUE)
