"""What a run records over its course: tables that grow while it runs, and are read when they are asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom import columns, integrity, storage
from flowloom.temporary import Folder

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

IN_MEMORY = 1 << 16
"""A table is kept in memory until it has more rows than this."""


class Series(Mapping[str, "pa.Table"]):
    """The recorded tables of a run by name, in the order of their names. Those in files are read when they are asked for."""

    def __init__(
        self,
        folder: Path | None = None,
        tables: Mapping[str, pa.Table] | None = None,
        owner: Folder | None = None,
    ) -> None:
        """Use tables in memory and the Parquet files of a folder.

        Args:
            folder: The folder; it need not exist.
            tables: Other tables by their names.
            owner: Deletes the folder when nothing refers to it any more.
        """
        self._tables = dict(tables or {})
        self._files = {path.stem: path for path in folder.glob("*.parquet")} if folder else {}
        self._owner = owner

    def __getitem__(self, name: str) -> pa.Table:
        """Return a table.

        Raises:
            KeyError: There is no such table.
            ScenarioError: Its file is damaged.
        """
        return self._tables[name] if name in self._tables else integrity.read_table(self._files[name])

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(sorted({*self._tables, *self._files}))

    def __len__(self) -> int:
        """Return the number of tables."""
        return len({*self._tables, *self._files})

    def save(self, folder: Path) -> None:
        """Write all tables to files of a new folder, if there are any."""
        for name in self:
            folder.mkdir(exist_ok=True)
            target = folder / f"{name}.parquet"
            if name in self._tables:
                columns.write(self._tables[name], target)
            else:
                with storage.naming(target):
                    shutil.copyfile(self._files[name], target)

    def __reduce__(self) -> tuple[Any, ...]:
        """Take the files along, since another process may run on another machine."""
        return _unpacked, (self._tables, {name: path.read_bytes() for name, path in self._files.items()})


def instants(time: NDArray[np.float64], span: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the instants of samples in their order, and the time from each to the one before.

    An instant at which all that is sampled rested has no row. Between two rows, the first and the last of such instants are
    added.

    Args:
        time: When the sample of each row was taken.
        span: The time since the sample before, which may be one without a row.
    """
    import numpy as np

    every, rows = np.unique(time, return_index=True)
    spans = span[rows]  # the rows of an instant have the same
    # The last span may be shorter than a period, as a run may end between two samples.
    period = spans[:-1].min() if len(spans) > 1 else spans[0]
    before, end = every[:-1], every[1:] - spans[1:]
    # Differences below half a period are rounding: both are the same instant.
    missing = end - before > period / 2
    first, last = before[missing] + period, end[missing]
    every = np.sort(np.concatenate([every, last, first[last - first > period / 2]]))
    return every, np.diff(every, prepend=every[0] - spans[0])


def _unpacked(tables: Mapping[str, pa.Table], files: Mapping[str, bytes]) -> Series:
    if not files:
        return Series(tables=tables)
    owner = Folder()
    for name, content in files.items():
        (owner.path / f"{name}.parquet").write_bytes(content)
    return Series(owner.path, tables, owner)


class Writer:
    """Collects tables part by part. Large ones go to a temporary folder."""

    def __init__(self) -> None:
        """Begin without tables."""
        self._parts: dict[str, list[pa.Table]] = {}
        self._owner: Folder | None = None
        self._open: dict[str, pq.ParquetWriter] = {}

    def discard(self) -> None:
        """Delete the folder, if there is one."""
        if self._owner:
            self._owner.delete()

    def take(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Append the next part of a table.

        Args:
            name: The name of the table.
            arrays: Its columns: an array of numbers, or a pair of indices and the names that they refer to.

        Raises:
            OSError: The disk is full or cannot be written to.
        """
        parts = self._parts.setdefault(name, [])
        parts.append(columns.series_table(arrays))
        if name in self._open or sum(part.num_rows for part in parts) > IN_MEMORY:
            self._spill(name, parts)
            parts.clear()

    def _spill(self, name: str, parts: list[pa.Table]) -> None:
        self._owner = self._owner or Folder()
        path = self._owner.path / f"{name}.parquet"
        with storage.naming(path):
            if name not in self._open:
                self._open[name] = columns.writer(path, parts[0].schema)
            for part in parts:
                self._open[name].write_table(part)

    def close(self) -> Series:
        """Finish all files and return all tables."""
        import pyarrow as pa

        for writer in self._open.values():
            writer.close()
        tables = {name: pa.concat_tables(parts) for name, parts in self._parts.items() if name not in self._open}
        return Series(self._owner.path if self._owner else None, tables, self._owner)
