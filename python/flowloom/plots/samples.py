"""Draws samples of queues, links, flows and hosts over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flowloom._native import ScenarioError
from flowloom.plots import style
from flowloom.series import instants
from flowloom.summary import RESTING
from flowloom.words import shown, suggestion

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from numpy.typing import NDArray

POINTS = 150
"""Rates are averaged over this many parts of the time that is drawn."""
_MEANS = ("utilisation", "goodput_gbps")
MOST = 8
"""At most this many links, flows or hosts are drawn: those with the most of what `Kind.weight` counts."""


class Kind(NamedTuple):
    """How samples of one kind are drawn."""

    key: str
    """The column that says what a sample is of."""
    weight: str
    """The column whose integral over time says what is drawn first."""
    panels: tuple[str, ...]
    """The columns that are drawn, if they have values above zero. Of flows, the gauges follow."""


KINDS = {
    "queues": Kind("link", "mean_bytes", ("bytes", "packets")),
    "links": Kind("link", "bytes", ("utilisation", "drops", "marks", "trims", "paused")),
    "flows": Kind("flow", "goodput_gbps", ("goodput_gbps",)),
    "hosts": Kind("host", "goodput_gbps", ("goodput_gbps", "sending", "receiving", "waiting_bytes")),
}
_BASE = ("time", "span", "flow", "sent_bytes", "delivered_bytes", "goodput_gbps")
_TITLES = {
    "bytes": "Queue (kB)", "packets": "Queue (packets)", "utilisation": "Utilisation (%)", "drops": "Dropped packets",
    "marks": "Marked packets", "trims": "Trimmed packets", "paused": "Paused (µs)", "goodput_gbps": "Goodput (Gb/s)",
    "sending": "Flows that it sends", "receiving": "Flows that it receives", "waiting_bytes": "Waiting at the source (kB)",
    "sent_bytes": "Sent (kB)", "delivered_bytes": "Delivered (kB)", "window_bytes": "Window (kB)",
    "in_flight_bytes": "In flight (kB)", "rate_gbps": "Rate (Gb/s)", "rtt_us": "RTT (µs)", "marked_share": "Marked share (%)",
    "priority": "Priority", "tokens": "Tokens held", "tokens_unanswered": "Tokens unanswered", "queue": "Queue number",
    "reference_gbps": "Reference rate (Gb/s)", "credit_gbps": "Credit rate (Gb/s)", "level": "Level of tokens",
}  # fmt: skip


class Shown(NamedTuple):
    """One run's samples."""

    title: str
    series: Mapping[str, pa.Table]


class Line(NamedTuple):
    """The samples of one link, flow or host: times in the unit of `Arranged`, and values in that of their panel."""

    key: str
    look: style.Look
    at: NDArray[Any]
    values: NDArray[Any]


class Panel(NamedTuple):
    """One quantity in all runs."""

    title: str
    """Its name with its unit."""
    columns: list[list[Line]]
    """Its lines, for each run."""


class Arranged(NamedTuple):
    """What is shown of samples."""

    panels: list[Panel]
    unit: str
    """The unit of times."""


def arranged(runs: Sequence[Shown], wanted: Sequence[str]) -> Arranged:
    """Return what is shown of the samples of some runs.

    Args:
        runs: The samples.
        wanted: What is shown: one of KINDS for all of its quantities, or one with a column, such as `flows.window_bytes`.

    Raises:
        ScenarioError: A series has no such column.
    """
    tables = {name: [run.series[name] for run in runs if name in run.series] for name in map(_kind_of, wanted)}
    panels = list(dict.fromkeys(panel for each in wanted for panel in _panels(each, tables[_kind_of(each)])))
    keys = {name: _busiest(KINDS[name], found) for name, found in tables.items()}
    every = [(name, key) for name, found in keys.items() for key in found]
    looks = {each: style.numbered(number, len(every), str(each[1])) for number, each in enumerate(every)}
    filled = [table for found in tables.values() for table in found if table.num_rows]
    ends = [(table["time"].to_numpy(), table["span"].to_numpy()) for table in filled]
    first = min((np.min(time - span) for time, span in ends), default=0.0)
    last = max((np.max(time) for time, _ in ends), default=0.0)
    edges = np.linspace(first, last, POINTS + 1)
    scale, unit = _time_unit(last)
    samples = [{each: _line(each[0], run.series[each[0]], each[1]) for each in every if each[0] in run.series} for run in runs]

    def lines(name: str, panel: str, found: dict[Any, tuple[NDArray[Any], dict[str, NDArray[Any]]]]) -> list[Line]:
        shown = []
        for each, (time, values) in found.items():
            if each[0] == name and len(time) and panel in values and not np.isnan(values[panel]).all():
                at, drawn = _averaged(time, values["span"], values[panel], edges) if panel in _MEANS else (time, values[panel])
                label = f"flow {each[1]}" if name == "flows" else str(each[1])
                shown.append(Line(label, looks[each], at * scale, drawn))
        return shown

    def title(panel: str) -> str:
        return _TITLES.get(panel, panel.replace("_", " ").capitalize())

    return Arranged([Panel(title(panel), [lines(name, panel, found) for found in samples]) for name, panel in panels], unit)


