"""The files of a trace of single packets: a capture for Wireshark with its dissector, and a timeline for Perfetto."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flowloom import dissector, storage
from flowloom.temporary import Folder

DISSECTOR = "flowloom.lua"
"""The name of the dissector beside a capture."""


class Trace(Mapping[str, bytes]):
    """The files of a trace by name: `packets.pcapng`, `timeline.pftrace` and `flowloom.lua`. Each is read on demand."""

    def __init__(self, folder: Path | None = None, owner: Folder | None = None) -> None:
        """Use the files of a folder.

        Args:
            folder: The folder; it need not exist.
            owner: Deletes the folder when nothing refers to it any more.
        """
        self._files = {path.name: path for path in folder.iterdir()} if folder and folder.is_dir() else {}
        self._owner = owner

    def __getitem__(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            KeyError: There is no such file.
            OSError: It cannot be read.
        """
        return self._files[name].read_bytes()

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(sorted(self._files))

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._files)

    def save(self, folder: Path) -> None:
        """Write all files to a new folder, if there are any."""
        for name, source in self._files.items():
            folder.mkdir(exist_ok=True)
            with storage.naming(folder / name):
                shutil.copyfile(source, folder / name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Take the files along, since another process may run on another machine."""
        return _unpacked, (dict(self),)


def _unpacked(files: Mapping[str, bytes]) -> Trace:
    if not files:
        return Trace()
    owner = Folder()
    for name, content in files.items():
        (owner.path / name).write_bytes(content)
    return Trace(owner.path, owner)


class Writer:
    """Appends to the files of a trace in a temporary folder."""

    def __init__(self) -> None:
        """Begin without files."""
        self._owner: Folder | None = None

    def take(self, name: str, content: bytes) -> None:
        """Append to a file.

        Raises:
            OSError: The disk is full or cannot be written to.
        """
        self._owner = self._owner or Folder()
        path = self._owner.path / name
        with storage.naming(path), path.open("ab") as file:
            file.write(content)

    def discard(self) -> None:
        """Delete all files."""
        if self._owner:
            self._owner.delete()

    def close(self) -> Trace:
        """Return all files. A dissector is added to a capture."""
        if self._owner is None:
            return Trace()
        if any(path.suffix == ".pcapng" for path in self._owner.path.iterdir()):
            storage.write_text(self._owner.path / DISSECTOR, dissector.lua())
        return Trace(self._owner.path, self._owner)
