"""One look for all drawings.

A transport has the same colour, marker and dash everywhere. The colours are Okabe and Ito's: people who do not see red and
green apart can tell them apart.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#C9B400", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
_CYCLE = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, YELLOW)
_MARKERS = "os^Dv<>pPX"


class Look(NamedTuple):
    """How a line or bar is told from others."""

    label: str
    color: str
    marker: str
    dash: Any
    hatch: str


_TRANSPORTS = {
    "ideal": Look("ideal", BLACK, "", (0, (4, 2)), ""),
    "phost": Look("pHost", BLUE, "o", "-", ""),
    "pfabric": Look("pFabric", VERMILLION, "s", "-", ""),
    "fastpass": Look("Fastpass", GREEN, "^", "-", ""),
    "pias": Look("PIAS", ORANGE, "D", "-", ""),
    "pase": Look("PASE", PURPLE, "v", "-", ""),
    "top": Look("TOP", SKY, "P", "-", ""),
    "ndp": Look("NDP", YELLOW, "X", "-", ""),
    "dctcp": Look("DCTCP", BLACK, "x", (0, (1, 1)), "///"),
    "l2dct": Look("L2DCT", GREEN, "<", (0, (1, 1)), "///"),
    "d2tcp": Look("D2TCP", ORANGE, ">", (0, (1, 1)), "///"),
    "ecn_star": Look("ECN*", SKY, "1", (0, (1, 1)), "///"),
    "tcp": Look("TCP", VERMILLION, "+", (0, (1, 1)), "///"),
    "pdq": Look("PDQ", BLUE, "d", (0, (5, 1, 1, 1)), "..."),
    "d3": Look("D3", SKY, "h", (0, (5, 1, 1, 1)), "..."),
    "las": Look("LAS", PURPLE, "*", (0, (5, 1, 1, 1)), "..."),
    "homa": Look("Homa", PURPLE, "p", (0, (5, 1, 1, 1)), "..."),
    "expresspass": Look("ExpressPass", ORANGE, "8", (0, (5, 1, 1, 1)), "..."),
    "hpcc": Look("HPCC", VERMILLION, "H", (0, (5, 1, 1, 1)), "..."),
}


def transport(name: str) -> Look:
    """Give a transport's look; one that is not known here keeps the look that its name gives it."""
    if name in _TRANSPORTS:
        return _TRANSPORTS[name]
    number = zlib.crc32(name.encode())
    return Look(name, _CYCLE[number % len(_CYCLE)], _MARKERS[number // 7 % len(_MARKERS)], (0, (3, 1)), "xx")


def transport_label(name: str) -> str:
    """Give a transport's name as its authors write it."""
    return transport(name).label


def numbered(number: int, count: int, label: str) -> Look:
    """Give the look of the n-th of some things that are not transports: shades that no transport has."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    shade = mpl.colormaps["cividis"](0.05 + 0.85 * number / max(count - 1, 1))
    return Look(label, to_hex(shade), _MARKERS[number % len(_MARKERS)], "-", "")


def canvas(width: float, height: float) -> Canvas:
    """Make an empty drawing, in inches, with the style set."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({
        "font.size": 10,
        "axes.titlesize": 10.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "hatch.linewidth": 0.6,
        "svg.hashsalt": "flowloom",
    })  # fmt: skip
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, height), layout="constrained")


def legend(drawing: Canvas, handles: dict[str, Any], small_print: str = "") -> None:
    """Put the legend below the axes, where it never covers data, with a line of small print."""
    below = drawing.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(len(handles), 6) or 1,
        title=small_print or None,
        title_fontsize=7,
    )
    below.get_title().set_color("#666666")


PICTURES = (".png", ".svg")
"""The suffixes of the files that `save` writes."""


def save(drawing: Canvas, stem: Any) -> list[Any]:
    """Write PNG and SVG beside each other; nothing in them depends on the time of day."""
    from pathlib import Path

    pictures = [Path(f"{stem}{suffix}") for suffix in PICTURES]
    drawing.savefig(pictures[0], dpi=150, metadata={"Software": "Flowloom"})
    drawing.savefig(pictures[1], metadata={"Date": None, "Creator": "Flowloom"})
    return pictures
