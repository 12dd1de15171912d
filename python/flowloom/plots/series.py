"""Draws the series that runs have recorded over their course."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flowloom._native import ScenarioError
from flowloom.plots import samples, style
from flowloom.plots.comparison import Scheme
from flowloom.words import shown, suggestion

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure as Canvas

_UNITS = {"s": "s", "ms": "ms", "us": "µs", "ns": "ns", "bytes": "B", "kb": "kB", "gbps": "Gb/s", "packets": "packets"}
"""The last parts of names that are units."""


def draw(schemes: Sequence[Scheme], name: str, title: str) -> Canvas:
    """Draw a series of each scheme, one panel for each column over the first one. All seeds are drawn; of samples, the first.

    Args:
        schemes: The runs, with their looks.
        name: The name of the series. Of samples, it may be several, separated by commas, each with or without a column:
            `flows.window_bytes,queues`.
        title: The name of the scenario.

    Raises:
        ScenarioError: No run has recorded such a series, or it has no such column.
    """
    recorded = names(schemes)
    wanted = [part.strip() for part in name.split(",")]
    for each in wanted:
        kind = each.partition(".")[0]
        if kind not in recorded:
            what = suggestion(kind, recorded) if recorded else "the runs have recorded none; [observe] selects them"
            raise ScenarioError(f'there is no series "{shown(kind)}": {what}')
        if kind not in samples.KINDS and name != kind:
            raise ScenarioError(f'the series "{shown(kind)}" is drawn alone and whole; give its name and nothing else')
    if wanted[0].partition(".")[0] in samples.KINDS:
        return samples.draw(sampled(schemes), wanted, title)
    having = tables(schemes, name)
    if name == "steps":
        return _steps(having, title)
    x, *ys = having[0][1].column_names
    drawing = style.canvas(7, 3.2 * len(ys) + 1)
    handles: dict[str, Any] = {}
    for spot, y in zip(drawing.subplots(len(ys), 1, squeeze=False).flat, ys, strict=True):
        for look, table in having:
            handles[look.label] = style.line(spot, table[x].to_numpy(), table[y].to_numpy(), look, linewidth=1.2)
        spot.set(xlabel=label(x), ylabel=label(y))
        for axis, column in ((spot.xaxis, x), (spot.yaxis, y)):
            if column.endswith("_share"):
                style.in_percent(axis)
        if spot.dataLim.y0 >= 0:
            spot.set_ylim(bottom=0)
        style.whole_markers(spot)
    style.heading(drawing, f"{title}: {name}")
    style.legend(drawing, handles)
    return drawing


def _steps(having: Sequence[tuple[style.Look, pa.Table]], title: str) -> Canvas:
    """Draw how long the slowest flow of each step takes, over the step's start, with a panel for each job."""
    jobs = sorted({job for _, table in having for job in table["job"].to_pylist()})
    drawing = style.canvas(7, 3.2 * len(jobs) + 1)
    handles: dict[str, Any] = {}
    for spot, job in zip(drawing.subplots(len(jobs), 1, squeeze=False).flat, jobs, strict=True):
        for look, table in having:
            of_job = table["job"].to_numpy() == job
            start, slowest = (table[column].to_numpy()[of_job] * 1e3 for column in ("start", "slowest_fct"))
            handles[look.label] = style.line(spot, start, slowest, look, linewidth=1.2)
        spot.set(xlabel="Start of the step (ms)", ylabel="Its slowest flow (ms)", title=f"job {job}" if len(jobs) > 1 else "")
        spot.set_ylim(bottom=0)
    style.heading(drawing, f"{title}: steps")
    style.legend(drawing, handles)
    return drawing


def names(schemes: Sequence[Scheme]) -> list[str]:
    """Return the names of the series that some of the runs have recorded."""
    return list(dict.fromkeys(name for _, runs in schemes for run in runs for name in run.series))


def tables(schemes: Sequence[Scheme], name: str) -> list[tuple[style.Look, pa.Table]]:
    """Return a series of all runs that have it."""
    return [(look, run.series[name]) for look, runs in schemes for run in runs if name in run.series]


def sampled(schemes: Sequence[Scheme]) -> list[samples.Shown]:
    """Return the samples of each scheme. Seeds look alike, so the first one is shown."""
    return [samples.Shown(look.label, runs[0].series) for look, runs in schemes if runs[0].series]


def label(column: str) -> str:
    """Return the label of a column, with its unit: `queue_bytes` is `Queue (B)`."""
    words, _, unit = column.rpartition("_")
    if unit in _UNITS and words:
        return f"{words.replace('_', ' ').capitalize()} ({_UNITS[unit]})"
    return column.replace("_", " ").capitalize()
