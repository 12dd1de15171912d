"""The looks of lines and bars in pages: those of pictures, in words of plotly."""

from __future__ import annotations

from typing import Any

from flowloom.plots.style import Look
from flowloom.reports.content import Key
from flowloom.words import printable

PAPER = {"light": "#fcfbf8", "dark": "#14171d"}
"""The backgrounds of pages."""
_CONTRAST = 4.5
"""The least contrast of a colour to a dark page, by the rule of the Web Content Accessibility Guidelines."""
_SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "v": "triangle-down", "<": "triangle-left", ">": "triangle-right",
    "D": "diamond", "d": "diamond-tall", "p": "pentagon", "P": "cross", "X": "x", "*": "star", "h": "hexagon",
    "+": "cross-thin", "x": "x-thin", "1": "y-down", "2": "y-up", "3": "y-left", "4": "y-right", "_": "line-ew", "|": "line-ns",
}  # fmt: skip
"""Plotly's names of matplotlib's markers."""
_STROKES = ("+", "x", "1", "2", "3", "4", "_", "|")
_PATTERNS = ("/", "\\", "x", "-", "|", "+", ".")
_ALIKE = {"o": ".", "O": ".", "*": "x"}


def key(look: Look, shape: str = "line") -> Key:
    """Return the entry of a legend."""
    return Key(printable(look.label, keep=""), look.color, legible(look.color), shape)


def pale(look: Look) -> Key:
    """Return the entry of what is like the background, with a little of the colour."""
    return Key(look.label, _mixed(look.color, PAPER["light"], 0.35), _mixed(legible(look.color), PAPER["dark"], 0.45), "bar")


def _mixed(color: str, paper: str, share: float) -> str:
    pairs = zip(_parts(color), _parts(paper), strict=True)
    return "#" + "".join(f"{round(share * one + (1 - share) * other):02X}" for one, other in pairs)


def _parts(color: str) -> tuple[int, int, int]:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue


def of(look: Look) -> dict[str, Any]:
    """Return the properties of a line, its markers and its bars. Colours are in the legend."""
    found: dict[str, Any] = {"dash": _dash(look.dash)}
    marker = str(look.marker)
    if marker.startswith("$"):
        found["letter"] = marker.strip("$")
    elif marker in _SYMBOLS:
        open_ = look.fill != "full" or marker in _STROKES
        found["symbol"] = _SYMBOLS[marker] + ("-open" if open_ else "") + ("-dot" if look.fill in _HALVES else "")
    if look.hatch:
        found["pattern"] = _pattern(look.hatch)
    if look.bound:
        found["bound"] = True
    return found


_HALVES = ("left", "right", "bottom")
"""What plotly cannot fill in part has a dot in it instead."""


def _dash(dash: Any) -> str:
    """Return the lengths of dashes and gaps. Matplotlib's are multiples of the width of the line, here of 2 pixels."""
    if not isinstance(dash, tuple):
        return "solid"
    return ",".join(f"{2 * length:g}px" for length in dash[1])


def _pattern(hatch: str) -> str:
    first = _ALIKE.get(hatch[0], hatch[0])
    return first if first in _PATTERNS else "/"


def legible(color: str, on: str = PAPER["dark"]) -> str:
    """Return a colour, or one of its hue that is light enough to be seen on a dark page."""
    steps = (_mixed(color, "#FFFFFF", 1 - step / 20) for step in range(20))
    return next((text for text in steps if contrast(text, on) >= _CONTRAST), "#FFFFFF")


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    parts = (part / 255 for part in _parts(color))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
