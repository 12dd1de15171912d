"""Draws comparisons: slowdown by flow size, and its distribution; or completion times, where a slowdown is not known.

Flows of one size have their mean, side by side for all schemes, in place of a panel by flow size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom import metrics
from flowloom.axes import Axis
from flowloom.overlays import Points, Y
from flowloom.plots import bars, over, style
from flowloom.results import Results
from flowloom.stats import averaged, estimate

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from numpy.typing import NDArray

SLOWDOWN, FCT = "slowdown", "fct_us"
"""The measures of a flow."""
METRICS = {SLOWDOWN: "slowdown.mean", FCT: "fct_us.mean"}
"""What is drawn against the flow size, by measure."""


class Line(NamedTuple):
    """A line with its look."""

    look: style.Look
    xs: NDArray[np.float64]
    ys: NDArray[np.float64]


class Scheme(NamedTuple):
    """What is compared, with its look."""

    look: style.Look
    runs: Sequence[Results]
    """They differ in their seeds. The flows of all are drawn together."""


def draw(schemes: Sequence[Scheme], title: str, points: Sequence[tuple[style.Look, Points]] = ()) -> Canvas:
    """Draw the mean slowdown by flow size and the distribution of slowdowns.

    Args:
        schemes: What is compared.
        title: The name of the scenario.
        points: Other tools' mean slowdowns by flow size, with their looks.
    """
    measure = measures(schemes)[0]
    size = None if points else only_size(schemes)
    alone = size is not None and len(schemes) == 1  # so that there is nothing to compare
    drawing = style.canvas(6 if alone else 10, 4.4)
    *left, right = drawing.subplots(1, 1 if alone else 2, squeeze=False).flat
    handles: dict[str, Any] = {}
    style.join(handles, _distributions(right, schemes, measure))
    small_print = ""
    for spot in left:
        if size is None:
            style.join(handles, _by_sizes(spot, schemes, measure, points))
        else:
            members = means(schemes, measure)
            style.join(handles, _side_by_side(spot, members, measure, size))
            small_print = averaged(bars.counts(members))
    style.heading(drawing, f"{title}: {HEADINGS[measure]}")
    style.legend(drawing, handles, small_print)
    return drawing


def only_size(schemes: Sequence[Scheme]) -> float | None:
    """Return the size of all flows; None if they differ."""
    import numpy as np

    sizes = {float(size) for scheme in schemes for run in scheme.runs for size in np.unique(run.flows["bytes"].to_numpy())}
    return sizes.pop() if len(sizes) == 1 else None


def means(schemes: Sequence[Scheme], measure: str) -> list[bars.Member]:
    """Return the mean of a measure over all flows of each scheme, with its interval."""
    members = []
    for look, runs in schemes:
        found = estimate([float(values.mean()) if len(values := _finished([run], measure)[1]) else math.nan for run in runs])
        members.append(bars.Member.of(look, [found]))
    return members


def _side_by_side(spot: Axes, members: Sequence[bars.Member], measure: str, size: float) -> dict[str, Any]:
    """Draw the mean of each scheme, for flows of one size; return the handles for a legend."""
    handles = over.panel(spot, Axis.none(), metrics.label(METRICS[measure]), members, slowdowns=measure == SLOWDOWN)
    spot.set_title(f"Flows of {metrics.size(size)}")
    return handles


def _by_sizes(
    spot: Axes, schemes: Sequence[Scheme], measure: str, points: Sequence[tuple[style.Look, Points]]
) -> dict[str, Any]:
    """Draw means by flow size; return the handles for a legend."""
    handles: dict[str, Any] = {}
    for look, at, values in means_by_size(schemes, measure):
        # A bound has no marker, and one point makes no line.
        alone = {"marker": "_", "ms": 14} if look.bound and len(at) == 1 else {}
        (handles[look.label],) = spot.plot(at, values, **look.pen | alone)
    for look, each in points:
        ys = each.y.get(METRICS[measure], each.y.get(Y, []))
        if len(ys):
            (handles[look.label],) = spot.plot(each.x, ys, **look.dot, zorder=4)
    spot.set(xlabel="Flow size", ylabel=metrics.label(METRICS[measure]), title="By flow size")
    if handles:
        style.sizes_axis(spot.xaxis)
        _limit(spot.yaxis, measure)
    else:
        style.nothing(spot, _NONE)
    return handles


def _distributions(spot: Axes, schemes: Sequence[Scheme], measure: str) -> dict[str, Any]:
    """Draw which share of flows has a larger value than each; return the handles for a legend."""
    handles = {look.label: style.line(spot, xs, ys, look) for look, xs, ys in distributions(schemes, measure)}
    spot.set(xlabel=metrics.METRICS[measure].label, ylabel=share_label(measure), title="Distribution")
    if handles:
        style.logarithmic(spot.yaxis)
        _limit(spot.xaxis, measure)
    else:
        style.nothing(spot, _NONE)
    return handles


def _limit(axis: Any, measure: str) -> None:
    low, high = axis.get_data_interval()
    if measure == SLOWDOWN:
        style.from_one(axis, axis.get_view_interval()[1], least=low)
    elif high > 5 * low:
        style.logarithmic(axis)


HEADINGS = {SLOWDOWN: "slowdown of flows; the best possible is 1", FCT: "completion times of flows"}
_NONE = "no flow has finished"
_WORDS = {SLOWDOWN: "slowdown", FCT: "completion time"}


def measures(schemes: Sequence[Scheme]) -> list[str]:
    """Return which of slowdowns and completion times are known of all flows; `overlays.check_shared` sees to it that one is."""
    flows = [run.flows for scheme in schemes for run in scheme.runs]
    return [measure for measure in (SLOWDOWN, FCT) if all(known(each, measure) is not None for each in flows)]


def known(flows: pa.Table, measure: str) -> NDArray[np.float64] | None:
    """Return a measure of each flow, NaN for one that is not finished; None if it is not known of these flows."""
    import numpy as np

    if measure in flows.column_names:
        return np.asarray(flows[measure].to_numpy(), dtype=float)
    if measure == FCT and "optimum" in flows.column_names:
        # A flow table has no completion times, but what gives them.
        return np.asarray(flows["slowdown"].to_numpy() * flows["optimum"].to_numpy() * 1e6, dtype=float)
    return None


def _finished(runs: Sequence[Results], measure: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sizes of all flows that finished, and a measure of each."""
    import numpy as np

    size = np.concatenate([run.flows["bytes"].to_numpy().astype(float) for run in runs])
    values = np.concatenate([found for run in runs if (found := known(run.flows, measure)) is not None])
    done = ~np.isnan(values)
    return size[done], values[done]


