"""Draws a few flows one by one: when each is open, or how long each takes under several variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom import metrics
from flowloom.plots import bars, over, style
from flowloom.plots.comparison import SLOWDOWN, Scheme, known, measures
from flowloom.results import Results
from flowloom.stats import averaged, estimate

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

FEW = 30
"""Up to this many flows are drawn one by one."""
_BARS_MAX = 150
"""The maximum number of bars in a panel. More are too thin."""
_NUMBER = 0.06
"""The room for what is written after a bar, as a share of the time axis. If a deadline is in it, the text is after that."""
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def chart(result: Results, title: str) -> Canvas:
    """Draw a Gantt chart of a run with few flows: a bar for each flow from its start to its end, with its slowdown.

    The first part of a bar is as long as the flow takes alone in the network. The bar of an unfinished flow ends with the run.

    Args:
        result: The run.
        title: The name of the run.
    """
    flows = result.flows.to_pylist()
    drawing = style.canvas(10, 1.6 + 0.26 * max(len(flows), 3))
    spot = drawing.subplots()
    ends = [flow[name] for flow in flows for name in ("finish", "deadline") if flow[name] is not None]
    unfinished = any(flow["finish"] is None for flow in flows)
    end = max([*ends, result.summary["sim_s"]] if unfinished or not ends else ends) or _TIMES[-1][0]  # 0 without any flow
    scale, unit = next(((each, name) for each, name in _TIMES if end >= each), _TIMES[-1])
    look = style.transport(result.summary["transport"])
    handles: dict[str, Any] = {}
    for row, flow in enumerate(flows):
        for label, handle in _bar(spot, row, flow, end, scale, look).items():
            handles.setdefault(label, handle)
    spot.set_yticks(range(len(flows)), [_name(flow) for flow in flows])
    spot.set_ylim(max(len(flows), 1) - 0.5, -0.5)
    room = 1.16 if unfinished else 1.08  # for what is written after the last bar
    spot.set_xlim(-0.005 * end / scale, room * end / scale)
    spot.set(xlabel=f"Time ({unit})", ylabel="Flow, its hosts, and its size")
    spot.grid(axis="y", visible=False)
    if not flows:
        style.nothing(spot, "no flow has started")
    style.heading(drawing, f"{title}: flows from start to end, with their slowdowns")
    style.legend(drawing, handles)
    return drawing


def _bar(spot: Axes, row: int, flow: dict[str, Any], end: float, scale: float, look: style.Look) -> dict[str, Any]:
    """Draw the bar of a flow; return the handles for a legend."""
    from matplotlib.colors import to_rgb

    handles: dict[str, Any] = {}
    # The edge keeps a short bar visible.
    edge: dict[str, Any] = {"edgecolor": look.color, "linewidth": 0.8}
    pale = [1 - 0.35 * (1 - part) for part in to_rgb(look.color)]
    optimum = flow["optimum"]
    if flow["finish"] is None:
        begin, length, text = flow["start"], end - flow["start"], "aborted" if flow["aborted"] else "not finished"
        (handles["not finished"],) = spot.barh(row, length / scale, 0.7, begin / scale, color="white", hatch="///", **edge)
    else:
        # The time of a request, metrics.request_delay, lies before the start.
        length = flow["slowdown"] * optimum
        begin, text = flow["finish"] - length, metrics.significant(flow["slowdown"], 3)
        alone = min(optimum, length)
        (handles["as long as alone in the network"],) = spot.barh(
            row, alone / scale, 0.7, begin / scale, facecolor=look.color, **edge
        )
        (handles["waiting, losses and start-up"],) = spot.barh(
            row, (length - alone) / scale, 0.7, (begin + alone) / scale, color=pale
        )
    last = begin + length
    if (deadline := flow["deadline"]) is not None:
        (handles["deadline"],) = spot.plot([deadline / scale], [row], "|", color=style.VERMILLION, ms=14, mew=2)
        if last < deadline < last + _NUMBER * end:
            last = deadline
    spot.annotate(text, (last / scale, row), (4, 0), textcoords="offset points", va="center", fontsize=8)
    return handles


def _name(flow: dict[str, Any]) -> str:
    return f"{flow['id']}: {flow['src']} → {flow['dst']}, {metrics.size(flow['bytes'])}"


class Group(NamedTuple):
    """A flow that all schemes have."""

    label: str
    rows: list[tuple[int, int]]
    """Where it is: the number of a run among its scheme's, and its row in this run."""


def groups(schemes: Sequence[Scheme]) -> list[Group]:
    """Return the flows of a comparison one by one; none if they are many, or if those of the schemes are not alike.

    A flow that is the same for all seeds is one group. Otherwise each seed has groups of its own.
    """
    if any(run.flows.num_rows > FEW for scheme in schemes for run in scheme.runs):
        return []
    # Of another tool's flows, only the sizes are known.
    bare = any("src" not in run.flows.column_names for scheme in schemes for run in scheme.runs)
    names = [[_names(run.flows, bare) for run in scheme.runs] for scheme in schemes]
    if not names or any(runs != names[0] for runs in names):
        return []
    first, *others = names[0]
    if all(other == first for other in others):
        found = [Group(label, [(run, row) for run in range(len(names[0]))]) for row, label in enumerate(first)]
    else:
        found = [
            Group(f"seed {schemes[0].runs[run].summary['seed']}, {label}", [(run, row)])
            for run, labels in enumerate(names[0])
            for row, label in enumerate(labels)
        ]
    return found if len(found) <= FEW and len(found) * len(schemes) <= _BARS_MAX else []


def _names(flows: pa.Table, bare: bool) -> list[str]:
    rows = flows.to_pylist()
    return [f"{row}: {metrics.size(flow['bytes'])}" if bare else _name(flow) for row, flow in enumerate(rows)]


def draw(schemes: Sequence[Scheme], found: Sequence[Group], title: str) -> Canvas:
    """Draw the completion time and the slowdown of each flow under each scheme.

    Args:
        schemes: What is compared.
        found: The flows, from `groups`.
        title: The name of the scenario.
    """
    shown = measures(schemes)[::-1]
    labels = [group.label for group in found]
    beside = len([scheme for scheme in schemes if not scheme.look.bound])
    drawing = style.canvas(10, 1.4 + max(len(found) * max(0.3, 0.14 * beside), 1.2))
    spots = drawing.subplots(1, len(shown), squeeze=False, sharey=True)
    handles: dict[str, Any] = {}
    for spot, measure in zip(spots.flat, shown, strict=True):
        members = [_member(scheme, found, measure) for scheme in schemes]
        style.join(handles, over.rows(spot, labels, metrics.label(measure), members, slowdowns=measure == SLOWDOWN))
    style.heading(drawing, f"{title}: each flow")
    style.legend(drawing, handles, averaged([len(group.rows) for group in found]))
    return drawing


def _member(scheme: Scheme, found: Sequence[Group], measure: str) -> bars.Member:
    values = [each for run in scheme.runs if (each := known(run.flows, measure)) is not None]
    estimates = [estimate([float(values[run][row]) for run, row in group.rows]) for group in found]
    return bars.Member(scheme.look, [e.mean for e in estimates], [e.half_width or 0.0 for e in estimates])
