"""Thresholds from a distribution of sizes and a load alone: the command's work, and `flowloom.thresholds`."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowloom._native import ScenarioError
from flowloom.demotion import model, published
from flowloom.demotion.sizes import PACKET_BYTES, Floats, Sizes
from flowloom.demotion.snippet import snippet
from flowloom.demotion.solver import minimise
from flowloom.metrics import significant
from flowloom.words import suggestion


@dataclasses.dataclass(frozen=True)
class Rival:
    """A set to compare with."""

    name: str
    thresholds: tuple[int, ...]
    """Bytes, ascending."""
    objective: float


@dataclasses.dataclass(frozen=True)
class AtLoad:
    """How the thresholds do at one load."""

    load: float
    objective: float
    """What they cost there, packet times."""
    best: Rival
    """The thresholds that are best at this load; with one load, these."""
    searched: float
    """What the search at this load came to by itself, before it looked at the rivals."""
    rivals: list[Rival]
    """The equal split, and the published set where there is one for this table and load."""

    @property
    def ratio(self) -> float:
        """The objective over the least at this load."""
        return self.objective / self.best.objective


@dataclasses.dataclass(frozen=True)
class Solution:
    """Thresholds, and what they are worth."""

    sizes: Sizes
    queues: int
    """How many there may be; `len(thresholds) + 1` are used."""
    reading: str
    over: str
    thresholds: tuple[int, ...]
    """Bytes, strictly ascending. A packet has the class of the first threshold that its offset in the flow does not exceed."""
    loads: list[AtLoad]
    seconds: float
    """How long the search took."""

    @property
    def objective(self) -> float:
        """What was minimised: mean delay in packet times; with several loads, the worst or mean ratio to the least."""
        if len(self.loads) == 1:
            return self.loads[0].objective
        ratios = [at.ratio for at in self.loads]
        return max(ratios) if self.over == "worst" else sum(ratios) / len(ratios)

    @property
    def sets(self) -> dict[str, tuple[int, ...]]:
        """Give these thresholds and the rivals', by name; with several loads, the rivals at the highest."""
        return {"found": self.thresholds} | {rival.name: rival.thresholds for rival in self.loads[-1].rivals}

    @property
    def about(self) -> str:
        """Say in a line what these thresholds are for."""
        loads = ", ".join(f"{at.load:g}" for at in self.loads)
        objective = significant(self.objective, 4)
        return f"{self.sizes.name}, load {loads}, at most {self.queues} queues, reading {self.reading}: {objective}"

    @property
    def snippet(self) -> str:
        """The table of a scenario that sets these thresholds."""
        return snippet(self.thresholds, self.about)

    def as_json(self) -> dict[str, Any]:
        """Give everything as plain values; thresholds in bytes and in packets of 1460 B, the objective in packet times."""
        return {
            "sizes": self.sizes.name,
            "mean_bytes": self.sizes.mean,
            "queues": self.queues,
            "queues_used": len(self.thresholds) + 1,
            "reading": self.reading,
            "thresholds_bytes": list(self.thresholds),
            "thresholds_packets": [t / PACKET_BYTES for t in self.thresholds],
            "objective": self.objective,
            "over": self.over if len(self.loads) > 1 else None,
            "loads": [dataclasses.asdict(at) | {"ratio": at.ratio} for at in self.loads],
            "seconds": round(self.seconds, 3),
            "snippet": self.snippet,
        }


