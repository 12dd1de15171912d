"""A local search for thresholds whose cost is measured by simulation.

Every set is run with the same seeds, and so on the same flows. Sets are compared by the mean of differences paired by seed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, TypeAlias

import numpy as np

from flowloom import metrics
from flowloom._native import RunError
from flowloom.demotion.sizes import PACKET_BYTES
from flowloom.demotion.snippet import KEY, quantities
from flowloom.jobs import Job, Store, run_jobs
from flowloom.progress import Reporter
from flowloom.scenario import Scenario
from flowloom.stats import Estimate, estimate

Set: TypeAlias = tuple[int, ...]
"""Thresholds in bytes, ascending."""

_FIRST_SEEDS = 2
_SEEDS_MAX = 16
_NEIGHBOURS = 6
_FIRST_STEP, _LAST_STEP, _SHRINK = 0.7, 0.08, 0.6
_SEEDS_MIN = 4
"""The minimum number of seeds for accepting a set. With fewer seeds, runs that agree by chance look significant."""


class BudgetSpent(Exception):  # noqa: N818, it is not an error
    """Ends a search that has no runs left."""


class Evaluator:
    """Simulates thresholds on the scenario at each load, and stores the metric of each run."""

    def __init__(
        self,
        scenarios: Mapping[float, Scenario],
        metric: str,
        *,
        executor: Executor | None = None,
        workers: int | None = None,
        store: Store | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self.scenarios = dict(scenarios)
        self.metric = metric
        self.limit = 0
        """The maximum number of runs, counted from the beginning."""
        self.spent = 0
        self._how: dict[str, Any] = {"executor": executor, "workers": workers, "store": store, "reporter": reporter}
        self._known: dict[tuple[float, Set, int], float] = {}
        self._sets: dict[Set, int] = {}

    def measure(self, wanted: Iterable[tuple[float, Set, int]]) -> None:
        """Simulate the runs (load, thresholds, seed) that are not stored yet.

        Raises:
            BudgetSpent: The limit does not allow all of them; none was simulated.
            RunError: A run failed, or ended with flows unfinished.
        """
        missing = [run for run in dict.fromkeys(wanted) if run not in self._known]
        if self.spent + len(missing) > self.limit:
            raise BudgetSpent
        jobs = {run: self._job(*run) for run in missing}
        made = run_jobs(list(jobs.values()), **self._how)
        self.spent += len(missing)
        for run, job in jobs.items():
            self._known[run] = self._read(job, made[job.key].summary)

    def value(self, load: float, thresholds: Set, seed: int) -> float:
        """Return the metric of a run that `measure` has simulated."""
        return self._known[load, thresholds, seed]

    def _job(self, load: float, thresholds: Set, seed: int) -> Job:
        number = self._sets.setdefault(thresholds, len(self._sets) + 1)
        changes = {"transport.name": "pias", KEY: quantities(thresholds), "run.seed": seed}
        return Job.of(f"set {number}, load {load:g}, seed {seed}", self.scenarios[load].set(changes))

    def _read(self, job: Job, summary: Mapping[str, Any]) -> float:
        if summary["finished"] < summary["flows"]:
            raise RunError(
                f"{job.label}: {summary['finished']} of {summary['flows']} flows finished. {self.metric} counts only "
                "these, so it would favour thresholds that starve flows; raise or remove run.time_limit"
            )
        found = metrics.evaluate(self.metric, summary)
        if math.isnan(found):
            raise RunError(f"{job.label}: this run has no value of {self.metric}")
        return found


@dataclasses.dataclass(frozen=True)
class Objective:
    """The cost of thresholds with a seed: the metric, or over several loads its ratios to each load's own best set."""

    evaluator: Evaluator
    bests: Mapping[float, Set | None]
    """The loads, each with the set whose metric is the divisor; None for the metric itself."""
    over: str = "worst"

    def costs(self, sets: Sequence[Set], seeds: Sequence[int]) -> dict[Set, list[float]]:
        """Return the costs of each set, one for each seed; less is better. All missing runs are simulated together."""
        pairs = [(load, t, s) for t in sets for s in seeds for load in self.bests]
        bests = [(load, best, s) for load, best in self.bests.items() for s in seeds if best is not None]
        self.evaluator.measure(pairs + bests)
        return {t: [self._cost(t, seed) for seed in seeds] for t in sets}

    def _cost(self, thresholds: Set, seed: int) -> float:
        found = []
        for load, best in self.bests.items():
            value = self.evaluator.value(load, thresholds, seed)
            found.append(value if best is None else value / self.evaluator.value(load, best, seed))
        return max(found) if self.over == "worst" else math.fsum(found) / len(found)


