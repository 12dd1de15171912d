"""Files of records, which other tools have written as CSV or Parquet, with the place of each row for messages."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flowloom import storage
from flowloom._native import ScenarioError
from flowloom.words import shown

LARGEST = 1e100
"""The largest number. No measurement is larger, and sums and squares of such numbers are numbers."""


class Row(NamedTuple):
    """A row of a file."""

    place: str
    """Where it is, for messages: `file:line`."""
    cells: Mapping[str, Any]

    def cell(self, name: str) -> Any:
        """Return a cell; None if it is empty, or if there is no such column."""
        value = self.cells.get(name)
        empty = not value.strip() if isinstance(value, str) else isinstance(value, float) and math.isnan(value)
        return None if empty else value

    def number(self, name: str, what: str, most: float = LARGEST) -> float | None:
        """Return the number in a cell, from 0 to `most`; None if the cell is empty."""
        value = self.cell(name)
        try:
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if value is not None and not 0 <= number <= most:  # NaN fails this comparison too
            raise ScenarioError(f'{self.place}: column {name}: "{shown(value)}" is not {what}')
        return None if value is None else number


class Records(NamedTuple):
    """The content of a file: rows below the names of their columns."""

    path: Path
    columns: list[str]
    rows: list[Row]

    @classmethod
    def read(cls, path: Path) -> Records:
        """Read a file, which is Parquet if its suffix says so, and CSV otherwise.

        Raises:
            ScenarioError: The file cannot be read, or has no rows. The message names the file and, in CSV, the line.
        """
        if storage.is_endless(path):
            raise ScenarioError(f"cannot read {path}: it is not a regular file")
        table = cls(path, *(_parquet(path) if path.suffix == ".parquet" else _csv(path)))
        if not table.rows:
            raise ScenarioError(f"{path} has no rows; give the names of the columns, and a row for each flow or point")
        return table

    def wrong_head(self, right: str) -> ScenarioError:
        """Return the error for columns that are not those of any table."""
        return ScenarioError(f"{self.path}:1: the columns are {shown(', '.join(self.columns), 200)}; {right}")


def _csv(path: Path) -> tuple[list[str], list[Row]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or a NUL in the name
        raise ScenarioError(f"cannot read {shown(path, 200)}: it is not UTF-8 text") from error
    reader = csv.reader(text.splitlines(), skipinitialspace=True)
    names: list[str] = []
    rows: list[Row] = []
    try:
        for cells in reader:
            place = f"{path}:{reader.line_num}"
            if not any(cell.strip() for cell in cells) or cells[0].lstrip().startswith("#"):
                continue
            if not names:
                names = [cell.strip() for cell in cells]
                if twice := next((name for name in names if names.count(name) > 1), None):
                    raise ScenarioError(f'{place}: two columns are called "{shown(twice)}"; each needs a name of its own')
                continue
            if len(cells) != len(names):
                raise ScenarioError(f"{place}: this row has {len(cells)} cells, but there are {len(names)} columns")
            rows.append(Row(place, dict(zip(names, cells, strict=True))))
    except csv.Error as error:
        raise ScenarioError(f"{path}:{reader.line_num}: this is not a row of a CSV file: {error}") from error
    return names, rows


def _parquet(path: Path) -> tuple[list[str], list[Row]]:
    import pyarrow as pa

    try:
        table = storage.read_parquet(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ScenarioError(f"cannot read {path}: {shown(error, 200)}") from error
    return table.column_names, [Row(f"{path}, row {row}", cells) for row, cells in enumerate(table.to_pylist(), 1)]
