"""The looks of variants of a transport, and of other tools' results.

A variant has its transport's hue and the shape of its marker. Its lightness, the fill of the marker, its dash and its hatch are
those of no transport and of no other variant in the drawing, so that black and white is enough to tell them apart.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from flowloom.plots import style
from flowloom.plots.style import Look

_FILLED = {"+": "P", "x": "X", "1": "v", "2": "^", "3": "<", "4": ">"}
"""For markers that are strokes: the most similar one that can be hollow."""
_FILLS = ("none", "left", "right", "bottom")
_LEVELS = (0.74, 0.36, 0.62, 0.28, 0.50, 0.68, 0.42)
"""Perceived lightness, in the order in which variants of a transport get it: 0 is black, and 1 is white."""
_APART = 0.07
"""The least difference in lightness from the transport's own colour."""
_DASHES: tuple[Any, ...] = (
    (0, (7, 2)), (0, (2, 2)), (0, (9, 2, 2, 2)), (0, (4, 1, 1, 1, 1, 1)), (0, (12, 3)), (0, (1, 3)),
    (0, (8, 2, 1, 2, 1, 2)), (0, (3, 3, 1, 3)), (0, (10, 2, 3, 2, 3, 2)), (0, (5, 5)), (0, (6, 2, 6, 2, 1, 2)), (0, (2, 4)),
)  # fmt: skip
_HATCHES = ("\\\\\\\\", "----", "ooo", "||||", "***", "++++", "O.", "-\\\\", "|..", "/-/", "oo--", "**|")
_TONES = ("#555555", "#8C8C8C", "#000000")
_TOOLS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Name(NamedTuple):
    """What a drawing shows, before it has a look."""

    label: str
    transport: str
    number: int | None
    """None for a transport as the scenario configures it. Variants with the same number have the same dash and hatch."""


def looks(names: Sequence[Name]) -> dict[str, Look]:
    """Return the looks of all that a drawing shows, by label."""
    ranks = Counter[str]()
    taken = {(style.transport(name.transport).marker, "full") for name in names if name.number is None}
    found = {}
    for label, transport, number in names:
        own = style.transport(transport)
        if number is None:
            found[label] = own._replace(label=label)
            continue
        rank = ranks[transport]
        marker, fill = next(each for each in _markers(own.marker) if each not in taken or own.bound)
        dash, hatch = (each[number % len(each)] for each in (_DASHES, _HATCHES))
        found[label] = Look(label, _shade(own.color, rank), marker, dash, hatch, fill)
        ranks[transport] += 1
        taken.add((marker, fill))
    return found


def overlay(label: str, number: int) -> Look:
    """Return the look of another tool's results: grey, with a letter as its marker."""
    dash, hatch = (each[-1 - number % len(each)] for each in (_DASHES, _HATCHES))
    return Look(label, _TONES[number % len(_TONES)], f"${_TOOLS[number % len(_TOOLS)]}$", dash, hatch)


def _markers(own: str) -> Iterator[tuple[str, str]]:
    """Return the markers of variants of a transport, each with its fill; when the fills are used up, numbers."""
    if not own:
        yield own, "full"  # a bound has none
    for fill in _FILLS:
        yield _FILLED.get(own, own), fill
    for number in itertools.count(len(_FILLS) + 1):
        yield f"${number}$", "full"


def _shade(color: str, rank: int) -> str:
    """Mix a colour with white or black, so that it has the lightness of a variant."""
    from matplotlib.colors import to_hex, to_rgb

    lightness, a, b = _oklab(to_rgb(color))
    levels = [level for level in _LEVELS if abs(level - lightness) > _APART]
    level = levels[rank % len(levels)]
    kept = (1 - level) / (1 - lightness) if level > lightness else level / lightness
    return str(to_hex(_rgb(level, a * kept, b * kept)))


# Ottosson's OKLab (2020), in which equal distances look equal.


def _oklab(rgb: tuple[float, float, float]) -> tuple[float, float, float]:
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    medium = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def _rgb(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    """Return the sRGB colour; what no screen shows is clipped."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    clipped = [min(max(c, 0.0), 1.0) for c in linear]
    red, green, blue = (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in clipped)
    return red, green, blue
