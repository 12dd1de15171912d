"""Other tools' results beside ours: `flowloom compare --with FILE:LABEL`.

A file is CSV or Parquet, with the names of its columns in the first row. It has either flows or points:

* Flows have `bytes` and a measure: `slowdown`, or a completion time in `fct_ns`, `fct_us`, `fct_ms` or `fct_s`, or `start` and
  `finish` in seconds. With `optimum`, the completion time alone in the network in seconds, either measure gives the other. So
  `flows.parquet` and `flows.csv` of any result can be read. Other columns are ignored. A flow without a measure is unfinished.
* Points have `x`, and `y` or the names of the metrics that are drawn, such as `slowdown.p99`. `x` is a flow size in bytes or,
  where the values of a key are compared, such a value: a quantity, or a number in the unit of the axis.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom._native import ScenarioError
from flowloom.axes import Axis, quantity
from flowloom.importing import BYTES_MAX
from flowloom.records import Records, Row
from flowloom.results import Results
from flowloom.variants import check_label
from flowloom.words import shown, suggestion

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_TIMES = {"fct_ns": 1e-3, "fct_us": 1.0, "fct_ms": 1e3, "fct_s": 1e6}
"""The columns of completion times, with their unit in µs."""
_FLOWS = "a table of flows has bytes and slowdown, fct_us, or start and finish"
_POINTS = "a table of points has x and y"
Y = "y"
"""The column of a table of points that goes into the first panel."""


class Points(NamedTuple):
    """Points of another tool."""

    x: list[float]
    """On the axis of the comparison, or in bytes."""
    y: dict[str, list[float]]
    """By the name of the metric, or by `y` for the first one that is drawn; NaN where there is no point."""


@dataclasses.dataclass(frozen=True)
class Overlay:
    """What another tool has found."""

    label: str
    path: str
    flows: pa.Table | None = None
    """A row per flow: `bytes`, and `slowdown` and `fct_us` as far as they are known; null for an unfinished flow."""
    points: Points | None = None

    def table(self) -> pa.Table:
        """Return its content as it is saved with a comparison."""
        import pyarrow as pa

        if self.points is None:
            return self.flows
        columns = {"x": self.points.x} | self.points.y
        return pa.table({name: pa.array(values, "float64") for name, values in columns.items()})

    @classmethod
    def of_table(cls, label: str, path: str, table: pa.Table) -> Overlay:
        """Return what `table` has saved."""
        if "x" not in table.column_names:
            return cls(label, path, flows=table)
        x, *ys = table.column_names
        return cls(label, path, points=Points(table[x].to_pylist(), {name: table[name].to_pylist() for name in ys}))

    def results(self, like: Mapping[str, Any]) -> Results:
        """Return its flows as a result whose summary has the numbers that follow from flows alone; the others are null.

        Args:
            like: The summary of a run, whose ranges of flow sizes are used.
        """
        import numpy as np

        assert self.flows is not None
        size = self.flows["bytes"].to_numpy()
        known = {name: self.flows[name].to_numpy() for name in self.flows.column_names[1:]}
        done = {name: known.get(name, np.full(len(size), math.nan)) for name in ("slowdown", "fct_us")}
        finished = max(int((~np.isnan(values)).sum()) for values in done.values())
        summary: dict[str, Any] = {"flows": len(size), "finished": finished, "aborted": 0}
        for name, values in done.items():
            bins = []
            for entry in like[name].get("by_size") or []:
                low, high = entry["above_bytes"], entry["up_to_bytes"]
                inside = ((size > low) | (low == 0)) & (size <= (math.inf if high is None else high))
                bins.append({"above_bytes": low, "up_to_bytes": high, "flows": int(inside.sum())} | _spread(values[inside]))
            summary[name] = _spread(values) | {"by_size": bins}
        nothing = ("nfct", "goodput_gbps", "deadlines_met", "queueing_us_mean", "wall_s")
        return Results(summary | dict.fromkeys(nothing) | {"drops": {"rate": None}}, "", {}, _flows=self.flows)


def _spread(values: NDArray[np.float64]) -> dict[str, Any]:
    """Return mean and percentiles, by nearest rank as in a run's summary."""
    import numpy as np

    known = np.sort(values[~np.isnan(values)])
    count = len(known)
    if not count:
        return {"finished": 0} | dict.fromkeys(("mean", "p50", "p95", "p99"))
    ranks = {f"p{percent}": float(known[-(-count * percent // 100) - 1]) for percent in (50, 95, 99)}
    return {"finished": count, "mean": math.fsum(known) / count} | ranks


def split(text: str) -> tuple[str, Path]:
    """Return the label and the path in `FILE:LABEL`; without a label, it is the file's name.

    Raises:
        ScenarioError: There is no name of a file, or the label is not valid.
    """
    path, colon, label = text.rpartition(":")
    if not colon or Path(text).exists():
        path, label = text, Path(text).stem
    if not path:
        raise ScenarioError(f"--with {shown(text)}: give a file and a label, such as --with other.csv:htsim")
    check_label(label)
    return label, Path(path)


def read(path: str | os.PathLike[str], label: str, axis: Axis | None = None, drawn: Sequence[str] = ()) -> Overlay:
    """Read another tool's flows or points.

    Args:
        path: The file.
        label: Its name in tables and pictures.
        axis: The axis of a comparison over the values of a key.
        drawn: The metrics that are drawn over that axis, or against the flow size.

    Raises:
        ScenarioError: The file is neither of these tables, or cannot be read. The message names file, line and column.
    """
    check_label(label)
    table = Records.read(Path(path))
    if "bytes" in table.columns:
        if axis is not None:
            raise ScenarioError(
                f"{path}: flows have no place on the axis {axis.key}; give points ({_POINTS}), or compare without --over"
            )
        return Overlay(label, str(path), flows=_flows(table))
    if "x" in table.columns:
        return Overlay(label, str(path), points=_points(table, axis, drawn))
    raise table.wrong_head(f"{_FLOWS}; {_POINTS}")


def check_shared(overlays: Sequence[Overlay]) -> None:
    """Raise ScenarioError if flows of other tools have no measure in common, so that no picture can have all of them."""
    lacking = [
        next((other for other in overlays if other.flows is not None and name not in other.flows.column_names), None)
        for name in ("slowdown", "fct_us")
    ]
    if lacking[0] and lacking[1]:
        one, other = (
            f"{each.path} has no {what}" for each, what in zip(lacking, ("slowdowns", "completion times"), strict=True) if each
        )
        raise ScenarioError(f"{one}, and {other}; give both a column that they share, or the column optimum")


def _flows(table: Records) -> pa.Table:
    import pyarrow as pa

    time = next((name for name in _TIMES if name in table.columns), "finish" if "start" in table.columns else "")
    measures = [name for name in ("slowdown", time) if name in table.columns]
    if not measures:
        raise table.wrong_head(_FLOWS)
    rows = [_flow(row, measures) for row in table.rows]
    columns = dict(zip(("bytes", "slowdown", "fct_us"), zip(*rows, strict=True), strict=True))
    # The optimum gives the other measure, where it is known.
    asked = {"slowdown": "slowdown" in measures, "fct_us": time in measures}
    known = [name for name, given in asked.items() if given or any(value is not None for value in columns[name])]
    return pa.table({name: pa.array(columns[name], "float64") for name in ("bytes", *known)})


def _flow(row: Row, measures: Sequence[str]) -> tuple[float, float | None, float | None]:
    """Return the size, the slowdown and the completion time in µs of a flow."""
    size = row.number("bytes", f"a flow size, which is 0 to {BYTES_MAX:g} bytes", BYTES_MAX)
    if size is None:
        raise ScenarioError(f"{row.place}: column bytes is empty; give the size of the flow")
    values = {name: row.number(name, "a slowdown" if name == "slowdown" else "a time") for name in measures}
    if None in values.values():
        if given := next((name for name, value in values.items() if value is not None), None):
            missing = next(name for name, value in values.items() if value is None)
            raise ScenarioError(f"{row.place}: column {missing} is empty, but {given} is not; a flow that finished has both")
        return size, None, None
    slowdown, optimum = values.get("slowdown"), row.number("optimum", "a time in s")
    if slowdown == 0:
        raise ScenarioError(f"{row.place}: column slowdown: 0 is not a slowdown, which is 1 for a flow that waits for nothing")
    fct = next((value * _TIMES[name] for name, value in values.items() if value is not None and name in _TIMES), None)
    if (finish := values.get("finish")) is not None:
        start = row.number("start", "a time in s")
        if start is None or start > finish:
            raise ScenarioError(f"{row.place}: column start must have a time that is not after finish")
        fct = (finish - start) * 1e6
    if optimum and slowdown is not None:
        fct = slowdown * optimum * 1e6  # this has metrics.request_delay, which start and finish do not have
    elif optimum and fct is not None:
        slowdown = fct / (optimum * 1e6)
    return size, slowdown, fct


def _points(table: Records, axis: Axis | None, drawn: Sequence[str]) -> Points:
    known = [Y, *drawn]
    names = [name for name in table.columns if name != "x"]
    for name in names:
        if name not in known:
            raise ScenarioError(f'{table.path}:1: no panel draws "{shown(name)}": {suggestion(name, known)}')
    if not names:
        raise table.wrong_head(_POINTS)
    if Y in names and drawn[0] in names:
        raise ScenarioError(f"{table.path}:1: {Y} and {drawn[0]} are the same panel; give one of them")
    xs = [_x(row, axis) for row in table.rows]
    return Points(xs, {name: [_y(row, name) for row in table.rows] for name in names})


def _y(row: Row, name: str) -> float:
    value = row.cell(name)
    if value is None:
        return math.nan
    found = quantity(value)
    if found is None or found.unit or not math.isfinite(found.number):
        raise ScenarioError(f'{row.place}: column {name}: "{shown(value)}" is not a number')
    return found.number


def _x(row: Row, axis: Axis | None) -> float:
    value = row.cell("x")
    if axis is None:
        found = quantity(value)
        at = None if found is None else found.into("B") if found.unit else found.number
        right = "a flow size, such as 1500 or 10kB"
        sound = at is not None and 0 < at <= BYTES_MAX
    else:
        at = axis.place(value)
        right = f"a number or a quantity, as {axis.names[0]}" if axis.at else f"one of {', '.join(axis.names)}"
        right += f", since the axis is {axis.key}"
        sound = at is not None and math.isfinite(at)
    if at is None or not sound:
        raise ScenarioError(f'{row.place}: column x: "{shown(value)}" is not {right}')
    return at
