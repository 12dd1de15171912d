"""Thresholds by simulation: `flowloom.search_thresholds`. The search starts from the analytic and the published sets.

The final comparison uses fresh seeds. With the seeds of the search, the best of many sets looks better
than it is.
"""

from __future__ import annotations

import dataclasses
import os
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from flowloom import toml
from flowloom._native import ScenarioError
from flowloom.demotion import analytic, model
from flowloom.demotion.search import Evaluator, Objective, Search, Set
from flowloom.demotion.sizes import PACKET_BYTES, Sizes
from flowloom.demotion.snippet import snippet
from flowloom.jobs import Store
from flowloom.progress import Reporter
from flowloom.results import seed_of
from flowloom.scenario import Scenario, Source
from flowloom.stats import Estimate, estimate

_FRESH = 1000
"""The distance from the search's first seed to that of the final comparison."""
_FRESH_MIN = 4
_SHARE_OF_FRESH = 0.3


@dataclasses.dataclass(frozen=True)
class Compared:
    """A set in the final comparison."""

    name: str
    thresholds: Set
    """Bytes, ascending."""
    values: list[Estimate]
    """The metric at each load, over the fresh seeds."""
    difference: Estimate
    """The difference to the analytic set, paired by seed: of the metric, or over several loads of the worst or mean ratio."""
    ratios: list[float]
    """The metric's mean at each load, divided by that of the set that was found for this load alone."""


@dataclasses.dataclass(frozen=True)
class Found:
    """The outcome of a search by simulation."""

    sizes: Sizes
    queues: int
    metric: str
    over: str
    loads: list[float]
    thresholds: Set
    """Bytes, strictly ascending."""
    compared: list[Compared]
    """The found set, the analytic set, and the other sets from which the search started."""
    runs: int
    """The number of runs, including those that were in the store."""
    rounds: int
    seconds: float

    @property
    def sets(self) -> dict[str, Set]:
        """The sets of the final comparison by name, beginning with the found set."""
        return {each.name: each.thresholds for each in self.compared}

    @property
    def about(self) -> str:
        """A description of these thresholds, on one line."""
        loads = ", ".join(f"{load:g}" for load in self.loads)
        return f"{self.sizes.name}, load {loads}, at most {self.queues} queues, least {self.metric} in {self.runs} simulations"

    @property
    def snippet(self) -> str:
        """The table of a scenario that sets these thresholds."""
        return snippet(self.thresholds, self.about)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values: thresholds in bytes and in packets of 1460 B, values in the metric's unit."""
        return {
            "sizes": self.sizes.name,
            "queues": self.queues,
            "queues_used": len(self.thresholds) + 1,
            "metric": self.metric,
            "loads": self.loads,
            "over": self.over if len(self.loads) > 1 else None,
            "thresholds_bytes": list(self.thresholds),
            "thresholds_packets": [t / PACKET_BYTES for t in self.thresholds],
            "compared": [
                dataclasses.asdict(c) | {"values": [v._asdict() for v in c.values], "difference": c.difference._asdict()}
                for c in self.compared
            ],
            "runs": self.runs,
            "rounds": self.rounds,
            "snippet": self.snippet,
        }