def draw(runs: Sequence[Shown], wanted: Sequence[str], title: str) -> Canvas:
    """Draw samples: a row of panels for each quantity, a column for each run, and a line for each link, flow or host.

    Args:
        runs: The samples.
        wanted: What is drawn; see `arranged`.
        title: The name of the scenario.

    Raises:
        ScenarioError: A series has no such column.
    """
    panels, unit = arranged(runs, wanted)
    drawing = style.canvas(max(3.8 * len(runs), 7), 2.2 * len(panels) + 1.2)
    spots = drawing.subplots(len(panels), len(runs), squeeze=False, sharex=True, sharey="row")
    handles: dict[str, Any] = {}
    for column, run in enumerate(runs):
        for row, panel in enumerate(panels):
            spot: Axes = spots[row, column]
            for key, look, at, values in panel.columns[column]:
                (handle,) = spot.plot(at, values, color=look.color, linewidth=1.2)
                handles.setdefault(key, handle)
            if column == 0:
                spot.set_ylabel(panel.title)
            if not spot.lines:
                spot.text(0.5, 0.5, "none", transform=spot.transAxes, ha="center", va="center", color="#888888")
        if len(runs) > 1:
            spots[0, column].set_title(run.title)
        spots[-1, column].set_xlabel(f"Time ({unit})")
    # The panels of a row have one scale.
    for row in spots:
        row[0].set_ylim(bottom=0)
    style.heading(drawing, f"{title}: {', '.join(dict.fromkeys(map(_kind_of, wanted)))}")
    style.legend(drawing, handles)
    return drawing


def _averaged(
    time: NDArray[Any], span: NDArray[Any], values: NDArray[Any], edges: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Average between edges, where there are samples: those that are some packets' time apart count some whole packets."""
    ends = np.maximum.accumulate(np.column_stack([time - span, time]).ravel())

    def between(amounts: NDArray[Any]) -> NDArray[Any]:
        """Sum between edges what samples have, each spread over its span."""
        sums = np.cumsum(np.column_stack([np.zeros(len(time)), amounts]).ravel())
        return np.diff(np.interp(edges, ends, sums))

    spans, sums = between(span), between(np.where(np.isnan(values), 0.0, values) * span)
    some = spans > min(1e-6 * (edges[1] - edges[0]), span.min() / 4)  # what is less is rounding
    return edges[1:][some], sums[some] / spans[some]


def _kind_of(wanted: str) -> str:
    return wanted.partition(".")[0]


def _panels(wanted: str, tables: Sequence[pa.Table]) -> list[tuple[str, str]]:
    """Return the series and the column of each row of panels."""
    name, _, column = wanted.partition(".")
    if column:
        known = dict.fromkeys(each for table in tables for each in table.column_names)
        if column not in known or column == KINDS[name].key:
            choices = [each for each in known if each not in ("time", "span", KINDS[name].key)]
            raise ScenarioError(f'the series "{name}" has no column "{shown(column)}"; {suggestion(column, choices)}')
        return [(name, column)]
    names = list(KINDS[name].panels)
    if name == "flows":
        names += dict.fromkeys(name for table in tables for name in table.column_names if name not in _BASE)
    told = [name for name in names if any(name in table.column_names and _above_zero(table[name]) for table in tables)]
    return [(name, each) for each in told or names[:1]]


def _above_zero(column: pa.ChunkedArray) -> bool:
    values = column.to_numpy().astype(float)
    return bool(np.any(values[~np.isnan(values)] > 0))


def _busiest(kind: Kind, tables: Sequence[pa.Table]) -> list[Any]:
    """Return what is drawn, in its own order."""
    weights: dict[Any, float] = {}
    for table in tables:
        amounts = table[kind.weight].to_numpy().astype(float) * (table["span"].to_numpy() if kind.weight != "bytes" else 1.0)
        keys = table[kind.key].to_pylist()
        for key, amount in zip(keys, amounts, strict=True):
            weights[key] = weights.get(key, 0.0) + (0.0 if np.isnan(amount) else amount)
    most = sorted(weights, key=lambda key: -weights[key])[:MOST]
    return [key for key in weights if key in most] if kind.key != "flow" else sorted(most)


def _line(name: str, table: pa.Table, key: Any) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Return the times of one link, flow or host, and its values."""
    import pyarrow.compute as pc

    kind = KINDS[name]
    own = table.filter(pc.equal(table[kind.key].cast("string"), str(key)))
    time = own["time"].to_numpy()
    values = {name: _scaled(name, own[name].to_numpy().astype(float)) for name in table.column_names if name != kind.key}
    if name not in RESTING or not len(time):
        return time, values
    every, spans = instants(table["time"].to_numpy(), table["span"].to_numpy())
    places = np.searchsorted(every, time)
    whole = {name: np.zeros(len(every)) for name in values}
    for name, found in values.items():
        whole[name][places] = found
    return every, whole | {"span": spans}


def _scaled(name: str, values: NDArray[Any]) -> NDArray[Any]:
    title = _TITLES.get(name, "")
    return values * (1e-3 if "(kB)" in title else 100.0 if "(%)" in title else 1e6 if name == "paused" else 1.0)


def _time_unit(most: float) -> tuple[float, str]:
    return (1e6, "µs") if most < 2e-3 else (1e3, "ms") if most < 2 else (1.0, "s")
