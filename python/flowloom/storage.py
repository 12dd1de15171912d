"""Writes files so that each is complete on the disk or absent."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Provide the path of a new file, which replaces `target` when the block ends without an error. Links are followed.

    Raises:
        OSError: The disk is full or cannot be written to.
    """
    target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays the same, because plotting libraries choose the format by it.
    fresh = target.with_name(f".partial-{secrets.token_hex(4)}{target.suffix}")
    try:
        yield fresh
        sync(fresh)
        fresh.replace(target)
        sync(target.parent)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk. A rename could otherwise reach the disk first."""
    handle = os.open(path, os.O_RDONLY)
    try:
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
