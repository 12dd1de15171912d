"""The common style of all drawings.

A transport has the same colour, marker, dash and hatch in every drawing, and no two transports share a colour. The first
colours are from Okabe and Ito's palette. Within a family of transports (the same dash and hatch), the colours are also
distinguishable with red-green colour blindness. Families differ in dash and hatch. `tests/python/test_plots.py` measures the
distances between colours.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom import transports
from flowloom.transports import MARKERS, Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.text import Text

BLACK, GREEN, BLUE, VERMILLION, PURPLE = "#000000", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
LINEAR_MAX = 5
"""The axis of slowdowns is linear up to this value, and logarithmic if there are larger ones."""


class Look(NamedTuple):
    """The label and appearance of a line, bar or dot."""

    label: str
    color: str
    marker: Any
    """Matplotlib's marker. Empty for a bound on all schemes, which is drawn as a line without markers."""
    dash: Any
    hatch: str
    fill: str = "full"
    """How much of the marker is filled: matplotlib's `fillstyle`."""

    @property
    def bound(self) -> bool:
        """Whether this is a bound on all schemes."""
        return not self.marker

    @property
    def size(self) -> float:
        """The size of its marker in points; a letter, a number, and what is filled in part are larger."""
        return 7.5 if str(self.marker).startswith("$") else 5.0 if self.fill == "full" else 6.0

    @property
    def pen(self) -> dict[str, Any]:
        """Matplotlib's arguments for a line with markers."""
        # What is not filled is white, so that no line shows through it.
        fill: dict[str, Any] = {"markerfacecolor": "white"} if self.fill == "none" else {"fillstyle": self.fill}
        return {
            "color": self.color, "linestyle": self.dash, "marker": self.marker, "ms": self.size, "markerfacecoloralt": "white",
            **fill,
        }  # fmt: skip

    @property
    def dot(self) -> dict[str, Any]:
        """Matplotlib's arguments for a marker without a line."""
        return self.pen | {"linestyle": "none", "ms": self.size + 1}


_DASHES: dict[Family, tuple[Any, str]] = {
    Family.BOUND: ((0, (4, 2)), ""),
    Family.PAPERS: ("-", ""),
    Family.TCP: ((0, (1, 1)), "///"),
    Family.OTHER: ((0, (5, 1, 1, 1)), "..."),
    Family.UNKNOWN: ((0, (3, 1)), "xx"),
}
"""The dash of lines and the hatch of bars."""


def transport(name: str) -> Look:
    """Return a transport's look."""
    found = transports.transport(name)
    return Look(found.label, found.color, found.marker, *_DASHES[found.family])


_HUES_APART = 24
"""In degrees."""


def together(names: Sequence[str]) -> dict[str, Look]:
    """Return the looks of transports in one drawing, by name.

    Of up to eight colours that are derived from names, no two are nearly the same.
    """
    looks, hues = {}, list[int]()
    for name in names:
        looks[name] = transport(name)
        if name not in transports.transports():
            own = transports.hue(name)
            hues.append(own if _apart(own, hues) >= _HUES_APART else max(range(360), key=lambda hue: _apart(hue, hues)))
            looks[name] = looks[name]._replace(color=transports.of_hue(hues[-1]))
    return looks


def _apart(hue: int, others: Sequence[int]) -> int:
    """Return how far a hue is from the nearest of others, in degrees."""
    return min((abs((hue - other + 180) % 360 - 180) for other in others), default=180)


def numbered(number: int, count: int, label: str) -> Look:
    """Return the n-th of `count` looks for a series other than transports: shades from dark to light, with markers."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    shade = mpl.colormaps["cividis"](0.05 + 0.85 * number / max(count - 1, 1))
    return Look(label, to_hex(shade), MARKERS[number % len(MARKERS)], "-", "")


_SETTINGS: dict[Any, Any] = {
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
}


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """Use the settings of the common style until the block ends; after that, matplotlib has those of the user again."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def canvas(width: float, height: float) -> Canvas:
    """Create an empty drawing with the common style; width and height are in inches."""
    import matplotlib as mpl

    mpl.rcParams.update(_SETTINGS)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    drawing = Canvas(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)  # needed to measure text
    return drawing


