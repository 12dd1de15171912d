"""Pictures of single runs: transports compared by flow size, and the distribution of slowdowns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom.plots import style
from flowloom.results import Results

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray


def draw(results: Mapping[str, Results], stem: Path, title: str) -> list[Path]:
    """Draw mean slowdown by flow size and the distribution of slowdowns, as `stem`.png and .svg."""
    drawing = style.canvas(10, 4.4)
    left, right = drawing.subplots(1, 2)
    handles: dict[str, Any] = {}
    for name, result in results.items():
        look = style.transport(name)
        done = result.flows.filter(result.flows["finish"].is_valid())
        size, slowdown = (done[column].to_numpy().astype(float) for column in ("bytes", "slowdown"))
        if len(size):
            _by_size(left, size, slowdown, look)
            (handles[look.label],) = _distribution(right, slowdown, look)
    left.set(xscale="log", xlabel="Flow size (bytes)", ylabel="Mean slowdown", title="By flow size")
    right.set(yscale="log", xlabel="Slowdown", ylabel="Share of flows that do worse", title="Distribution")
    for axis, top in ((left.yaxis, left.get_ylim()[1]), (right.xaxis, right.get_xlim()[1])):
        _from_one(axis, top)
    drawing.suptitle(f"{title}: slowdown of flows, 1 is the best there is", fontsize=12, fontweight="bold")
    style.legend(drawing, handles)
    return style.save(drawing, stem)


def draw_tournament(rounds: Mapping[Any, Mapping[str, Results]], names: list[str], stem: Path, title: str) -> list[Path]:
    """Draw mean and 99th-percentile slowdown of each transport in each round as bars, as `stem`.png and .svg."""
    drawing = style.canvas(10, 4.4)
    handles: dict[str, Any] = {}
    for spot, word, text in zip(drawing.subplots(1, 2), ("mean", "p99"), ("Mean", "99th percentile"), strict=True):
        width = 0.85 / len(names)
        for place, name in enumerate(names):
            look = style.transport(name)
            at = [number + (place - (len(names) - 1) / 2) * width for number in range(len(rounds))]
            heights = [results[name].summary["slowdown"][word] for results in rounds.values()]
            handles[look.label] = spot.bar(
                at, heights, width, color=look.color, hatch=look.hatch, edgecolor="white", linewidth=0.3
            )
        spot.set(xticks=range(len(rounds)), xticklabels=[str(value) for value in rounds], ylabel="Slowdown", title=text)
        _from_one(spot.yaxis, spot.get_ylim()[1])
    drawing.suptitle(f"{title}: slowdown of flows, 1 is the best there is", fontsize=12, fontweight="bold")
    style.legend(drawing, handles)
    return style.save(drawing, stem)


def _from_one(axis: Any, top: float) -> None:
    """Start an axis of slowdowns at 1, and make it logarithmic where it spans much."""
    from matplotlib.ticker import LogLocator, NullFormatter

    limits = axis.axes.set_ylim if axis.axis_name == "y" else axis.axes.set_xlim
    if top > 5:
        (axis.axes.set_yscale if axis.axis_name == "y" else axis.axes.set_xscale)("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
        limits(0.95, top)
    else:
        limits(1 - 0.03 * (top - 1), top)


def _by_size(spot: Axes, size: NDArray[np.float64], slowdown: NDArray[np.float64], look: style.Look) -> None:
    import numpy as np

    # Three bins to the decade: fine enough to see where a scheme changes its ways, coarse enough to average.
    place = np.round(np.log10(np.maximum(size, 1)) * 3).astype(int)
    bins = np.unique(place)
    means = [slowdown[place == b].mean() for b in bins]
    at = [np.exp(np.log(np.maximum(size[place == b], 1)).mean()) for b in bins]
    spot.plot(at, means, color=look.color, marker=look.marker, linestyle=look.dash, ms=5)


def _distribution(spot: Axes, slowdown: NDArray[np.float64], look: style.Look) -> list[Any]:
    import numpy as np

    n = len(slowdown)
    # A few hundred points, evenly spread over the logarithm, look the same as all and keep the SVG small.
    worse = np.unique(np.geomspace(1, n, 400).astype(int))
    return list(spot.plot(np.sort(slowdown)[n - worse], worse / n, color=look.color, linestyle=look.dash))


def draw_sizes(points: list[tuple[float, float]], stem: Path, title: str) -> list[Path]:
    """Draw a flow-size distribution, given as (bytes, cumulative probability)."""
    drawing = style.canvas(6, 3.8)
    spot = drawing.subplots()
    sizes, shares = zip(*points, strict=True)
    spot.plot([max(size, 1) for size in sizes], shares, color=style.BLUE, marker="o", ms=3)
    spot.set(xscale="log", xlabel="Flow size (bytes)", ylabel="Share of flows no larger", title=title, ylim=(0, 1.02))
    return style.save(drawing, stem)
