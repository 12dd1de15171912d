"""Reads and writes files. What is written is complete on the disk or absent, and errors name the file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8."""
    with naming(path):
        path.write_text(text, encoding="utf-8")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines in UTF-8, one after the other."""
    with naming(path), path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name of a file to errors that lack it: the system gives it when a file is opened, but not when it is written."""
    try:
        yield
    except OSError as error:
        raise error if error.filename else at(error, path) from None


def at(error: OSError, path: Path) -> OSError:
    """Return an error with another file name."""
    # Libraries put their own words where the system's belong.
    return OSError(error.errno, os.strerror(error.errno) if error.errno else str(error), str(path))


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file, or some of its columns. Checksums of its pages are checked, if it has them.

    Raises:
        OSError, ValueError, MemoryError, pyarrow.ArrowException: The file is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    # The library's threads may close the file after Python has ended. With a file of Python's, that aborts the process. The
    # library is given the opened file, since it would take a relative path such as `load:0.8` for an address.
    with pa.OSFile(os.fsencode(path)) as file:
        return pq.read_table(file, columns=columns, page_checksum_verification=True, partitioning=None)


_INHERITED = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""The names of files that are open already: of standard input, and of what a shell has opened for `<(command)`."""


def is_endless(path: Path) -> bool:
    """Return whether reading a path may never end: a named pipe waits for a writer, and a device may have no end."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or (stat.S_ISFIFO(mode) and str(path).startswith(_INHERITED)))


def parts(path: Path) -> Iterator[bytes]:
    """Yield the content of a file, a megabyte at a time.

    Raises:
        OSError: It cannot be read, or reading it may never end.
    """
    if is_endless(path):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            yield part


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Provide the path of a new file, which replaces `target` when the block ends without an error. Links are followed.

    Raises:
        OSError: The disk is full or cannot be written to.
    """
    shown, target = target, Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays the same, because plotting libraries choose the format by it.
    fresh = target.with_name(f".partial-{secrets.token_hex(4)}{target.suffix}")
    try:
        yield fresh
        sync(fresh)
        fresh.replace(target)
        sync(target.parent)
    except BaseException as error:
        fresh.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(fresh)):
            raise at(error, shown) from None
        raise


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk. A rename could otherwise reach the disk first."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(handle)
    finally:
        os.close(handle)


def files_below(folder: Path, skip: Callable[[str], bool] = lambda _: False) -> Iterator[str]:
    """Return the paths of all files below a folder, relative to it. Links are not followed.

    Args:
        folder: Where to look. Folders without read permission count as empty.
        skip: Returns whether an entry of the folder itself is left out.
    """
    with contextlib.suppress(PermissionError), os.scandir(folder) as found:
        for entry in sorted(found, key=lambda entry: entry.name):
            if skip(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from (f"{entry.name}/{name}" for name in files_below(Path(entry.path)))
            else:
                yield entry.name
