"""Imports flow sizes from other tools: cumulative tables, logs of flows, histograms.

The result is a cumulative distribution in the form of `data/workloads`: rows `bytes,cumulative_probability`, ascending, linear
between points, ending at 1.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
from pathlib import Path
from typing import Any, NamedTuple

from flowloom import outputs, storage
from flowloom._native import ScenarioError
from flowloom.words import shown, suggestion

_PACKET_BYTES = 1460.0
BYTES_MAX = 1e15
"""The largest flow size in bytes, as in the simulator."""


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
FLOWS, HISTOGRAM = "flows", "histogram"
"""Dialects that are not cumulative tables; see `read`."""

_BY_COLUMN_NAMES: dict[tuple[str, ...], str] = {
    ("bytes", "cumulative_probability"): "bytes_probability",
    ("bytes", "cumulative_percent"): "bytes_percent",
    ("packets", "cumulative_probability"): "packets_probability",
    ("bytes", "count"): HISTOGRAM,
}


class Table(NamedTuple):
    """A distribution of flow sizes from a file."""

    points: list[tuple[float, float]]
    """(bytes, cumulative probability). Neither decreases from point to point, and the last probability is 1."""
    dialect: str


@dataclasses.dataclass(frozen=True)
class Imported:
    """The outcome of an import."""

    dialect: str
    points: int
    mean_bytes: float
    usage: str


def sizes(table: Path, out: Path, dialect: str | None, *, force: bool = False) -> Imported:
    """Read a table and write it as a flow-size distribution.

    Args:
        table: The other tool's file.
        out: Where to write.
        dialect: As for `read`.
        force: Replace a distribution that was imported from another table.

    Raises:
        ScenarioError: The file is not a valid table, its format is ambiguous, or `out` may not be replaced.
    """
    _check_out(out, table, force)
    found = read(table, dialect)
    write(out, found.points, f"{table.name}, read as {found.dialect}")
    return Imported(
        found.dialect, len(found.points), _mean(found.points), f'use it as workload.sizes = {{ cdf = "{out.name}" }}'
    )


_SOURCE = "# source: "
"""The beginning of an imported table's first line. The name of the other tool's file follows."""


def _check_out(out: Path, table: Path, force: bool) -> None:
    """Raise ScenarioError unless `out` is a new file, or one that was imported from the same table."""
    if table.exists() and out.is_file() and out.samefile(table):
        raise outputs.refusal(out, "it is the table to read", "give another file")
    mine = f"{_SOURCE}{table.name}, "
    outputs.check_file(out, _SOURCE, mine, "it was imported from another table ({})", force=force)


def write(out: Path, points: list[tuple[float, float]], source: str) -> None:
    """Write a distribution in the form that scenarios read."""
    with storage.whole_file(out) as fresh:
        lines = [f"{_SOURCE}{source}", "bytes,cumulative_probability"]
        storage.write_text(fresh, "\n".join([*lines, *(f"{size:.10g},{share:.10g}" for size, share in points)]) + "\n")


def read(table: Path, dialect: str | None) -> Table:
    """Read a distribution of flow sizes.

    Args:
        table: A table in one of the DIALECTS. For `flows`, a CSV or Parquet file with a column `bytes` and a row per flow.
            For `histogram`, a row per bin: the bin's upper edge in bytes, and its number of flows. A bin begins above the
            edge of the one before; the first begins above 0.
        dialect: The table's format. Without it, only unambiguous tables are accepted.

    Raises:
        ScenarioError: The file is not a valid table, or its format is ambiguous.
    """
    if dialect not in (None, FLOWS, HISTOGRAM, *DIALECTS):
        raise ScenarioError(f'unknown dialect "{shown(dialect)}": {suggestion(str(dialect), [*DIALECTS, FLOWS, HISTOGRAM])}')
    if storage.is_endless(table):
        raise ScenarioError(f"cannot read {table}: it is not a regular file")
    if dialect == FLOWS:
        return Table(_steps(table, _logged_sizes(table)), FLOWS)
    text = _text(table)
    rows = _rows(table, text)
    dialect = dialect or _guess(table, text, rows)
    return Table(_of_histogram(table, rows) if dialect == HISTOGRAM else _points(table, rows, dialect), dialect)


def _text(table: Path) -> str:
    try:
        return table.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ScenarioError(f"cannot read {table}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"cannot read {table}: it is not UTF-8 text") from error


def _rows(table: Path, text: str) -> list[tuple[int, list[float]]]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            rows.append((number, [float(word) for word in words]))
        except ValueError:
            if rows:
                raise ScenarioError(f"{table}:{number}: not a row of numbers: {shown(line.strip())}") from None
    if not rows:
        raise ScenarioError(f"{table} has no rows of numbers")
    return rows


def _guess(table: Path, text: str, rows: list[tuple[int, list[float]]]) -> str:
    head = next(filter(None, (line.partition("#")[0].replace(",", " ").split() for line in text.splitlines())))
    if tuple(head) in _BY_COLUMN_NAMES:
        return _BY_COLUMN_NAMES[tuple(head)]
    if {len(row) for _, row in rows} == {2} and rows[-1][1][1] == 100.0:
        return "bytes_percent"
    raise ScenarioError(
        f"{table}: the columns could mean several things; give --dialect, one of {', '.join([*DIALECTS, FLOWS, HISTOGRAM])}"
    )


def _points(table: Path, rows: list[tuple[int, list[float]]], name: str) -> list[tuple[float, float]]:
    dialect = DIALECTS[name]
    points: list[tuple[float, float]] = []
    for number, row in rows:
        if len(row) != dialect.columns:
            raise ScenarioError(f"{table}:{number}: {name} has {dialect.columns} columns, but this row has {len(row)}")
        size, share = row[0] * dialect.unit_bytes, row[-1] / dialect.whole
        if points and (size < points[-1][0] or share < points[-1][1]):
            raise ScenarioError(f"{table}:{number}: sizes and shares must not decrease from row to row")
        # NaN fails this comparison too.
        if not 0 <= size <= BYTES_MAX or not 0 <= share <= 1:
            raise ScenarioError(f"{table}:{number}: {row[0]:g} at {row[-1]:g} is no point of a distribution in {name}")
        points.append((size, share))
    if points[-1][1] != 1.0:
        raise ScenarioError(f"{table}: the last row must reach {dialect.whole:g}, but it has {rows[-1][1][-1]:g}")
    return points


def _of_histogram(table: Path, rows: list[tuple[int, list[float]]]) -> list[tuple[float, float]]:
    edges, counts = [0.0], [0.0]
    for number, row in rows:
        if len(row) != 2:
            raise ScenarioError(f"{table}:{number}: a histogram has 2 columns, bytes and count; this row has {len(row)}")
        edge, count = row
        if not edges[-1] < edge <= BYTES_MAX:
            raise ScenarioError(
                f"{table}:{number}: the edge {edge:g} must lie above the one before it, {edges[-1]:g}, "
                f"and be at most {BYTES_MAX:g}"
            )
        if not 0 <= count < float("inf"):
            raise ScenarioError(f"{table}:{number}: {row[1]:g} is not a number of flows")
        edges.append(edge)
        counts.append(count)
    running = list(itertools.accumulate(counts))
    if running[-1] == 0:
        raise ScenarioError(f"{table} has no flows: all counts are 0")
    return [(edge, count / running[-1]) for edge, count in zip(edges, running, strict=True)]


def _logged_sizes(table: Path) -> list[float]:
    if table.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            names = pq.read_schema(table).names
            found = pq.read_table(table, columns=["bytes"])["bytes"].to_pylist() if "bytes" in names else None
        except (OSError, pa.ArrowException) as error:
            raise ScenarioError(f"cannot read {table}: {shown(error, 200)}") from error
    else:
        reader = csv.DictReader(_text(table).splitlines())
        try:
            names = list(reader.fieldnames or ())
            found = [row["bytes"] for row in reader] if "bytes" in names else None
        except csv.Error as error:
            raise ScenarioError(f"{table}:{reader.line_num}: not a row of a CSV file: {error}") from error
    if found is None:
        raise ScenarioError(f"{table}: a log of flows needs a column called bytes; it has {shown(', '.join(names), 200)}")
    return [_number(table, row, size) for row, size in enumerate(found, 1)]


def _number(table: Path, row: int, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        what = "nothing" if value is None else f'"{shown(value)}"'
        raise ScenarioError(f"{table}, row {row}: {what} in the column bytes is not a number") from None


def _steps(table: Path, found: list[float]) -> list[tuple[float, float]]:
    if not found:
        raise ScenarioError(f"{table} has no flows")
    for size in found:
        if not 0 <= size <= BYTES_MAX:
            raise ScenarioError(f"{table}: {size:g} bytes is not a valid flow size")
    steps: list[tuple[float, float]] = []
    for number, size in enumerate(sorted(found), 1):
        if steps and steps[-1][0] == size:
            steps.pop()
        elif steps:
            # No flow lies between two sizes that occur, so the share stays the same up to the next size.
            steps.append((size, steps[-1][1]))
        steps.append((size, number / len(found)))
    return steps


def _mean(points: list[tuple[float, float]]) -> float:
    """Return the mean of a table that is linear between its points; the first point's share has exactly its size."""
    mean = points[0][0] * points[0][1]
    for (a, p), (b, q) in itertools.pairwise(points):
        mean += (a + b) / 2 * (q - p)
    return mean