def grid(count: int) -> tuple[int, int]:
    """Return how many of a number of panels are beside each other, three at most, and how many rows they make."""
    rows = math.ceil(count / 3)
    return math.ceil(count / rows), rows


def heading(drawing: Canvas, text: str) -> None:
    """Write a title above all axes of a drawing."""
    drawing.suptitle(text, fontsize=12, fontweight="bold")


def legend(drawing: Canvas, handles: dict[str, Any], small_print: str = "") -> None:
    """Draw the legend below the axes, where it never covers data, with a line of small print.

    It has as many columns as fit. A handle may be a tuple of handles, which are drawn side by side.
    """
    from matplotlib.legend_handler import HandlerTuple

    for columns in range(min(len(handles), 6) or 1, 0, -1):
        below = drawing.legend(
            [each[0] if type(each) is tuple and len(each) == 1 else each for each in handles.values()],
            handles.keys(),
            loc="outside lower center",
            ncols=columns,
            handler_map={tuple: HandlerTuple(ndivide=None)},
            title=small_print or None,
            title_fontsize=7,
        )
        if columns == 1 or below.get_window_extent().width <= 0.98 * drawing.bbox.width:
            break
        below.remove()
    below.get_title().set_color("#666666")


def join(handles: dict[str, Any], more: dict[str, Any]) -> None:
    """Add the handles of one more panel; if one panel has bars and another dots or lines, the legend shows both."""
    from matplotlib.container import BarContainer

    for label, handle in more.items():
        shown = handles.setdefault(label, ())
        alike = any(isinstance(handle, BarContainer) == isinstance(each, BarContainer) for each in shown)
        handles[label] = shown if alike else (*shown, handle)


def line(spot: Axes, xs: Any, ys: Any, look: Look, **options: Any) -> Any:
    """Draw a line of many points with a few markers; return its handle for a legend."""
    return spot.plot(xs, ys, **look.pen, markevery=0.12, **options)[0]


def nothing(spot: Axes, why: str) -> None:
    """Say in the middle of an empty panel why it shows nothing, without numbers on its axis of values."""
    spot.set_yticks([])
    spot.text(0.5, 0.5, why, transform=spot.transAxes, ha="center", va="center", color="#666666")


def whole_markers(spot: Axes) -> None:
    """Let no marker be cut off at the edge. A line without markers is an interval, or the base of bars."""
    for line in spot.lines:
        line.set_clip_on(line.get_marker() in ("", "None", "_", "|"))


def sizes_axis(axis: Any) -> None:
    """Make an axis logarithmic, with flow sizes as labels: 1 kB, 10 kB, and so on."""
    from flowloom.metrics import size

    logarithmic(axis)
    axis.set_major_formatter(lambda value, _: size(value))


def logarithmic(axis: Any) -> None:
    """Make an axis logarithmic, with plain numbers as labels: 1, 2, 5, 10 if it spans few decades, else 1, 10, 100."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    (axis.axes.set_yscale if axis.axis_name == "y" else axis.axes.set_xscale)("log")
    low, high = axis.get_view_interval()
    # Less than a decade may have none of the numbers 1, 2 and 5.
    close = high < (2000 if axis.axis_name == "y" else 300) * low  # labels side by side need more room
    axis.set_major_locator(MaxNLocator(5) if high < 5 * low else LogLocator(subs=(1, 2, 5) if close else (1,)))
    axis.set_major_formatter(lambda value, _: f"{value:,.10f}".rstrip("0").rstrip("."))
    axis.set_minor_formatter(NullFormatter())


def from_one(axis: Any, top: float, least: float = 1.0) -> None:
    """Start an axis of slowdowns at 1, or below the least value, and make it logarithmic if it exceeds `LINEAR_MAX`."""
    limits = axis.axes.set_ylim if axis.axis_name == "y" else axis.axes.set_xlim
    top = max(top, 1.1)  # without flows, or if none waits, there is nothing above 1
    low = min(least, 1.0)
    if top <= LINEAR_MAX:
        limits(low - 0.03 * (top - low), top)
        return
    limits(0.95 * low, 1.1 * top)
    logarithmic(axis)


def percent(axis: Any, name: str) -> None:
    """Write the numbers of a metric's axis in percent, if tables do so."""
    from flowloom.metrics import METRICS

    if name in METRICS and METRICS[name].digits.endswith("%"):
        in_percent(axis)


