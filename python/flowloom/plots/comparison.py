"""Draws comparisons of transports: slowdown by flow size, its distribution, and the rounds of a tournament."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom import metrics
from flowloom.plots import bars, style
from flowloom.results import Results
from flowloom.stats import estimate

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

_HEADING = "slowdown of flows; the best possible is 1"


def draw(results: Mapping[str, Sequence[Results]], stem: Path, title: str) -> list[Path]:
    """Draw mean slowdown by flow size and the distribution of slowdowns, as `stem`.png and .svg.

    Args:
        results: The runs of each transport, which differ in their seeds. The flows of all seeds are drawn together.
        stem: The path of the pictures without the suffix.
        title: The name of the scenario.
    """
    drawing = style.canvas(10, 4.4)
    left, right = drawing.subplots(1, 2)
    handles: dict[str, Any] = {}
    for name, runs in results.items():
        look = style.transport(name)
        size, slowdown = _finished(runs)
        if len(size):
            (handles[look.label],) = _by_size(left, size, slowdown, look)
            _distribution(right, slowdown, look)
    style.sizes_axis(left.xaxis)
    left.set(xlabel="Flow size", ylabel="Mean slowdown", title="By flow size")
    style.logarithmic(right.yaxis)
    right.set(xlabel="Slowdown", ylabel="Share of flows with a larger slowdown", title="Distribution")
    for axis, top in ((left.yaxis, left.get_ylim()[1]), (right.xaxis, right.get_xlim()[1])):
        style.from_one(axis, top)
    style.heading(drawing, f"{title}: {_HEADING}")
    style.legend(drawing, handles)
    return style.save(drawing, stem)


def draw_tournament(
    rounds: Mapping[str, Mapping[str, Sequence[Results]]], names: Sequence[str], stem: Path, title: str
) -> list[Path]:
    """Draw mean and 99th-percentile slowdown of each transport in each round, as `stem`.png and .svg."""
    drawing = style.canvas(10, 4.4)
    handles: dict[str, Any] = {}
    for spot, word, text in zip(drawing.subplots(1, 2), ("mean", "p99"), ("Mean", "99th percentile"), strict=True):
        members = []
        for name in names:
            # A round that failed has no value.
            runs = [seeds.get(name, ()) for seeds in rounds.values()]
            found = [estimate([metrics.evaluate(f"slowdown.{word}", run.summary) for run in each]) for each in runs]
            members.append(bars.Member(style.transport(name), [e.mean for e in found], [e.half_width or 0 for e in found]))
        tops = [h + w for m in members for h, w in zip(m.heights, m.half_widths, strict=True)]
        top = 1.05 * max((each for each in tops if not math.isnan(each)), default=1.1)
        log = top > style.LINEAR_MAX
        for label, handle in bars.draw(spot, members, list(rounds), log=log, base=1.0).items():
            # If one side has bars and the other dots, the legend shows both.
            shown = handles.setdefault(label, ())
            handles[label] = shown if type(handle) in map(type, shown) else (*shown, handle)
        style.from_one(spot.yaxis, top)
        if not log:
            spot.set_ylim(1, top)
        spot.set(ylabel="Slowdown", title=text)
    style.heading(drawing, f"{title}: {_HEADING}")
    style.legend(drawing, handles)
    return style.save(drawing, stem)


def _finished(runs: Sequence[Results]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sizes and slowdowns of all flows that finished."""
    import numpy as np

    done = [run.flows.filter(run.flows["finish"].is_valid()) for run in runs]
    size, slowdown = ([flows[name].to_numpy().astype(float) for flows in done] for name in ("bytes", "slowdown"))
    return np.concatenate(size), np.concatenate(slowdown)


def _by_size(spot: Axes, size: NDArray[np.float64], slowdown: NDArray[np.float64], look: style.Look) -> list[Any]:
    import numpy as np

    # Three bins per decade show where a scheme's behaviour changes, and still average over many flows.
    place = np.round(np.log10(np.maximum(size, 1)) * 3).astype(int)
    bins = np.unique(place)
    means = [slowdown[place == b].mean() for b in bins]
    at = [np.exp(np.log(np.maximum(size[place == b], 1)).mean()) for b in bins]
    return list(spot.plot(at, means, color=look.color, marker=look.marker, linestyle=look.dash, ms=5))


def _distribution(spot: Axes, slowdown: NDArray[np.float64], look: style.Look) -> None:
    import numpy as np

    n = len(slowdown)
    # A few hundred points, evenly spaced on the logarithmic axis, look the same as all points and keep the SVG small.
    worse = np.unique(np.geomspace(1, n, 400).astype(int))
    style.line(spot, np.sort(slowdown)[n - worse], worse / n, look)