def means_by_size(schemes: Sequence[Scheme], measure: str) -> list[Line]:
    """Return the mean of a measure in ranges of sizes, at the mean size of each, in bytes; without flows there is no line."""
    import numpy as np

    lines = []
    for look, runs in schemes:
        size, values = _finished(runs, measure)
        # Three bins per decade show where a scheme's behaviour changes, and still average over many flows.
        place = np.round(np.log10(np.maximum(size, 1)) * 3).astype(int)
        bins = np.unique(place)
        at = np.array([np.exp(np.log(np.maximum(size[place == b], 1)).mean()) for b in bins])
        if len(size):
            lines.append(Line(look, at, np.array([values[place == b].mean() for b in bins])))
    return lines


def distributions(schemes: Sequence[Scheme], measure: str) -> list[Line]:
    """Return the share of flows with a larger value, over the value; without flows there is no line."""
    import numpy as np

    lines = []
    for look, runs in schemes:
        _, values = _finished(runs, measure)
        if n := len(values):
            # A few hundred points, evenly spaced on the logarithmic axis, look the same as all points and keep the SVG small.
            worse = np.unique(np.geomspace(1, n, 400).astype(int))
            lines.append(Line(look, np.sort(values)[n - worse], worse / n))
    return lines


def share_label(measure: str) -> str:
    """Return the label of the shares in `distributions`."""
    return f"Share of flows with a larger {_WORDS[measure]}"
