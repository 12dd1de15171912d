"""Draws a table of numbers, each on a colour that shows how far it is from the best of its column."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from flowloom.metrics import significant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORST = 8.0
"""A number that is this many times the best of its column, or more, has the darkest colour."""
ROUNDING = 1e-9
"""An interval this small, relative to its number, comes from rounding: means of equal numbers differ in their last bits."""


class Row(NamedTuple):
    """The values of one scheme, one for each column. NaN stands for no value."""

    label: str
    values: Sequence[float]
    half_widths: Sequence[float | None] = ()
    """Half the widths of the confidence intervals, if there are any."""
    whole: float | None = None
    """What the values are reductions of, if they are reductions."""
    counts: Sequence[int] = ()
    """How many seeds each value is over, if that is known."""

    @property
    def costs(self) -> Sequence[float]:
        """The numbers by which it is compared, of which smaller ones are better: its values, or what reductions leave."""
        return self.values if self.whole is None else [self.whole - value for value in self.values]


def ranked(rows: Sequence[Row]) -> list[Row]:
    """Return the rows in the order of the geometric means of their costs, or of the arithmetic means if one is not above 0.

    Rows with a missing value come last, and before them those whose values are over fewer seeds than the others'.
    """
    mean = statistics.fmean if any(cost <= 0 for row in rows for cost in row.costs) else statistics.geometric_mean

    def key(row: Row) -> tuple[bool, int, float]:
        there = [cost for cost in row.costs if not math.isnan(cost)]
        return len(there) < len(row.values), -sum(row.counts), mean(there) if there else math.inf

    return sorted(rows, key=key)


def depths(rows: Sequence[Row]) -> list[list[float]]:
    """Return how dark each number's colour is: 0 for the best of its column, 1 for WORST times the best, or more."""
    columns = list(zip(*(row.costs for row in rows), strict=True))
    # A column whose best is 0 has its first shade at the least number above 0.
    least = [min((value for value in column if value > 0), default=math.nan) for column in columns]
    return [
        [min(math.log(v / least[at]) / math.log(WORST), 1.0) if v > 0 else 0.0 for at, v in enumerate(row.costs)]
        for row in rows
    ]


def draw(spot: Axes, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Draw a table whose best rows are on top.

    Args:
        spot: Where to draw.
        rows: The rows in any order.
        columns: The names of the columns.
    """
    import matplotlib as mpl

    rows = ranked(rows)
    shades = mpl.colormaps["YlOrBr"]
    best = [
        min(((row.costs[at], row.values[at]) for row in rows if not math.isnan(row.values[at])), default=(0.0, math.nan))[1]
        for at in range(len(columns))
    ]
    shaded = depths(rows)
    for down, row in enumerate(rows):
        for across, value in enumerate(row.values):
            depth = shaded[down][across]
            face = "#EEEEEE" if math.isnan(value) else shades(0.05 + 0.8 * depth)
            place = (across - 0.5, down - 0.5)
            spot.add_patch(mpl.patches.Rectangle(place, 1, 1, facecolor=face, edgecolor="white", linewidth=2))
            text = written(value)
            # Numbers that read alike look alike.
            weight = "bold" if text == written(best[across]) else "normal"
            ink = "white" if depth > 0.65 else "black"
            spot.text(across, down, text, ha="center", va="center", fontsize=13, color=ink, fontweight=weight)
            if note := spread(row, across):
                spot.text(across, down + 0.44, note, ha="center", va="bottom", fontsize=6.5, color=ink)
    spot.set_xlim(-0.5, len(columns) - 0.5)
    spot.set_ylim(len(rows) - 0.5, -0.5)
    spot.set_xticks(range(len(columns)), columns)
    spot.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=13)
    spot.tick_params(length=0, labeltop=True, labelbottom=False)
    spot.grid(visible=False)
    for side in spot.spines.values():
        side.set_visible(False)


def written(value: float) -> str:
    """Return a number that fits its cell."""
    return "none" if math.isnan(value) else significant(value, 3 if abs(value) >= 0.1 else 1)


def spread(row: Row, at: int) -> str:
    """Return the interval of a number; empty if there is none."""
    half_width = row.half_widths[at] if row.half_widths else None
    return f"± {significant(half_width, 2)}" if half_width and half_width > ROUNDING * abs(row.values[at]) else ""
