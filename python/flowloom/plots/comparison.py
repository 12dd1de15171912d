"""Pictures of single runs: transports compared by flow size, and the distribution of slowdowns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom import metrics
from flowloom.plots import style
from flowloom.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(results: Mapping[str, Results], stem: Path, title: str) -> list[Path]:
    """Draw mean slowdown by flow size and the distribution of slowdowns, as `stem`.png and .svg."""
    drawing = style.canvas(9.5, 4.3)
    left, right = drawing.subplots(1, 2)
    handles = {}
    for name, result in results.items():
        look = style.transport(name)
        _by_size(left, result, look)
        (handles[look.label],) = _distribution(right, result, look)
    left.set(ylabel="Mean slowdown", xlabel="Flow size", title="By flow size", ylim=(0, None))
    right.set(ylabel="Share of flows that do worse", xlabel="Slowdown", title="Distribution", xscale="log", yscale="log")
    right.set_ylim(1e-4, 1.2)
    right.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    right.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if right.get_xlim()[1] < 12 else "")
    drawing.suptitle(f"{title}: flow slowdown (1 is the best there is)", fontsize=12, fontweight="bold")
    drawing.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6)
    return style.save(drawing, stem)


def _by_size(spot: Axes, result: Results, look: style.Look) -> None:
    bins: list[dict[str, Any]] = result.summary["slowdown"]["by_size"]
    known = [(at, b["mean"]) for at, b in enumerate(bins) if b["mean"] is not None]
    places, heights = zip(*known, strict=True) if known else ((), ())
    spot.plot(places, heights, color=look.color, marker=look.marker, linestyle=look.dash)
    spot.set_xticks(range(len(bins)), [metrics.bin_label(b).replace(" to ", "\nto ") for b in bins])


def _distribution(spot: Axes, result: Results, look: style.Look) -> list[Any]:
    import numpy as np

    slowdown = np.sort(result.flows["slowdown"].drop_null().to_numpy())
    worse = 1 - np.arange(len(slowdown)) / max(len(slowdown), 1)
    # A few hundred points, evenly spread over the logarithm, look the same as all and keep the SVG small.
    at = np.unique((len(slowdown) * (1 - np.geomspace(1, 1 / max(len(slowdown), 2), 400))).astype(int))
    at = at[at < len(slowdown)]
    return list(spot.plot(slowdown[at], worse[at], color=look.color, linestyle=look.dash))


def draw_sizes(points: list[tuple[float, float]], stem: Path, title: str) -> list[Path]:
    """Draw a flow-size distribution, given as (bytes, cumulative probability)."""
    drawing = style.canvas(6, 3.8)
    spot = drawing.subplots()
    sizes, shares = zip(*points, strict=True)
    spot.plot([max(size, 1) for size in sizes], shares, color=style.BLUE, marker="o", ms=3)
    spot.set(xscale="log", xlabel="Flow size (bytes)", ylabel="Share of flows no larger", title=title, ylim=(0, 1.02))
    return style.save(drawing, stem)
