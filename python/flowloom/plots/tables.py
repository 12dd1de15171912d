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


class Row(NamedTuple):
    """The values of one scheme, one for each column. Smaller is better. NaN stands for no value."""

    label: str
    values: Sequence[float]
    half_widths: Sequence[float | None] = ()
    """Half the widths of the confidence intervals, if there are any."""


def ranked(rows: Sequence[Row]) -> list[Row]:
    """Return the rows in the order of the geometric means of their values. Rows with a missing value come last."""

    def key(row: Row) -> tuple[bool, float]:
        there = [value for value in row.values if value > 0]
        return len(there) < len(row.values), statistics.geometric_mean(there) if there else math.inf

    return sorted(rows, key=key)


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
    best = [min((row.values[at] for row in rows if row.values[at] > 0), default=math.nan) for at in range(len(columns))]
    for down, row in enumerate(rows):
        for across, value in enumerate(row.values):
            depth = min(math.log(value / best[across]) / math.log(WORST), 1.0) if value > 0 else 0.0
            face = shades(0.05 + 0.8 * depth) if value > 0 else "#EEEEEE"
            place = (across - 0.5, down - 0.5)
            spot.add_patch(mpl.patches.Rectangle(place, 1, 1, facecolor=face, edgecolor="white", linewidth=2))
            text = significant(value, 3) if value > 0 else "none"
            # Numbers that read alike look alike.
            weight = "bold" if text == significant(best[across], 3) else "normal"
            ink = "white" if depth > 0.65 else "black"
            spot.text(across, down, text, ha="center", va="center", fontsize=13, color=ink, fontweight=weight)
            if row.half_widths and (half_width := row.half_widths[across]):
                note = f"± {significant(half_width, 2)}"
                spot.text(across, down + 0.44, note, ha="center", va="bottom", fontsize=6.5, color=ink)
    spot.set_xlim(-0.5, len(columns) - 0.5)
    spot.set_ylim(len(rows) - 0.5, -0.5)
    spot.set_xticks(range(len(columns)), columns)
    spot.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=13)
    spot.tick_params(length=0, labeltop=True, labelbottom=False)
    spot.grid(visible=False)
    for side in spot.spines.values():
        side.set_visible(False)
