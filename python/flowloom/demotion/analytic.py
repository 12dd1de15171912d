"""Thresholds from a distribution of flow sizes and a load, by the queueing model: `flowloom.thresholds`."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flowloom import metrics
from flowloom._native import ScenarioError
from flowloom.demotion import model, published
from flowloom.demotion.sizes import PACKET_BYTES, Floats, Sizes
from flowloom.demotion.snippet import snippet
from flowloom.demotion.solver import minimise
from flowloom.metrics import significant
from flowloom.stats import Estimate
from flowloom.words import shown, suggestion


@dataclasses.dataclass(frozen=True)
class Rival:
    """A set of thresholds to compare with."""

    name: str
    thresholds: tuple[int, ...]
    """Bytes, ascending."""
    objective: float


@dataclasses.dataclass(frozen=True)
class AtLoad:
    """The performance of the thresholds at one load."""

    load: float
    objective: float
    """Their objective at this load, in packet times, or of `bursts` the mean slowdown."""
    best: Rival
    """The best thresholds for this load alone."""
    searched: float
    """The objective that the search at this load found, before it was compared with the rivals."""
    rivals: list[Rival]
    """The equal split, and the published set if there is one for this table and load."""

    @property
    def ratio(self) -> float:
        """The objective divided by that of the best thresholds for this load."""
        return self.objective / self.best.objective


@dataclasses.dataclass(frozen=True)
class Checked:
    """A set of thresholds in a check."""

    name: str
    thresholds: tuple[int, ...]
    """Bytes, ascending."""
    value: Estimate
    """The metric's mean over the seeds."""
    difference: Estimate
    """The difference to the equal split's, paired by seed."""


@dataclasses.dataclass(frozen=True)
class Check:
    """The simulation of the set that a model recommends, of the equal split and of the published set."""

    fabric: str
    """The scenario's file, or a description of the default fabric."""
    load: float
    metric: str
    flows: int
    """Flows of each run."""
    sets: list[Checked]
    """Beginning with the set that the model recommends."""

    @property
    def best(self) -> Checked:
        """The set with the least mean; of equal ones, the first."""
        return min(self.sets, key=lambda each: each.value.mean)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        sets = [dataclasses.asdict(s) | {"value": s.value._asdict(), "difference": s.difference._asdict()} for s in self.sets]
        return {
            "fabric": self.fabric,
            "load": self.load,
            "metric": self.metric,
            "flows": self.flows,
            "sets": sets,
            "recommended": self.best.name,
        }


