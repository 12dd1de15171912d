"""Flow sizes from other tools: cumulative tables, logs of flows, histograms.

The result is a cumulative distribution in the form of `data/workloads`: rows `bytes,cumulative_probability`,
ascending, linear between points, ending at 1.
"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import NamedTuple

from flowloom._native import ScenarioError
from flowloom.importing import logs
from flowloom.importing.parts import BYTES_MAX, Sizes
from flowloom.importing.source import Source, is_number, opened
from flowloom.words import shown, suggestion

_PACKET_BYTES = 1460.0
_POINTS_MAX = 1_000_000
"""The most points of a distribution."""


@dataclasses.dataclass(frozen=True)
class Dialect:
    """The format of a table: its number of columns, the unit of sizes, and the value that stands for all flows."""

    columns: int
    unit_bytes: float
    whole: float


DIALECTS = {
    "bytes_probability": Dialect(2, 1.0, 1.0),
    "bytes_percent": Dialect(2, 1.0, 100.0),
    "packets_probability": Dialect(2, _PACKET_BYTES, 1.0),
    "ns2_bytes": Dialect(3, 1.0, 1.0),
    "ns2_packets": Dialect(3, _PACKET_BYTES, 1.0),
}
_WHOLES = {dialect.whole for dialect in DIALECTS.values()}
FLOWS, HISTOGRAM = "flows", "histogram"
"""Dialects that are not cumulative tables; see `read`."""

_BY_COLUMN_NAMES: dict[tuple[str, ...], str] = {
    ("bytes", "cumulative_probability"): "bytes_probability",
    ("bytes", "cumulative_percent"): "bytes_percent",
    ("packets", "cumulative_probability"): "packets_probability",
    ("bytes", "count"): HISTOGRAM,
}

_Row = tuple[int, list[float]]
"""The number of a line, and its numbers."""


class Table(NamedTuple):
    """A distribution of flow sizes from a file."""

    points: list[tuple[float, float]]
    """(bytes, cumulative probability). Neither decreases from point to point, and the last probability is 1."""
    dialect: str

    @property
    def mean(self) -> float:
        """The mean of a table that is linear between its points; the first point's share has exactly its size."""
        mean = self.points[0][0] * self.points[0][1]
        for (a, p), (b, q) in itertools.pairwise(self.points):
            mean += (a + b) / 2 * (q - p)
        return mean


def read(table: Path, dialect: str | None, option: str = "--as") -> Table:
    """Read a distribution of flow sizes.

    Args:
        table: A table in one of the DIALECTS. For `flows`, a log of flows, as `logs` reads it.
            For `histogram`, a row per bin: the bin's upper edge in bytes, and its number of flows. A bin begins above the
            edge of the one before; the first begins above 0.
        dialect: The table's format. Without it, only unambiguous tables are accepted.
        option: The option with which the user gives the dialect, for errors.

    Raises:
        ScenarioError: The file is not a valid table, or its format is ambiguous.
    """
    known = [*DIALECTS, FLOWS, HISTOGRAM]
    if dialect not in (None, *known):
        raise ScenarioError(f'unknown dialect "{shown(dialect)}": {suggestion(str(dialect), known)}')
    with opened(table) as source:
        return of(source, dialect, option)


def reason(source: Source) -> str | None:
    """Say why a file is a table of flow sizes; None if it is none."""
    rows = [words for line in source.head if (words := _words(line))]
    if not rows:
        return None
    if tuple(rows[0]) in _BY_COLUMN_NAMES:
        return f"its columns are {' and '.join(rows[0])}"
    named = not all(map(is_number, rows[0]))
    rows = rows[named:]
    width = len(rows[0]) if rows else 0
    if width not in (2, 3) or not all(len(row) == width and all(map(is_number, row)) for row in rows):
        return None
    if not named:
        return f"it has {width} columns of numbers"
    return f"its first and its last column rise, the last to {rows[-1][-1]}" if _is_cumulative(source, rows) else None


def _is_cumulative(source: Source, rows: list[list[str]]) -> bool:
    """Return whether rows below names are a cumulative table, which a log of flows with a column of sizes would not be."""
    if logs.reason(source) is not None:
        log = logs.Log.of(source)
        if log.bytes != 0 or len(log.lacks) < 3:
            return False
    sizes, shares = ([float(row[at]) for row in rows] for at in (0, -1))
    rise = all(a <= b for column in (sizes, shares) for a, b in itertools.pairwise(column))
    return rise and len(rows) > 1 and shares[-1] in _WHOLES


def part(source: Source, dialect: str | None) -> Sizes:
    """Read the sizes of a workload; see `read`."""
    found = of(source, dialect, "--as")
    note = f"Its sizes are read as {found.dialect}."
    lines = [f"# source: {source.name}, read as {found.dialect}", "bytes,cumulative_probability"]
    if not found.mean:
        raise source.wrong(None, "all flows have 0 bytes")
    return Sizes(found.points, found.mean, [*lines, *(f"{size:.10g},{share:.10g}" for size, share in found.points)], [note])


