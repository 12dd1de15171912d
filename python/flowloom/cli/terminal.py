"""The standard streams of the command line: what they let through, and what happens when they cannot be written to.

What is printed may contain names from files: of nodes, keys, scenarios. A terminal would obey control sequences in them, so
the streams write characters that are not printable as escapes.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

from flowloom.words import printable

STDOUT = "standard output"
"""The name of the stream in errors, where others have the name of a file."""


class _Out(io.FileIO):
    """Standard output. Its first error is raised, with its name. What is written after that is lost."""

    _broken = False

    def write(self, data: Any, /) -> int:
        if self._broken:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except BrokenPipeError:
            self._broken = True
            raise
        except OSError as error:
            self._broken = True
            raise OSError(error.errno, error.strerror, STDOUT) from None


class _Diagnostics(io.FileIO):
    """Standard error. A run does not end because nobody can read its messages."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


class _Guarded(io.TextIOWrapper):
    """A text stream that writes unprintable characters as escapes."""

    def write(self, text: str) -> int:
        super().write(printable(text))
        return len(text)

    @property
    def bare(self) -> Any:
        """The stream without its guard, for the control sequences of progress bars."""
        return _Bare(self)


class _Bare:
    def __init__(self, stream: _Guarded) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return io.TextIOWrapper.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard() -> None:
    """Replace `sys.stdout` and `sys.stderr` by guarded streams. Streams that a caller has replaced already stay."""
    _occupy()
    if sys.stdout is sys.__stdout__:
        sys.stdout = _guarded(_Out(1, "w", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _guarded(_Diagnostics(2, "w", closefd=False), sys.stderr)


def _guarded(raw: io.FileIO, old: Any) -> _Guarded:
    if old is not None:
        with contextlib.suppress(OSError):
            old.flush()
    # The library that prints would bypass an ASCII stream and write UTF-8.
    encoding = getattr(old, "encoding", "utf-8")
    encoding = "utf-8" if encoding in ("ascii", "ANSI_X3.4-1968") else encoding
    return _Guarded(io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=raw.isatty())


def _occupy() -> None:
    """Open each standard stream that was closed at the start. A file that is opened later would otherwise take its number.

    Standard output is opened for reading only, so that writing to it is still an error. Errors go nowhere.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is the one that was closed.
            os.open(os.devnull, mode)
            os.set_inheritable(number, True)