@dataclasses.dataclass(frozen=True)
class Solution:
    """Thresholds, and their performance."""

    sizes: Sizes
    queues: int
    """The maximum number of queues; `len(thresholds) + 1` are used."""
    reading: str
    over: str
    thresholds: tuple[int, ...]
    """Bytes, strictly ascending. A packet has the class of the first threshold that its offset in the flow does not exceed."""
    loads: list[AtLoad]
    seconds: float
    """The duration of the search."""
    check: Check | None = None
    """The simulation of the thresholds and of their rivals, which may recommend one of these instead."""

    @property
    def recommended(self) -> tuple[int, ...]:
        """The thresholds that did best in the check; without one, those of the model."""
        return self.check.best.thresholds if self.check else self.thresholds

    @property
    def objective(self) -> float:
        """The minimised value: mean delay in packet times; with several loads, the worst or mean ratio to the optimum."""
        if len(self.loads) == 1:
            return self.loads[0].objective
        ratios = [at.ratio for at in self.loads]
        return max(ratios) if self.over == "worst" else sum(ratios) / len(ratios)

    @property
    def sets(self) -> dict[str, tuple[int, ...]]:
        """Return these thresholds and the rivals', by name; with several loads, the rivals at the highest load."""
        return {"found": self.thresholds} | {rival.name: rival.thresholds for rival in self.loads[-1].rivals}

    @property
    def about(self) -> str:
        """A description of these thresholds, on one line."""
        loads = ", ".join(f"{at.load:g}" for at in self.loads)
        objective = significant(self.objective, 4)
        return f"{self.sizes.name}, load {loads}, at most {self.queues} queues, reading {self.reading}: {objective}"

    @property
    def snippet(self) -> str:
        """The table of a scenario that sets these thresholds."""
        if self.check is None:
            return snippet(self.thresholds, self.about)
        best = self.check.best
        name = "" if best.name == "found" else f"{best.name} for "
        value = f"{metrics.label(self.check.metric)} {significant(best.value.mean, 4)} in simulation"
        return snippet(best.thresholds, f"{name}{self.about}; {value}")

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values: the recommended thresholds in bytes and packets of 1460 B, and so on."""
        return {
            "sizes": self.sizes.name,
            "mean_bytes": self.sizes.mean,
            "queues": self.queues,
            "queues_used": len(self.recommended) + 1,
            "reading": self.reading,
            "thresholds_bytes": list(self.recommended),
            "thresholds_packets": [t / PACKET_BYTES for t in self.recommended],
            "found_bytes": list(self.thresholds),
            "objective": self.objective,
            "over": self.over if len(self.loads) > 1 else None,
            "loads": [dataclasses.asdict(at) | {"ratio": at.ratio} for at in self.loads],
            "check": self.check.as_json() if self.check else None,
            "snippet": self.snippet,
        }


def thresholds(
    sizes: str | os.PathLike[str] | Sizes,
    load: float | Sequence[float],
    queues: int = model.QUEUES_MAX,
    *,
    reading: str = "bursts",
    over: str = "worst",
    dialect: str | None = None,
) -> Solution:
    """Find demotion thresholds that minimise the delay of flows in a queueing model of one link.

    Args:
        sizes: The flow sizes: a table's name (`web_search`), a file, or a `Sizes`.
        load: Offered load of the bottleneck, above 0 and below 1; or several loads, for one set for all of them.
        queues: The maximum number of priority queues, 1 to 8.
        reading: The objective: `bursts`, or a reading of the paper's, `exact`, `bound` or `per_packet` (section III-C;
            `flowloom.demotion.model.READINGS`).
        over: With several loads, minimise the `worst` or the `mean` ratio of the objective to the optimum of that load.
        dialect: The format of a file, as for `flowloom import`: `flows` for a log of flows, `histogram`, and so on.

    Returns:
        The thresholds in bytes, the objective (of `bursts` the mean slowdown, of the others in packet times), and a comparison
        with other sets. `flowloom.check_thresholds` simulates them.

    Raises:
        ScenarioError: An argument is out of range, the sizes cannot be read, or they have too few different values for so
            many queues.
    """
    begin = time.perf_counter()
    loads = _loads(load)
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


def _loads(load: Any) -> list[float]:
    """Return the loads, each once. A text is a sequence too, but of no loads."""
    try:
        if isinstance(load, Iterable) and not isinstance(load, str):
            return sorted({float(value) for value in load})
        return [load + 0.0]
    except (TypeError, ValueError):
        wanted = "give a number above 0 and below 1, or a list of such numbers"
        raise ScenarioError(f"load {shown(repr(load))}: {wanted}") from None


def check(loads: Sequence[float], queues: int, reading: str, over: str) -> None:
    """Raise ScenarioError if an argument is out of range, whatever the sizes are."""
    if not loads:
        raise ScenarioError("no load is given; give one or more, above 0 and below 1")
    for value in loads:
        if not 0 < value < 1:
            raise ScenarioError(f"load {value:g}: give a load above 0 and below 1; at load 1 the queue grows without limit")
    if not 1 <= queues <= model.QUEUES_MAX:
        raise ScenarioError(f"{queues} queues: give 1 to {model.QUEUES_MAX}, since switches have no more priorities")
    if reading not in model.READINGS:
        raise ScenarioError(f'unknown reading "{reading}" of the objective: {suggestion(reading, model.READINGS)}')
    if over not in model.OVER_LOADS:
        raise ScenarioError(f'unknown way "{over}" to combine loads: {suggestion(over, model.OVER_LOADS)}')


def check_supported(sizes: Sizes, queues: int) -> None:
    """Raise ScenarioError if the sizes have too few different values for this number of queues."""
    if queues > sizes.queues:
        raise ScenarioError(
            f"{queues} queues are too many for {sizes.name}: its flows have {sizes.queues} different size(s) in packets of "
            f"{PACKET_BYTES} B, and some flow must end in each queue; give {sizes.queues} or fewer"
        )


def _comparable(found: published.Published | None, queues: int) -> list[Floats]:
    """Return a published set to compare with, if it has this number of queues."""
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
