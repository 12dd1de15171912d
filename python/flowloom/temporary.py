"""Folders for what a run records, until it is saved."""

from __future__ import annotations

import tempfile
from pathlib import Path


class Folder:
    """A folder in the place for temporary files (TMPDIR). It is deleted when nothing refers to this object any more."""

    def __init__(self) -> None:
        """Create a folder."""
        self._folder = tempfile.TemporaryDirectory(prefix="flowloom-recorded-")
        self.path = Path(self._folder.name)

    def delete(self) -> None:
        """Delete the folder now."""
        self._folder.cleanup()