def search_thresholds(
    scenario: Source,
    queues: int = model.QUEUES_MAX,
    *,
    metric: str = "slowdown.mean",
    loads: Sequence[float] | None = None,
    over: str = "worst",
    reading: str = "bursts",
    budget: int = 120,
    executor: Executor | None = None,
    workers: int | None = None,
    runs: str | os.PathLike[str] | None = None,
    reporter: Reporter | None = None,
) -> Found:
    """Search demotion thresholds by simulating `pias` on a scenario.

    Args:
        scenario: A path, a dict, TOML text or a Scenario. Its `workload.sizes` must be a table's name or a CDF file. The
            search sets the transport, the thresholds, the load and the seed, and leaves the other keys as they are.
        queues: The maximum number of priority queues, 2 to 8.
        metric: The metric to minimise: an expression over a run's summary, such as `fct_us.mean`.
        loads: Values of `workload.load`; with several, one set for all of them is found. By default the scenario's own load.
        over: With several loads, minimise the `worst` or the `mean` ratio to the set that was found for each load alone.
        reading: The reading of the objective for the analytic set, which all sets are compared with.
        budget: The maximum number of runs. A quarter to a third of them are for the final comparison.
        executor: Where to run; by default one local process per core.
        workers: The number of local processes, instead of one per core.
        runs: A folder for finished runs, which are not repeated, so that an interrupted search can be continued.
        reporter: Receives progress and warnings.

    Raises:
        ScenarioError: The scenario or an argument is not valid, or the budget is too small.
        RunError: A run failed, or ended with flows unfinished.
    """
    begin = time.perf_counter()
    terms = _Terms.of(Scenario.of(scenario), queues, loads, over, reading)
    compared_with = terms.starts(terms.loads)
    fresh = _fresh_seeds(terms, len(compared_with) + 1, budget)
    evaluator = Evaluator(
        terms.scenarios,
        metric,
        executor=executor,
        workers=workers,
        store=Store(Path(runs), flows=False) if runs is not None else None,
        reporter=_Batches(reporter, budget) if reporter else None,
    )
    for_search = budget - len(fresh) * _runs_per_fresh_seed(terms, len(compared_with) + 1)
    bests: dict[float, Set] = {}
    rounds = 0
    for number, load in enumerate(terms.loads, 1):
        evaluator.limit = for_search * number // (len(terms.loads) + terms.several)
        search = Search(Objective(evaluator, {load: None}), queues, terms.sizes.largest, terms.first_seed)
        bests[load] = search.run(terms.starts([load]))
        rounds += search.rounds
    objective = Objective(evaluator, bests if terms.several else dict.fromkeys(bests), over)
    chosen = bests[terms.loads[0]]
    if terms.several:
        evaluator.limit = for_search
        search = Search(objective, queues, terms.sizes.largest, terms.first_seed)
        chosen = search.run(compared_with | {f"best at {load:g}": best for load, best in bests.items()})
        rounds += search.rounds
    evaluator.limit = budget
    compared = _compare(objective, bests, {"found": chosen} | compared_with, fresh)
    seconds = time.perf_counter() - begin
    return Found(terms.sizes, queues, metric, over, terms.loads, chosen, compared, evaluator.spent, rounds, seconds)


@dataclasses.dataclass(frozen=True)
class _Terms:
    """The checked arguments of a search."""

    sizes: Sizes
    queues: int
    loads: list[float]
    over: str
    reading: str
    scenarios: dict[float, Scenario]
    first_seed: int

    @classmethod
    def of(cls, base: Scenario, queues: int, loads: Sequence[float] | None, over: str, reading: str) -> _Terms:
        resolved = tomllib.loads(base.resolve())
        own = toml.lookup(resolved, "workload.load")
        if own is None:
            kind = toml.lookup(resolved, "workload.kind")
            raise ScenarioError(
                f'a workload of kind "{kind}" has no load, which the first sets are computed for; set workload.load'
            )
        chosen = [float(own)] if loads is None else sorted({float(load) for load in loads})
        analytic.check(chosen, queues, reading, over)
        if queues < 2:
            raise ScenarioError("1 queue has no thresholds; give 2 queues or more")
        sizes = _sizes(base, toml.lookup(resolved, "workload.sizes"))
        analytic.check_supported(sizes, queues)
        scenarios = {load: base.set({"workload.load": load}) for load in chosen}
        seed = seed_of(resolved)
        return cls(sizes, queues, chosen, over, reading, scenarios, 1 if seed is None else seed)

    @property
    def several(self) -> bool:
        return len(self.loads) > 1

    def starts(self, loads: Sequence[float]) -> dict[str, Set]:
        """Return the initial sets for some of the loads, by name, beginning with the analytic set."""
        readings = [self.reading] if len(loads) > 1 else [self.reading, *(r for r in model.READINGS if r != self.reading)]
        found = {
            f"analytic, {reading}": analytic.thresholds(self.sizes, loads, self.queues, reading=reading, over=self.over)
            for reading in readings
        }
        sets = {name: solution.thresholds for name, solution in found.items()}
        for rival in found[f"analytic, {self.reading}"].loads[-1].rivals:
            if len(rival.thresholds) < self.queues:
                sets[rival.name] = tuple(sorted(set(rival.thresholds)))
        return sets