def in_percent(axis: Any) -> None:
    """Write the numbers of an axis in percent."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.6g} %")


PICTURES = (".png", ".svg")
"""The suffixes of the files that `save` writes."""


def save(drawing: Canvas, stem: Any, suffixes: Sequence[str] = PICTURES) -> list[Any]:
    """Write a PNG and an SVG file, or one of them; their bytes do not depend on the date."""
    from pathlib import Path

    from flowloom import storage

    fit(drawing)
    pictures = [Path(f"{stem}{suffix}") for suffix in suffixes]
    options: dict[str, dict[str, Any]] = {
        ".png": {"dpi": 150, "metadata": {"Software": "Flowloom"}},
        ".svg": {"metadata": {"Date": None, "Creator": "Flowloom"}},
    }
    for picture, suffix in zip(pictures, suffixes, strict=True):
        with storage.whole_file(picture) as fresh:
            drawing.savefig(fresh, **options[suffix])
    return pictures


def fit(drawing: Canvas) -> None:
    """Break titles and labels into lines that fit their axes, and show names with signs of mathematics as they are."""
    from matplotlib.text import Text

    for text in drawing.findobj(Text):
        text.set_parse_math(False)
    suptitle = drawing.get_suptitle()
    if suptitle:
        _break_lines(drawing._suptitle, 0.96 * drawing.bbox.width)  # type: ignore[attr-defined]
    for _ in range(2):  # labels with two lines leave less room for their neighbours
        drawing.draw_without_rendering()
        broken = [_fit_axes(spot) for spot in drawing.axes]
        if not any(broken):
            return


def _fit_axes(spot: Axes) -> bool:
    """Break the title and labels of one set of axes; return whether any was too long."""
    place = spot.get_window_extent()
    broken = [
        _break_lines(spot.title, place.width),
        _break_lines(spot.xaxis.label, place.width),
        _break_lines(spot.yaxis.label, place.height),
    ]
    ticks, every = spot.get_xticks(), spot.get_xticklabels()
    labels = [label for label in every if label.get_text()]
    if _collide(labels) and _only_powers(spot):
        return True
    if _collide(labels):
        lines = [_break_lines(label, 0.95 * place.width / len(labels)) for label in labels]
        if _collide(labels):
            for label in labels:
                label.set(text=" ".join(label.get_text().split()), rotation=30, ha="right", rotation_mode="anchor")
        elif any(lines):
            # The axis writes its labels again whenever it is asked for them.
            spot.set_xticks(ticks, [label.get_text() for label in every])
        broken += lines
    return any(broken)


def _only_powers(spot: Axes) -> bool:
    """Leave all labels but powers of ten out of a logarithmic axis of x; return whether it had others, and keeps some."""
    from matplotlib.ticker import LogLocator

    if not isinstance(spot.xaxis.get_major_locator(), LogLocator):
        return False
    low, high = spot.get_xlim()
    shown = [tick for tick in spot.get_xticks() if low <= tick <= high]
    powers = [tick for tick in shown if math.log10(tick).is_integer()]
    if len(powers) < 2 or len(powers) == len(shown):
        return False
    spot.xaxis.set_major_locator(LogLocator())
    return True


def _collide(labels: list[Text]) -> bool:
    boxes = sorted((label.get_window_extent() for label in labels if label.get_visible()), key=lambda box: box.x0)
    return any(left.x1 + 2 > right.x0 for left, right in itertools.pairwise(boxes))


def _break_lines(text: Text, room: float) -> bool:
    """Break a text at spaces so that no line is longer than `room` pixels. A longer word is not broken.

    Returns:
        Whether the text was too long.
    """
    words = text.get_text().split()

    def long() -> bool:
        box = text.get_window_extent()
        return bool((box.height if text.get_rotation() == 90 else box.width) > room)

    if not words or not long():
        return False
    lines = [words[0]]
    for word in words[1:]:
        text.set_text(f"{lines[-1]} {word}")
        if long():
            lines.append(word)
        else:
            lines[-1] = text.get_text()
    text.set_text("\n".join(lines))
    return True
