"""What a run records over its course: tables that are written while it runs, and read when they are asked for."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom import columns, integrity, storage

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


class Series(Mapping[str, "pa.Table"]):
    """The recorded tables of a run by name, in the order of their names. Each is read from its file when it is asked for."""

    def __init__(self, folder: Path, owner: tempfile.TemporaryDirectory[str] | None = None) -> None:
        """Use the Parquet files of a folder.

        Args:
            folder: The folder; it need not exist.
            owner: Deletes the folder when nothing refers to it any more.
        """
        self._folder = folder
        self._owner = owner

    def path(self, name: str) -> Path:
        """Return the file of a table.

        Raises:
            KeyError: There is no such table.
        """
        if name not in self:
            raise KeyError(name)
        return self._folder / f"{name}.parquet"

    def __getitem__(self, name: str) -> pa.Table:
        """Read a table.

        Raises:
            KeyError: There is no such table.
            ScenarioError: Its file is damaged.
        """
        return integrity.read_table(self.path(name))

    def __contains__(self, name: object) -> bool:
        """Return whether there is a table of this name."""
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return (path.stem for path in sorted(self._folder.glob("*.parquet")))

    def __len__(self) -> int:
        """Return the number of tables."""
        return sum(1 for _ in self)

    def copy_to(self, folder: Path) -> None:
        """Copy all files to a new folder, if there are any."""
        for name in self:
            folder.mkdir(exist_ok=True)
            target = folder / f"{name}.parquet"
            with storage.naming(target):
                shutil.copyfile(self.path(name), target)

    def __reduce__(self) -> tuple[Any, ...]:
        """Take the files along, since another process may run on another machine."""
        return _unpacked, ({name: self.path(name).read_bytes() for name in self},)


def _unpacked(files: Mapping[str, bytes]) -> Series:
    writer = Writer()
    for name, content in files.items():
        (writer.folder / f"{name}.parquet").write_bytes(content)
    return writer.close()


class Writer:
    """Writes tables to a temporary folder, part by part."""

    def __init__(self) -> None:
        """Create the folder, in the place for temporary files (TMPDIR)."""
        self._owner = tempfile.TemporaryDirectory(prefix="flowloom-series-")
        self.folder = Path(self._owner.name)
        self._open: dict[str, pq.ParquetWriter] = {}

    def take(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Append the next part of a table.

        Args:
            name: The name of the table.
            arrays: Its columns: an array of numbers, or a pair of indices and the names that they refer to.

        Raises:
            OSError: The disk is full or cannot be written to.
        """
        table = columns.series_table(arrays)
        path = self.folder / f"{name}.parquet"
        with storage.naming(path):
            if name not in self._open:
                self._open[name] = columns.writer(path, table.schema)
            self._open[name].write_table(table)

    def close(self) -> Series:
        """Finish all files and return them."""
        for name, writer in self._open.items():
            with storage.naming(self.folder / f"{name}.parquet"):
                writer.close()
        return Series(self.folder, self._owner)
