"""Logs of flows: a row per flow, in Parquet or in text with a line that names the columns; or sizes alone, one per line.

Text has commas, semicolons, tabs or blanks between cells. A log that says the bytes, the start and both ends of each
flow gives flows. One that says less gives the sizes of flows. Starts are numbers or dates (ISO 8601). The column's
name says the unit of numbers (`start_us`); without one, they are seconds. Dates without a time zone are in UTC, so that a log
gives the same flows on any machine.
"""

from __future__ import annotations

import array
import contextlib
import csv
import dataclasses
import datetime
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from flowloom._native import ScenarioError
from flowloom.importing.parts import BYTES_MAX, FLOWS_MAX, TOO_MANY, Trace
from flowloom.importing.source import Source, is_number, separator
from flowloom.words import listed, shown

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES = ("bytes", "size", "size_bytes", "flow_size", "flow_bytes", "byt", "nbytes", "octets")
_SRC = ("src", "source", "src_ip", "src_host", "src_id", "srcaddr", "srcip", "sa", "sender")
_DST = ("dst", "dest", "destination", "dst_ip", "dst_host", "dst_id", "dstaddr", "dstip", "da", "receiver")
_STARTS = ("start", "start_time", "starttime", "arrival", "arrival_time", "time", "timestamp", "ts", "first", "rtime")
_UNITS = {"": "1", "_s": "1", "_sec": "1", "_ms": "1e-3", "_us": "1e-6", "_ns": "1e-9", "_ps": "1e-12"}
"""What may follow the name of a column of starts, and the unit in seconds."""
_PARQUET = b"PAR1"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_BELOW_MICROSECONDS = re.compile(r"[.,]\d{6}(\d+)")
"""The digits of a date that Python's type has no place for."""

_Rows = Iterator[tuple[int, Sequence[Any]]]


def reason(source: Source) -> str | None:
    """Say why a file is a log; None if it is none."""
    if _is_parquet(source):
        return "it is a Parquet file"
    lines = [line for line in source.head_rows if _is_row(line)]
    names = _cells(lines[0]) if lines else []
    if (place := _place(names, _BYTES)) is not None:
        return f'its first line names the column "{shown(names[place])}"'
    if lines and all(is_number(line.strip()) for line in lines):
        return "it has one column of numbers"
    return None