def of(source: Source, dialect: str | None, option: str) -> Table:
    """Read a distribution from an open file; see `read`."""
    if dialect == FLOWS or (dialect is None and reason(source) is None and logs.reason(source) is not None):
        return Table(_steps(source), FLOWS)
    rows = _rows(source)
    dialect = dialect or _guess(source, rows, option)
    return Table(_points(source, rows, dialect), dialect)


def _words(line: str) -> list[str]:
    text = line.partition("#")[0]
    # Where semicolons separate cells, commas may be in numbers.
    return text.replace(";" if ";" in text else ",", " ").split()


def _rows(source: Source) -> list[_Row]:
    rows: list[_Row] = []
    for number, line in source.lines():
        words = _words(line)
        if not words:
            continue
        if all(map(is_number, words)):
            rows.append((number, [float(word) for word in words]))
        elif rows or any(map(is_number, words)):
            raise source.wrong(number, f"not a row of numbers: {shown(line)}")
        if len(rows) > _POINTS_MAX:
            raise source.wrong(number, f"a table of sizes has at most {_POINTS_MAX:,} rows")
    if not rows:
        raise source.wrong(None, "the table has no rows of numbers")
    return rows


def _guess(source: Source, rows: list[_Row], option: str) -> str:
    names = tuple(_words(next(line for line in source.head if _words(line))))
    if names in _BY_COLUMN_NAMES:
        return _BY_COLUMN_NAMES[names]
    if {len(row) for _, row in rows} == {2} and rows[-1][1][1] == 100.0:
        return "bytes_percent"
    tables: list[Table] = []
    errors: dict[str, ScenarioError] = {}
    for name in DIALECTS:
        try:
            tables.append(Table(_cumulative(source, rows, name), name))
        except ScenarioError as error:
            errors[name] = error
    if not tables:
        # The reading that explains most is the first one with the right number of columns.
        width = len(rows[-1][1])
        raise next((errors[name] for name in DIALECTS if DIALECTS[name].columns == width), errors["bytes_probability"])
    readings = [f"{option} {t.dialect} (mean {t.mean:,.0f} B, largest {t.points[-1][0]:,.0f} B)" for t in tables]
    raise source.wrong(None, f"the columns could mean several things; give {' or '.join(readings)}")


def _points(source: Source, rows: list[_Row], dialect: str) -> list[tuple[float, float]]:
    return _of_histogram(source, rows) if dialect == HISTOGRAM else _cumulative(source, rows, dialect)


def _cumulative(source: Source, rows: list[_Row], name: str) -> list[tuple[float, float]]:
    dialect = DIALECTS[name]
    points: list[tuple[float, float]] = []
    for number, row in rows:
        if len(row) != dialect.columns:
            raise source.wrong(number, f"{name} has {dialect.columns} columns, but this row has {len(row)}")
        size, share = row[0] * dialect.unit_bytes, row[-1] / dialect.whole
        if points and (size < points[-1][0] or share < points[-1][1]):
            raise source.wrong(number, "sizes and shares must not decrease from row to row")
        if not 0 <= size <= BYTES_MAX or not 0 <= share <= 1:
            raise source.wrong(number, f"{row[0]:.16g} at {row[-1]:.16g} is no point of a distribution in {name}")
        points.append((size, share))
    if points[-1][1] != 1.0:
        raise source.wrong(rows[-1][0], f"the last row must reach {dialect.whole:g}, but it has {rows[-1][1][-1]:.16g}")
    return points


def _of_histogram(source: Source, rows: list[_Row]) -> list[tuple[float, float]]:
    edges, counts = [0.0], [0.0]
    for number, row in rows:
        if len(row) != 2:
            raise source.wrong(number, f"a histogram has 2 columns, bytes and count; this row has {len(row)}")
        edge, count = row
        if not edges[-1] < edge <= BYTES_MAX:
            within = f"above the one before it, {edges[-1]:g}, and be at most {BYTES_MAX:g}"
            raise source.wrong(number, f"the edge {edge:g} must lie {within}")
        if not 0 <= count < float("inf"):
            raise source.wrong(number, f"{row[1]:g} is not a number of flows")
        edges.append(edge)
        counts.append(count)
    running = list(itertools.accumulate(counts))
    if running[-1] == 0:
        raise source.wrong(None, "the histogram has no flows: all counts are 0")
    return [(edge, count / running[-1]) for edge, count in zip(edges, running, strict=True)]


def _steps(source: Source) -> list[tuple[float, float]]:
    import numpy as np

    found = logs.Log.of(source).sizes()
    if not found:
        raise source.wrong(None, "the log has no flows")
    sizes, counts = np.unique(np.asarray(found), return_counts=True)
    if 2 * len(sizes) > _POINTS_MAX:
        raise source.wrong(None, f"the log has {len(sizes):,} different sizes; the most are {_POINTS_MAX // 2:,}: round them")
    shares = np.cumsum(counts) / len(found)
    steps: list[tuple[float, float]] = []
    for size, share in zip(sizes.tolist(), shares.tolist(), strict=True):
        if steps:
            # No flow lies between two sizes that occur, so the share stays the same up to the next size.
            steps.append((size, steps[-1][1]))
        steps.append((size, share))
    return steps
