"""The parts of plots: axes, lines and bars as `report.js` draws them.

A panel has a `title`, the axes `x` and `y`, and `traces`. A trace refers to its entry of the legend, which has its name and its
colour, by number. Numbers that are not known are null.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from flowloom.axes import Axis
from flowloom.plots.bars import Member
from flowloom.plots.style import Look
from flowloom.reports import looks
from flowloom.reports.content import Key
from flowloom.words import printable

HEIGHT = 340
"""The height of a panel in pixels."""
POINTS_MAX = 1500
"""The maximum number of points of a line."""
_ROW = 17
"""The height of a lying bar."""
_DIGITS = 7
"""Plots have this many digits of a number, which no eye can tell from all of them."""


class Legend:
    """The entries of a legend, each once."""

    def __init__(self) -> None:
        """Begin without entries."""
        self.keys: list[Key] = []

    def number(self, look: Look, shape: str = "line") -> int:
        """Return the number of a look's entry, which is added if it is new."""
        return self.add(looks.key(look, shape))

    def add(self, key: Key) -> int:
        """Return the number of an entry, which is added if there is none of its name."""
        names = [each.name for each in self.keys]
        if key.name not in names:
            self.keys.append(key)
            return len(names)
        return names.index(key.name)


def words(text: str) -> str:
    """Return a text for a plot, in which plotly would obey some tags."""
    return html.escape(printable(text, keep=""), quote=False)


def numbers(values: Iterable[float | None]) -> list[float | None]:
    """Return numbers for JSON, which has no NaN and no infinity."""
    return [None if v is None or not math.isfinite(v) else float(f"{float(v):.{_DIGITS}g}") for v in values]


def axis(title: str, *, log: bool = False, **more: Any) -> dict[str, Any]:
    """Return an axis. `ticks` and `labels` fix its ticks; `zero` and `one` begin it at 0 or 1; `unit` follows its numbers."""
    return {"title": words(title), "log": log, **more}


def keyed(key: Axis) -> dict[str, Any]:
    """Return the axis of a scenario key."""
    names = [words(name) for name in key.names]
    if key.at is None:
        return axis(key.title, ticks=list(range(len(names))), labels=names, groups=True)
    found = axis(key.title, log=key.log)
    return found | ({"ticks": list(key.at), "labels": [f"{at:,.6g}" for at in key.at]} if len(key.at) <= 10 else {})


def line(number: int, look: Look, xs: Iterable[float], ys: Iterable[float], **more: Any) -> dict[str, Any]:
    """Return a line; with `markers`, each of its points has one."""
    return {"key": number, "kind": "line", **looks.of(look), "x": numbers(xs), "y": numbers(ys), **more}


def course(number: int, look: Look, xs: Iterable[float], ys: Iterable[float]) -> dict[str, Any]:
    """Return a thin line without markers. Of very many points, it has those at which it turns."""
    return line(number, look, *_thinned(list(xs), list(ys)), thin=True)


def _thinned(xs: list[float], ys: list[float]) -> tuple[list[float], list[float]]:
    """Leave out points that are closer than a screen can show: of each part, the first, the least and the largest stay."""
    if len(xs) <= POINTS_MAX:
        return xs, ys
    step = -(-len(xs) // (POINTS_MAX // 3))
    kept: list[int] = []
    for begin in range(0, len(xs), step):
        part = range(begin, min(begin + step, len(xs)))
        known = [at for at in part if not math.isnan(ys[at])] or [begin]
        kept += sorted({begin, min(known, key=ys.__getitem__), max(known, key=ys.__getitem__)})
    return [xs[at] for at in kept], [ys[at] for at in kept]


def dots(number: int, look: Look, xs: Iterable[float], ys: Iterable[float]) -> dict[str, Any]:
    """Return points without a line."""
    return {"key": number, "kind": "dots", **looks.of(look), "x": numbers(xs), "y": numbers(ys)}


def lines(legend: Legend, at: Sequence[float], members: Sequence[Member]) -> list[dict[str, Any]]:
    """Return lines of means with intervals, in ascending order of the places."""
    order = sorted(range(len(at)), key=lambda number: at[number])
    found = []
    for look, heights, half_widths, _ in members:
        spread = {"e": numbers(half_widths[n] for n in order)} if any(half_widths) else {}
        xs, ys = [at[n] for n in order], [heights[n] for n in order]
        found.append(line(legend.number(look), look, xs, ys, markers=True) | spread)
    return found


def bars(
    legend: Legend, members: Sequence[Member], *, log: bool, base: float = 0.0, lying: bool = False
) -> list[dict[str, Any]]:
    """Return grouped bars; on a logarithmic axis, where the length of a bar has no meaning, dots."""
    beside = [member for member in members if not member.look.bound]
    found = []
    for member in members:
        look, heights, half_widths, _ = member
        kind = "bound" if look.bound else "mark" if log else "bar"
        shape = {"bound": "line", "mark": "mark", "bar": "bar"}[kind]
        spread = {"e": numbers(half_widths)} if any(half_widths) else {}
        place = {"slot": beside.index(member), "slots": len(beside)} if member in beside else {}
        trace = {"key": legend.number(look, shape), "kind": kind, **looks.of(look), "y": numbers(heights), **spread, **place}
        found.append(trace | {"base": base} | ({"lying": True} if lying else {}))
    return found


def panel(
    title: str, x: dict[str, Any], y: dict[str, Any], traces: Sequence[dict[str, Any]], height: float = HEIGHT
) -> dict[str, Any]:
    """Return a panel."""
    return {"title": printable(title, keep=""), "x": x, "y": y, "traces": traces, "height": round(height)}


def height_of_rows(rows: int, beside: int = 1) -> float:
    """Return the height of a panel of lying bars."""
    return 90 + max(rows, 1) * max(24, _ROW * beside)
