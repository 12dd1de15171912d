"""Draws comparisons: slowdown by flow size, and its distribution; or completion times, where a slowdown is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom import metrics
from flowloom.overlays import Points, Y
from flowloom.plots import style
from flowloom.results import Results

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
    drawing = style.canvas(10, 4.4)
    left, right = drawing.subplots(1, 2)
    handles: dict[str, Any] = {}
    for look, runs in schemes:
        size, values = _finished(runs, measure)
        if len(size):
            _by_size(left, size, values, look)
            handles[look.label] = _distribution(right, values, look)
    for look, each in points:
        ys = each.y.get(METRICS[measure], each.y.get(Y, []))
        if len(ys):
            (handles[look.label],) = left.plot(each.x, ys, **look.dot, zorder=4)
    style.sizes_axis(left.xaxis)
    name = metrics.METRICS[measure].label
    left.set(xlabel="Flow size", ylabel=metrics.label(METRICS[measure]), title="By flow size")
    style.logarithmic(right.yaxis)
    right.set(xlabel=name, ylabel=f"Share of flows with a larger {_WORDS[measure]}", title="Distribution")
    for axis in (left.yaxis, right.xaxis):
        low, high = axis.get_data_interval()
        if measure == SLOWDOWN:
            style.from_one(axis, axis.get_view_interval()[1], least=low)
        elif high > 5 * low:
            style.logarithmic(axis)
    style.heading(drawing, f"{title}: {_HEADINGS[measure]}")
    style.legend(drawing, handles)
    return drawing


_HEADINGS = {SLOWDOWN: "slowdown of flows; the best possible is 1", FCT: "completion times of flows"}
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


def _by_size(spot: Axes, size: NDArray[np.float64], values: NDArray[np.float64], look: style.Look) -> None:
    import numpy as np

    # Three bins per decade show where a scheme's behaviour changes, and still average over many flows.
    place = np.round(np.log10(np.maximum(size, 1)) * 3).astype(int)
    bins = np.unique(place)
    means = [values[place == b].mean() for b in bins]
    at = [np.exp(np.log(np.maximum(size[place == b], 1)).mean()) for b in bins]
    # A bound has no marker, and one point makes no line.
    alone = {"marker": "_", "ms": 14} if look.bound and len(at) == 1 else {}
    spot.plot(at, means, **look.pen | alone)


def _distribution(spot: Axes, values: NDArray[np.float64], look: style.Look) -> Any:
    """Draw the share of flows with a larger value; return the handle for a legend."""
    import numpy as np

    n = len(values)
    # A few hundred points, evenly spaced on the logarithmic axis, look the same as all points and keep the SVG small.
    worse = np.unique(np.geomspace(1, n, 400).astype(int))
    return style.line(spot, np.sort(values)[n - worse], worse / n, look)