def _sizes(base: Scenario, sizes: Any) -> Sizes:
    if isinstance(sizes, str):
        return Sizes.of(sizes)
    if isinstance(sizes, dict) and "cdf" in sizes:
        return Sizes.of(Path(base.path).parent / sizes["cdf"], sizes.get("dialect"))
    raise ScenarioError(
        'the first sets are computed from workload.sizes, which must be a table\'s name or { cdf = "FILE.csv" }; '
        f"it is {'missing' if sizes is None else toml.value(sizes)}"
    )


def _runs_per_fresh_seed(terms: _Terms, sets: int) -> int:
    # Ratios also need runs of each load's own best set.
    return len(terms.loads) * (sets + terms.several)


def _fresh_seeds(terms: _Terms, sets: int, budget: int) -> range:
    """Return the seeds of the final comparison."""
    each = _runs_per_fresh_seed(terms, sets)
    count = max(_FRESH_MIN, int(_SHARE_OF_FRESH * budget) // each)
    least = 2 * _FRESH_MIN * each
    if budget < least:
        raise ScenarioError(
            f"a budget of {budget} runs is too small: the comparison of {sets} sets at {len(terms.loads)} load(s) takes "
            f"{_FRESH_MIN * each} runs, and the search at least as many; give {least} or more"
        )
    return range(terms.first_seed + _FRESH, terms.first_seed + _FRESH + count)


def _compare(objective: Objective, bests: dict[float, Set], sets: dict[str, Set], seeds: range) -> list[Compared]:
    evaluator = objective.evaluator
    costs = objective.costs(list(dict.fromkeys(sets.values())), seeds)
    reference = next(t for name, t in sets.items() if name.startswith("analytic"))
    compared = []
    for name, thresholds in sets.items():
        difference = estimate([a - b for a, b in zip(costs[thresholds], costs[reference], strict=True)])
        values = [estimate([evaluator.value(load, thresholds, seed) for seed in seeds]) for load in bests]
        ratios = []
        if len(bests) > 1:
            least = [estimate([evaluator.value(load, best, seed) for seed in seeds]) for load, best in bests.items()]
            ratios = [value.mean / own.mean for value, own in zip(values, least, strict=True)]
        compared.append(Compared(name, thresholds, values, difference, ratios))
    return compared


class _Batches:
    """Reports the many batches of a search to a reporter as one batch of `budget` runs."""

    def __init__(self, reporter: Reporter, budget: int) -> None:
        self._reporter = reporter
        self._kept = 0
        reporter.begin(budget, kept=0)

    def begin(self, runs: int, *, kept: int) -> None:
        for _ in range(kept):
            self._kept += 1
            self.finished(f"kept {self._kept}", "")

    def prepare(self, text: str) -> None:
        self._reporter.prepare(text)

    def progress(self, key: str, label: str, done: float, sim_s: float, packet_hops: int) -> None:
        self._reporter.progress(key, label, done, sim_s, packet_hops)

    def finished(self, key: str, label: str) -> None:
        self._reporter.finished(key, label)

    def failed(self, key: str, label: str) -> None:
        self._reporter.failed(key, label)

    def warn(self, text: str) -> None:
        self._reporter.warn(text)

    def note(self, text: str) -> None:
        self._reporter.note(text)
