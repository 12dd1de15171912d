"""Directories that are either whole or not there."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flowloom._native import ScenarioError


@contextlib.contextmanager
def whole_directory(target: Path, *, marker: str) -> Iterator[Path]:
    """Lend a new directory to fill, which takes the place of `target` only when the block ends well.

    A full disk or an interrupt therefore leaves what was there before. A directory that exists is replaced only if it
    is empty or holds `marker`, the file that says it is one of ours.

    Raises:
        ScenarioError: `target` exists and is something else.
        OSError: The disk is full, or not ours to write.
    """
    check_replaceable(target, marker=marker)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
    try:
        yield fresh
        fresh.chmod(0o755)
        if target.exists():
            old = fresh.with_name(fresh.name + ".old")
            target.rename(old)
            fresh.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def check_replaceable(target: Path, *, marker: str) -> None:
    """Raise ScenarioError if `target` is something that must not be overwritten."""
    if not target.exists():
        return
    if not target.is_dir():
        raise ScenarioError(f"cannot write results to {target}: it is a file; give a directory that is new or empty")
    if any(target.iterdir()) and not (target / marker).exists():
        raise ScenarioError(
            f"cannot write results to {target}: it holds something else (there is no {marker} in it), "
            "which would be lost; give a directory that is new or empty"
        )


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Lend a new file's path, which takes the place of `target` only when the block ends well.

    Raises:
        OSError: The disk is full, or not ours to write.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays, because plotting libraries choose the format by it.
    fresh = target.with_name(f".partial-{target.name}")
    try:
        yield fresh
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
