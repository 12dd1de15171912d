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
_ROUNDING = 1e-9
"""A time this small, as a share of the time axis, is 0."""
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


ALONE, WAITING, UNFINISHED = "as long as alone in the network", "waiting, losses and start-up", "not finished"
"""The parts of a flow's bar."""


class Bar(NamedTuple):
    """The bar of a flow, in the unit of `Bars`."""

    label: str
    """Its number, its hosts and its size."""
    parts: dict[str, tuple[float, float]]
    """The begin and the length of each part."""
    text: str
    """Its slowdown, or why it has none."""
    deadline: float | None

    @property
    def end(self) -> float:
        """The end of its last part."""
        begin, length = list(self.parts.values())[-1]
        return begin + length


class Bars(NamedTuple):
    """The bars of a run."""

    rows: list[Bar]
    begin: float
    end: float
    """The ends of the axis."""
    unit: str
    unfinished: bool
    """Whether one of the flows did not finish."""


def bars_of(result: Results) -> Bars:
    """Return a bar for each flow from its start to its end. That of an unfinished flow ends with the run."""
    flows = result.flows.to_pylist()
    ends = [flow[name] for flow in flows for name in ("finish", "deadline") if flow[name] is not None]
    unfinished = any(flow["finish"] is None for flow in flows)
    end = max([*ends, result.summary["sim_s"]] if unfinished or not ends else ends) or _TIMES[-1][0]  # 0 without any flow
    scale, unit = next(((each, name) for each, name in _TIMES if end >= each), _TIMES[-1])
    rows = [_bar_of(flow, result.summary["sim_s"], scale) for flow in flows]
    # The time of a request lies before the start of its flow.
    least = min((begin for bar in rows for begin, _ in bar.parts.values()), default=0.0)
    # What is a little less than 0 comes from rounding.
    begin = least if least < -_ROUNDING * end / scale else 0.0
    return Bars(rows, begin, end / scale, unit, unfinished)


def _bar_of(flow: dict[str, Any], end: float, scale: float) -> Bar:
    deadline = None if flow["deadline"] is None else flow["deadline"] / scale
    if flow["finish"] is None:
        parts = {UNFINISHED: (flow["start"] / scale, (end - flow["start"]) / scale)}
        return Bar(_name(flow), parts, "aborted" if flow["aborted"] else UNFINISHED, deadline)
    # It has the time of its request, metrics.request_delay.
    length = flow["slowdown"] * flow["optimum"]
    begin, alone = flow["finish"] - length, min(flow["optimum"], length)
    parts = {ALONE: (begin / scale, alone / scale), WAITING: ((begin + alone) / scale, (length - alone) / scale)}
    return Bar(_name(flow), parts, metrics.significant(flow["slowdown"], 3), deadline)


def chart(result: Results, title: str) -> Canvas:
    """Draw a Gantt chart of a run with few flows: a bar for each flow from its start to its end, with its slowdown.

    The first part of a bar is as long as the flow takes alone in the network. The bar of an unfinished flow ends with the run.

    Args:
        result: The run.
        title: The name of the run.
    """
    rows, begin, end, unit, unfinished = bars_of(result)
    drawing = style.canvas(10, 1.6 + 0.26 * max(len(rows), 3))
    spot = drawing.subplots()
    look = style.transport(result.summary["transport"])
    handles: dict[str, Any] = {}
    for row, bar in enumerate(rows):
        for label, handle in _draw_bar(spot, row, bar, end, look).items():
            handles.setdefault(label, handle)
    spot.set_yticks(range(len(rows)), [bar.label for bar in rows])
    spot.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    room = 1.16 if unfinished else 1.08  # for what is written after the last bar
    spot.set_xlim(begin - 0.005 * end, room * end)
    spot.set(xlabel=f"Time ({unit})", ylabel="Flow, its hosts, and its size")
    spot.grid(axis="y", visible=False)
    if not rows:
        style.nothing(spot, "no flow has started")
    style.heading(drawing, f"{title}: flows from start to end, with their slowdowns")
    style.legend(drawing, handles)
    return drawing


def _draw_bar(spot: Axes, row: int, bar: Bar, end: float, look: style.Look) -> dict[str, Any]:
    """Draw the bar of a flow; return the handles for a legend."""
    from matplotlib.colors import to_rgb

    handles: dict[str, Any] = {}
    # The edge keeps a short bar visible.
    edge: dict[str, Any] = {"edgecolor": look.color, "linewidth": 0.8}
    faces: dict[str, dict[str, Any]] = {
        ALONE: {"facecolor": look.color, **edge},
        WAITING: {"color": [1 - 0.35 * (1 - part) for part in to_rgb(look.color)]},
        UNFINISHED: {"color": "white", "hatch": "///", **edge},
    }
    for name, (begin, length) in bar.parts.items():
        (handles[name],) = spot.barh(row, length, 0.7, begin, **faces[name])
    last = bar.end
    if bar.deadline is not None:
        (handles["deadline"],) = spot.plot([bar.deadline], [row], "|", color=style.VERMILLION, ms=14, mew=2)
        if last < bar.deadline < last + _NUMBER * end:
            last = bar.deadline
    spot.annotate(bar.text, (last, row), (4, 0), textcoords="offset points", va="center", fontsize=8)
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
    drawn: list[bars.Member] = []
    for spot, measure in zip(spots.flat, shown, strict=True):
        members = [member(scheme, found, measure) for scheme in schemes]
        drawn += members
        style.join(handles, over.rows(spot, labels, metrics.label(measure), members, slowdowns=measure == SLOWDOWN))
    style.heading(drawing, f"{title}: each flow")
    style.legend(drawing, handles, averaged(bars.counts(drawn)))
    return drawing


def member(scheme: Scheme, found: Sequence[Group], measure: str) -> bars.Member:
    """Return a measure of each flow under a scheme, with its interval."""
    values = [each for run in scheme.runs if (each := known(run.flows, measure)) is not None]
    estimates = [estimate([float(values[run][row]) for run, row in group.rows]) for group in found]
    return bars.Member.of(scheme.look, estimates)
