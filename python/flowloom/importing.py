"""Flow-size tables of other tools, in this project's form: `bytes,cumulative_probability`, ascending, ending at 1."""

from __future__ import annotations

import csv
import dataclasses
import itertools
from pathlib import Path

from flowloom import storage
from flowloom._native import ScenarioError
from flowloom.figures.schema import suggestion

_PACKET_BYTES = 1460.0


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How the columns of a table are meant."""

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
_FLOWS = "flows"


@dataclasses.dataclass(frozen=True)
class Imported:
    """What came of it."""

    dialect: str
    points: int
    mean_bytes: float
    usage: str


def sizes(table: Path, out: Path, dialect: str | None) -> Imported:
    """Read a table and write it as a flow-size distribution.

    Args:
        table: The other tool's file, or for the dialect `flows` a CSV with a `bytes` column and a row per flow.
        out: Where to write.
        dialect: How columns are meant; without it, only what cannot be mistaken is accepted.

    Raises:
        ScenarioError: The file is no such table, or could be meant in several ways.
    """
    try:
        text = table.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"cannot read {table}: {error}") from error
    if dialect not in (None, _FLOWS, *DIALECTS):
        raise ScenarioError(f'unknown dialect "{dialect}": {suggestion(str(dialect), [*DIALECTS, _FLOWS])}')
    if dialect == _FLOWS:
        points = _of_flows(table, text)
    else:
        rows = _rows(table, text)
        dialect = dialect or _guess(table, rows)
        points = _points(table, rows, dialect)
    with storage.whole_file(out) as fresh:
        lines = [f"# source: {table.name}, read as {dialect}", "bytes,cumulative_probability"]
        fresh.write_text("\n".join([*lines, *(f"{size:.10g},{share:.10g}" for size, share in points)]) + "\n", encoding="utf-8")
    return Imported(dialect, len(points), _mean(points), f'use it as workload.sizes = {{ cdf = "{out.name}" }}')


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
                raise ScenarioError(f"{table}:{number}: not a row of numbers: {line.strip()}") from None
    if not rows:
        raise ScenarioError(f"{table} holds no rows of numbers")
    return rows


def _guess(table: Path, rows: list[tuple[int, list[float]]]) -> str:
    if {len(row) for _, row in rows} == {2} and rows[-1][1][1] == 100.0:
        return "bytes_percent"
    raise ScenarioError(
        f"{table}: sizes in packets look like sizes in bytes, so say which it is: --dialect {', '.join(DIALECTS)}"
    )


def _points(table: Path, rows: list[tuple[int, list[float]]], name: str) -> list[tuple[float, float]]:
    dialect = DIALECTS[name]
    points: list[tuple[float, float]] = []
    for number, row in rows:
        if len(row) != dialect.columns:
            raise ScenarioError(f"{table}:{number}: {name} has {dialect.columns} columns, this row has {len(row)}")
        size, share = row[0] * dialect.unit_bytes, row[-1] / dialect.whole
        if points and (size < points[-1][0] or share < points[-1][1]):
            raise ScenarioError(f"{table}:{number}: sizes and shares must not fall from row to row")
        if size < 0 or not 0 <= share <= 1:
            raise ScenarioError(f"{table}:{number}: {row[0]:g} at {row[-1]:g} is no point of a distribution in {name}")
        points.append((size, share))
    if points[-1][1] != 1.0:
        raise ScenarioError(f"{table}: the last row must reach {dialect.whole:g}, it says {rows[-1][1][-1]:g}")
    return points


def _of_flows(table: Path, text: str) -> list[tuple[float, float]]:
    reader = csv.DictReader(text.splitlines())
    if "bytes" not in (reader.fieldnames or ()):
        raise ScenarioError(f"{table}: a CSV of flows needs a column called bytes; it has {', '.join(reader.fieldnames or ())}")
    try:
        found = sorted(float(row["bytes"]) for row in reader)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"{table}: a value of the column bytes is no number ({error})") from error
    if not found:
        raise ScenarioError(f"{table} holds no flows")
    steps: list[tuple[float, float]] = []
    for number, size in enumerate(found, 1):
        if steps and steps[-1][0] == size:
            steps.pop()
        elif steps:
            # Between two sizes that occur there is nothing: the share stays until just before the next.
            steps.append((size, steps[-1][1]))
        steps.append((size, number / len(found)))
    return steps


def _mean(points: list[tuple[float, float]]) -> float:
    """Give the mean of a table that is linear between its points, with an atom at the first."""
    mean = points[0][0] * points[0][1]
    for (a, p), (b, q) in itertools.pairwise(points):
        mean += (a + b) / 2 * (q - p)
    return mean
