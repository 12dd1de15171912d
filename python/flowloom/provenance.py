"""Provenance of a result: enough to reproduce it, and nothing private."""

from __future__ import annotations

import datetime
import functools
import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flowloom import integrity
from flowloom.scenario import engine_id


@functools.cache
def tree() -> tuple[str, bool] | None:
    """Return the commit of the source tree that the package runs from, and whether the tree has no changes.

    Changes of the claims ledgers do not count, since runs write them. The result is None for an installed package.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        changes = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)papers/*/claims.json")
        return head, not changes
    except (OSError, subprocess.SubprocessError):
        return None


def commit() -> str | None:
    """Return the commit of the source tree, with `+` if the tree has changes; None for an installed package."""
    found = tree()
    return found[0] + ("" if found[1] else "+") if found else None


def _git(tree: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(tree), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def command() -> str:
    """Return the command line, with the home directory as `~`."""
    program = Path(sys.argv[0])
    # `python -m flowloom` is the same command.
    words = ["flowloom" if program.parts[-2:] == ("flowloom", "__main__.py") else program.name, *sys.argv[1:]]
    home = str(Path.home())
    return shlex.join(words).replace(home, "~") if home != "/" else shlex.join(words)


def record(seed: int | None, wall_s: float, peak_rss_mb: float | None) -> dict[str, Any]:
    """Return the content of `provenance.json`. Times and the machine are in no other file, so those are reproducible."""
    return {
        "format": integrity.FORMAT,
        "flowloom": version("flowloom"),
        "commit": commit(),
        "engine": engine_id(),
        "seed": seed,
        "command": command(),
        "python": platform.python_version(),
        "machine": {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count()},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "wall_s": wall_s,
        "peak_rss_mb": peak_rss_mb,
    }