class Search:
    """A local search that starts from the best of some sets, and moves only to significantly better ones."""

    def __init__(self, objective: Objective, queues: int, largest: float, first_seed: int) -> None:
        self.objective = objective
        self.queues = queues
        self.largest = largest
        self.first_seed = first_seed
        self.rounds = 0
        self._draw = np.random.default_rng(1)

    def run(self, named: Mapping[str, Set]) -> Set:
        """Search until moves become small or the evaluator's limit is reached; return the best set.

        If the limit does not allow any comparison, that is the first set of `named`.
        """
        starts = list(dict.fromkeys(named.values()))
        best, step = starts[0], _FIRST_STEP
        try:
            best = self._screen(starts)
            while step > _LAST_STEP:
                self.rounds += 1
                better = self._race(best, self._neighbours(best, step))
                best, step = (better, step) if better else (best, step * _SHRINK)
        except BudgetSpent:
            pass
        return best

    def _seeds(self, count: int) -> range:
        return range(self.first_seed, self.first_seed + count)

    def _screen(self, starts: Sequence[Set]) -> Set:
        costs = self.objective.costs(starts, self._seeds(_FIRST_SEEDS))
        return min(starts, key=lambda t: math.fsum(costs[t]))

    def _race(self, best: Set, others: list[Set]) -> Set | None:
        """Return a set that is significantly better than `best`, or None. Rounds double the seeds and halve the candidates."""
        seeds = _FIRST_SEEDS
        while others and seeds <= _SEEDS_MAX:
            costs = self.objective.costs([best, *others], self._seeds(seeds))
            differences = {t: estimate([a - b for a, b in zip(costs[t], costs[best], strict=True)]) for t in others}
            others = sorted((t for t in others if differences[t].mean < 0), key=lambda t: differences[t].mean)
            if len(others) == 1 and seeds >= _SEEDS_MIN and _below_zero(differences[others[0]]):
                return others[0]
            others = others[: max(1, len(others) // 2)]
            seeds *= 2
        return None

    def _neighbours(self, best: Set, step: float) -> list[Set]:
        """Return sets near `best`.

        Thresholds are multiplied by about e**step or e**-step: all by the same factor, each by its own, or one alone. One set
        has a threshold more or fewer.
        """
        at = np.log(np.array(best, dtype=np.float64))
        alone = np.zeros(len(at))
        moved = [at + step, at - step]
        if len(at):
            alone[self._draw.integers(len(at))] = step
            moved += [at + self._draw.normal(0, step, len(at)) for _ in range(_NEIGHBOURS - 4)]
            moved += [at + alone * self._draw.choice([-1, 1])]
        if len(at) < self.queues - 1:
            low, high = math.log(PACKET_BYTES), math.log(self.largest)
            moved.append(np.append(at, self._draw.uniform(low, max(low, high))))
        else:
            moved.append(np.delete(at, self._draw.integers(len(at))))
        found = (tuple(round(float(t)) for t in np.exp(np.sort(to)).clip(1, self.largest - 1)) for to in moved)
        return [t for t in dict.fromkeys(found) if t != best and len(set(t)) == len(t)]


def _below_zero(difference: Estimate) -> bool:
    return difference.half_width is not None and difference.mean + difference.half_width < 0
