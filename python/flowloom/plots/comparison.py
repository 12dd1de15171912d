"""Draws comparisons: slowdown by flow size, and its distribution; or completion times, where a slowdown is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom import metrics
from flowloom._native import ScenarioError
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

    Raises:
        ScenarioError: Other tools' flows have neither slowdowns nor completion times that are known of all.
    """
    measure = _measure(schemes)
    drawing = style.canvas(10, 4.4)
    left, right = drawing.subplots(1, 2)
    handles: dict[str, Any] = {}
    for look, runs in schemes:
        size, values = _finished(runs, measure)
        if len(size):
            (handles[look.label],) = _by_size(left, size, values, look)
            _distribution(right, values, look)
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


def _measure(schemes: Sequence[Scheme]) -> str:
    """Return what is known of all: slowdowns or, if another tool does not give them, completion times."""
    lacking = {}
    for measure in (SLOWDOWN, FCT):
        lacks = [scheme.look.label for scheme in schemes if not all(_has(run.flows, measure) for run in scheme.runs)]
        if not lacks:
            return measure
        lacking[measure] = lacks[0]
    raise ScenarioError(
        f"{lacking[SLOWDOWN]} has no slowdowns, and {lacking[FCT]} has no completion times; give both a column that they share"
    )


def _has(flows: pa.Table, measure: str) -> bool:
    return measure in flows.column_names or (measure == FCT and "optimum" in flows.column_names)


def _finished(runs: Sequence[Results], measure: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sizes of all flows that finished, and a measure of each."""
    import numpy as np

    sizes, values = [], []
    for flows in (run.flows for run in runs):
        if measure in flows.column_names:
            found = flows[measure].to_numpy().astype(float)
        else:  # a flow table has no completion times, but what gives them
            found = flows["slowdown"].to_numpy().astype(float) * flows["optimum"].to_numpy() * 1e6
        done = ~np.isnan(found)
        sizes.append(flows["bytes"].to_numpy().astype(float)[done])
        values.append(found[done])
    return np.concatenate(sizes), np.concatenate(values)


def _by_size(spot: Axes, size: NDArray[np.float64], values: NDArray[np.float64], look: style.Look) -> list[Any]:
    import numpy as np

    # Three bins per decade show where a scheme's behaviour changes, and still average over many flows.
    place = np.round(np.log10(np.maximum(size, 1)) * 3).astype(int)
    bins = np.unique(place)
    means = [values[place == b].mean() for b in bins]
    at = [np.exp(np.log(np.maximum(size[place == b], 1)).mean()) for b in bins]
    return list(spot.plot(at, means, **look.pen))


def _distribution(spot: Axes, values: NDArray[np.float64], look: style.Look) -> None:
    import numpy as np

    n = len(values)
    # A few hundred points, evenly spaced on the logarithmic axis, look the same as all points and keep the SVG small.
    worse = np.unique(np.geomspace(1, n, 400).astype(int))
    style.line(spot, np.sort(values)[n - worse], worse / n, look)
