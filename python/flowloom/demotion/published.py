"""Published thresholds, from `data/thresholds/pias_published.csv`, which names their sources."""

from __future__ import annotations

import csv
import functools
from importlib import resources
from typing import NamedTuple

from flowloom._native import ScenarioError
from flowloom.words import suggestion

_FILE = "pias_published.csv"


class Published(NamedTuple):
    """One published set."""

    source: str
    """The publication, as explained in the file's comments: `pias` or `homa`."""
    workload: str
    """The flow-size table that the set is for."""
    load: float
    thresholds: tuple[int, ...]
    """Bytes, ascending."""


@functools.cache
def sets() -> tuple[Published, ...]:
    """Return all published sets."""
    lines = resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return tuple(
        Published(
            row["source"],
            row["workload"],
            float(row["load"]),
            tuple(int(value) * int(row["unit_bytes"]) for name, value in row.items() if name.startswith("alpha_")),
        )
        for row in rows
    )


def find(workload: str, load: float) -> Published | None:
    """Return the set for a table and a load, None if none was published."""
    return next((s for s in sets() if s.workload == workload and abs(s.load - load) < 1e-9), None)


def get(workload: str, load: float | None) -> Published:
    """Return the set for a table and a load.

    Raises:
        ScenarioError: No such set was published; the message lists those that were.
    """
    workloads = list(dict.fromkeys(s.workload for s in sets()))
    if workload not in workloads:
        raise ScenarioError(f'no thresholds were published for "{workload}": {suggestion(workload, workloads)}')
    loads = sorted(s.load for s in sets() if s.workload == workload)
    found = None if load is None else find(workload, load)
    if found is None:
        asked = "give one of them with --load" if load is None else f"there are none for {load:g}"
        raise ScenarioError(f"{workload} has published thresholds for the loads {', '.join(f'{v:g}' for v in loads)}; {asked}")
    return found
