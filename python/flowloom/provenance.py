"""Where a result came from: enough to make it again, nothing that is private."""

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

from flowloom.scenario import engine_id


@functools.cache
def commit() -> str | None:
    """Give the commit of the source tree the package runs from, with `+` if it has changes; None if it is installed."""
    tree = Path(__file__).resolve().parents[2]
    if not (tree / ".git").exists():
        return None
    try:
        head = _git(tree, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(tree, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(tree: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(tree), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def command() -> str:
    """Give the command line, with the home directory as `~`."""
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    home = str(Path.home())
    return shlex.join(words).replace(home, "~") if home != "/" else shlex.join(words)


def record(seed: int | None, wall_s: float, peak_rss_mb: float | None) -> dict[str, Any]:
    """Give what `provenance.json` holds; times and the machine live here so that all other files are reproducible."""
    return {
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