@dataclasses.dataclass
class Log:
    """A log whose rows have not been read yet."""

    source: Source
    names: list[str]
    rows: _Rows
    bytes: int
    """The place of the column of bytes."""
    start: int | None
    src: int | None
    dst: int | None
    unit_s: Decimal
    """The unit of starts in seconds."""
    without_unit: bool = False
    """Whether a start was a number, and its column says no unit."""
    without_zone: bool = False
    """Whether a start was a date without a time zone."""

    @classmethod
    def of(cls, source: Source) -> Log:
        """Read the names of the columns.

        Raises:
            ScenarioError: The log has no column of bytes.
        """
        names, rows = _table(source)
        place = _place(names, _BYTES)
        if place is None:
            raise source.wrong(None, f"a log of flows needs a column called bytes; it has {shown(', '.join(names), 200)}")
        starts = {f"{name}{unit}": Decimal(factor) for name in _STARTS for unit, factor in _UNITS.items()}
        start = _place(names, tuple(starts))
        unit_s = starts[_plain(names[start])] if start is not None else Decimal(1)
        return cls(source, names, rows, place, start, _place(names, _SRC), _place(names, _DST), unit_s)

    @property
    def lacks(self) -> list[str]:
        """What it does not say about a flow."""
        return [what for what, at in (("start", self.start), ("src", self.src), ("dst", self.dst)) if at is None]

    def sizes(self) -> array.array[float]:
        """Read the bytes of each flow."""
        found = array.array("d")
        for number, row in self.rows:
            if len(found) == FLOWS_MAX:
                raise self.source.wrong(number, TOO_MANY)
            found.append(self._bytes(number, row))
        return found

    def trace(self) -> Trace:
        """Read the flows. Nothing may lack."""
        assert self.start is not None and self.src is not None and self.dst is not None
        trace = Trace(self.source)
        for number, row in self.rows:
            size = self._bytes(number, row)
            start = self._instant(number, self._cell(number, row, self.start))
            src, dst = self._host(number, row, self.src), self._host(number, row, self.dst)
            trace.add(number, start, src, dst, int(-(-size // 1)))
        trace.notes += self.unread([self.bytes, self.start, self.src, self.dst])
        column = shown(self.names[self.start])
        if self.without_unit:
            trace.notes.append(f"The column {column} says no unit: its numbers are read as seconds.")
        if self.without_zone:
            trace.notes.append(f"The column {column} has dates without a time zone: they are read as UTC.")
        return trace.sort()

    def unread(self, read: Sequence[int]) -> list[str]:
        """Return a note of the columns other than these, if there are any."""
        unread = [shown(name, 30) for at, name in enumerate(self.names) if name and at not in read]
        return [f"Columns that are not read: {listed(unread, 8)}."] if unread else []

    def _cell(self, number: int, row: Sequence[Any], place: int) -> Any:
        if place >= len(row):
            raise _unlike(self.source, number, len(row), len(self.names))
        return row[place]

    def _host(self, number: int, row: Sequence[Any], place: int) -> str:
        cell = self._cell(number, row, place)
        host = "" if cell is None else str(cell).strip()
        if not host:
            raise self.source.wrong(number, f"{shown(self.names[place])} is empty")
        return host

    def _bytes(self, number: int, row: Sequence[Any]) -> float:
        cell = self._cell(number, row, self.bytes)
        with contextlib.suppress(TypeError, ValueError):
            size = float(cell)
            if 0 <= size <= BYTES_MAX:
                return size
            raise self.source.wrong(number, f"{size:g} bytes is not a valid flow size")
        raise self.source.wrong(number, f"{_quoted(cell)} in the column {shown(self.names[self.bytes])} is not a number")

    def _instant(self, number: int, cell: Any) -> Decimal:
        assert self.start is not None
        with contextlib.suppress(InvalidOperation, TypeError, ValueError):
            text = str(cell).strip()
            if is_number(text):
                self.without_unit = self.without_unit or _plain(self.names[self.start]) in _STARTS
                return Decimal(text) * self.unit_s
            date = datetime.datetime.fromisoformat(text)
            if date.tzinfo is None:
                self.without_zone = True
                date = date.replace(tzinfo=datetime.UTC)
            since, rest = date - _EPOCH, _BELOW_MICROSECONDS.search(text)
            microseconds = Decimal(since // datetime.timedelta(microseconds=1))
            return (microseconds + Decimal(f"0.{rest[1]}" if rest else 0)) / 1_000_000
        column = shown(self.names[self.start])
        raise self.source.wrong(number, f"{_quoted(cell)} in the column {column} is neither a number nor a date")


def _quoted(cell: Any) -> str:
    return "nothing" if cell is None or cell == "" else f'"{shown(cell)}"'


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def _place(names: Sequence[str], known: Sequence[str]) -> int | None:
    """Return the place of the first column that has one of some names, of which earlier ones take precedence."""
    plain = [_plain(name) for name in names]
    return next((plain.index(name) for name in known if name in plain), None)


def _is_parquet(source: Source) -> bool:
    source.file.seek(0)
    return source.file.read(len(_PARQUET)) == _PARQUET


def _table(source: Source) -> tuple[list[str], _Rows]:
    """Return the names of the columns, and the number of each row with its cells."""
    if _is_parquet(source):
        return _parquet(source)
    lines = ((number, line) for number, line in source.rows() if _is_row(line))
    number, first = next(lines, (0, ""))
    if not number:
        raise source.wrong(None, "the log has no rows")
    if is_number(first.strip()):
        return ["bytes"], _one_column(number, first, lines)
    names = _cells(first)
    return names, _rows(source, names, separator(first), lines)


def _one_column(number: int, first: str, lines: Iterator[tuple[int, str]]) -> _Rows:
    yield number, [first]
    for after, line in lines:
        yield after, [line]


def _rows(source: Source, names: list[str], between: str | None, lines: Iterator[tuple[int, str]]) -> _Rows:
    for number, line in lines:
        try:
            row = next(csv.reader([line], delimiter=between)) if between else line.split()
        except (csv.Error, StopIteration) as error:
            raise source.wrong(number, f"this is no row of cells: {shown(error)}") from None
        # A separator inside a cell, as in 1,500, moves what is behind it to the columns of others.
        if any(cell.strip() for cell in row[len(names) :]):
            raise _unlike(source, number, len(row), len(names))
        yield number, row


def _unlike(source: Source, number: int, cells: int, columns: int) -> ScenarioError:
    return source.wrong(number, f"the row has {cells} cells, and the first line names {columns} columns")


def _is_row(line: str) -> bool:
    return not line.isspace() and not line.lstrip().startswith("#")


def _cells(line: str) -> list[str]:
    between = separator(line)
    try:
        cells = next(csv.reader([line], delimiter=between)) if between else line.split()
    except (csv.Error, StopIteration):
        return [line]
    return [cell.strip() for cell in cells]


def _parquet(source: Source) -> tuple[list[str], _Rows]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(source.file)
        names = list(file.schema_arrow.names)
    except (OSError, pa.ArrowException) as error:
        raise ScenarioError(f"cannot read {shown(source.path, 200)}: {shown(error, 200)}") from error

    def rows() -> _Rows:
        number = 0
        try:
            for batch in file.iter_batches(batch_size=65_536):
                columns = [_values(column) for column in batch.columns]
                for row in zip(*columns, strict=True):
                    number += 1
                    yield number, row
        except (OSError, pa.ArrowException) as error:
            raise source.wrong(number or None, f"the rows after this one cannot be read: {shown(error, 200)}") from error

    return names, rows()


def _values(column: pa.Array) -> list[Any]:
    """Return the cells of a column. Dates are texts, as Python's type has no place for nanoseconds."""
    import pyarrow as pa

    values: list[Any] = (column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values