def thresholds(
    sizes: str | os.PathLike[str] | Sizes,
    load: float | Sequence[float],
    queues: int = model.QUEUES_MAX,
    *,
    reading: str = "exact",
    over: str = "worst",
    dialect: str | None = None,
) -> Solution:
    """Find demotion thresholds that minimise the mean flow completion time of section III-C of the PIAS paper.

    Args:
        sizes: The flow sizes: a table's name (`web_search`), a file, or a `Sizes`.
        load: Offered load of the bottleneck, above 0 and below 1; or several, for one set that is good at all of them.
        queues: How many priority queues there may be, 1 to 8.
        reading: How the objective is read: `exact`, `bound` or `per_packet` (`flowloom.demotion.model.READINGS`).
        over: With several loads, minimise the `worst` or the `mean` ratio of the objective to its least at that load.
        dialect: How a file's columns are meant; `flows` for a log of flows, `histogram` for reported sizes.

    Returns:
        The thresholds in bytes, the objective in packet times, and what other sets give.

    Raises:
        ScenarioError: An argument is out of range, the sizes cannot be read, or they cannot tell so many queues apart.
    """
    begin = time.perf_counter()
    loads = [float(load)] if isinstance(load, int | float) else sorted({float(value) for value in load})
    check(loads, queues, reading, over)
    distribution = Sizes.of(sizes, dialect)
    check_supported(distribution, queues)
    split = model.equal_split(distribution, queues)
    costs = [model.cost(distribution, value, reading) for value in loads]
    known = [published.find(distribution.name, value) for value in loads]
    rivals = [[split, *_comparable(found, queues)] for found in known]
    searches = [minimise(cost, distribution, queues, rivals=others) for cost, others in zip(costs, rivals, strict=True)]
    bests = [search.thresholds for search in searches]
    chosen = bests[0]
    if len(loads) > 1:
        least = [float(cost(best)) for cost, best in zip(costs, bests, strict=True)]
        padded = [np.pad(best, (0, queues - 1 - len(best)), constant_values=distribution.largest) for best in bests]
        chosen = minimise(model.OVER_LOADS[over](costs, least), distribution, queues, starts=padded, rivals=padded).thresholds
    rows = [
        AtLoad(
            value,
            float(cost(chosen)),
            _rival("best", search.thresholds, cost),
            float(cost(search.searched)),
            _rivals(split, found, cost),
        )
        for value, cost, search, found in zip(loads, costs, searches, known, strict=True)
    ]
    return Solution(distribution, queues, reading, over, _bytes(chosen), rows, time.perf_counter() - begin)


def check(loads: Sequence[float], queues: int, reading: str, over: str) -> None:
    """Raise ScenarioError for what is out of range whatever the sizes are."""
    if not loads:
        raise ScenarioError("no load is given; give one or more, above 0 and below 1")
    for value in loads:
        if not 0 < value < 1:
            raise ScenarioError(f"load {value:g}: a link can carry loads above 0 and below 1; at 1 its queue has no limit")
    if not 1 <= queues <= model.QUEUES_MAX:
        raise ScenarioError(f"{queues} queues: switches have 1 to {model.QUEUES_MAX} priorities")
    if reading not in model.READINGS:
        raise ScenarioError(f'no reading "{reading}" of the objective: {suggestion(reading, model.READINGS)}')
    if over not in model.OVER_LOADS:
        raise ScenarioError(f'loads cannot be weighed by "{over}": {suggestion(over, model.OVER_LOADS)}')


def check_supported(sizes: Sizes, queues: int) -> None:
    """Raise ScenarioError if the sizes cannot tell so many queues apart."""
    if queues > sizes.queues:
        raise ScenarioError(
            f"{queues} queues are more than {sizes.name} can fill: counted in packets of {PACKET_BYTES} B, its flows have "
            f"{sizes.queues} different size(s), and each queue needs flows that end in it; give {sizes.queues} or fewer"
        )


def _comparable(found: published.Published | None, queues: int) -> list[Floats]:
    """Give a published set to compare with, if it is for this many queues."""
    return [np.array(found.thresholds, dtype=np.float64)] if found and len(found.thresholds) == queues - 1 else []


def _rivals(split: Floats, found: published.Published | None, cost: model.Cost) -> list[Rival]:
    rivals = [_rival("equal split", split, cost)]
    if found:
        rivals.append(_rival(f"published ({found.source})", np.array(found.thresholds, dtype=np.float64), cost))
    return rivals


def _rival(name: str, at: Floats, cost: model.Cost) -> Rival:
    return Rival(name, _bytes(at), float(cost(at)))


def _bytes(at: Floats) -> tuple[int, ...]:
    return tuple(round(float(value)) for value in at)
