"""Simulates thresholds that a model recommends, with others, and recommends the best: `flowloom.check_thresholds`."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

from flowloom import toml
from flowloom._native import ScenarioError
from flowloom.demotion.analytic import Check, Checked, Solution
from flowloom.demotion.search import Evaluator, Objective, Set
from flowloom.demotion.sizes import Sizes
from flowloom.jobs import whole_number
from flowloom.progress import Reporter
from flowloom.results import seed_of
from flowloom.scenario import Scenario, Source
from flowloom.stats import estimate

METRIC = "slowdown.mean"
SEEDS = 5
_BYTES = 6e8
"""About what a run carries in bytes, which takes the simulator about a second."""
_FLOWS = (150, 20_000)
"""The minimum and maximum number of flows of a run."""
FABRIC = {
    "topology": {
        "kind": "leaf_spine", "racks": 2, "hosts_per_rack": 4, "spines": 2, "host_rate": "25Gb/s", "spine_rate": "100Gb/s",
    },
    "fabric": {"buffer": "1MB"},
    "workload": {"kind": "poisson", "sizes": "web_search", "load": 0.8, "flows": 20_000},
    "transport": {"name": "pias"},
}  # fmt: skip
"""The default. The hosts are so few that each sends many flows, and the memory is so large that losses do not decide."""
DEFAULT = "the default fabric (8 hosts, 25 Gb/s, 1 MB per port)"


def check_thresholds(
    solution: Solution,
    scenario: Source | None = None,
    *,
    metric: str = METRIC,
    seeds: int = SEEDS,
    executor: Executor | None = None,
    workers: int | None = None,
    reporter: Reporter | None = None,
) -> Check:
    """Simulate the thresholds of a solution, the equal split, and the published set for these sizes and this load.

    A published set takes part if it has no more queues than the solution may have.

    All sets run with the same seeds, and so on the same flows. With several loads, they run at the highest one. A run has as
    many flows as it can simulate in about a second, and at most as many as the scenario.

    Args:
        solution: What `flowloom.thresholds` returned.
        scenario: The fabric and the traffic matrix, with a workload that has a load; by default a small leaf-spine fabric. Its
            transport, thresholds, sizes, load and seed are replaced.
        metric: The metric that decides; less is better.
        seeds: The number of seeds, at least 2.
        executor: Where to run; by default one local process per core.
        workers: The number of local processes, instead of one per core.
        reporter: Receives progress.

    Raises:
        ScenarioError: The scenario or an argument is not valid.
        RunError: A run failed, or ended with flows unfinished.
    """
    seeds = whole_number("seeds", seeds, "runs of each set")
    if seeds < 2:
        raise ScenarioError(f"{seeds} seed(s): an interval needs 2 or more")
    base = Scenario.of(FABRIC if scenario is None else scenario)
    load = solution.loads[-1].load
    every = {name: _distinct(thresholds) for name, thresholds in solution.sets.items()}
    sets = {name: at for name, at in every.items() if len(at) < solution.queues}
    with _with_sizes(base, solution.sizes) as sized:
        flows, first = _terms(sized, solution.sizes)
        runs = Evaluator(
            {load: sized.set({"workload.load": load, "workload.flows": flows})},
            metric, executor=executor, workers=workers, reporter=reporter,
        )  # fmt: skip
        runs.limit = len(sets) * seeds
        costs = Objective(runs, {load: None}).costs(list(dict.fromkeys(sets.values())), range(first, first + seeds))
    split = costs[sets["equal split"]]
    checked = [
        Checked(name, at, estimate(costs[at]), estimate([a - b for a, b in zip(costs[at], split, strict=True)]))
        for name, at in sets.items()
    ]
    fabric = base.path or (DEFAULT if base.text == Scenario.of(FABRIC).text else "the given scenario")
    return Check(fabric, load, metric, flows, checked)


def _distinct(thresholds: Sequence[int]) -> Set:
    """Return the thresholds without repetitions, which make no queue."""
    return tuple(sorted({each for each in thresholds if each >= 1}))


def _terms(scenario: Scenario, sizes: Sizes) -> tuple[int, int]:
    """Return the number of flows and the first seed."""
    resolved = tomllib.loads(scenario.resolve())
    if toml.lookup(resolved, "workload.load") is None or toml.lookup(resolved, "workload.flows") is None:
        kind = toml.lookup(resolved, "workload.kind")
        raise ScenarioError(
            f'a workload of kind "{kind}" has no load or no number of flows, so thresholds cannot be checked on it; give a '
            "scenario with a poisson workload, or --no-check"
        )
    least, most = _FLOWS
    asked = int(toml.lookup(resolved, "workload.flows"))
    seed = seed_of(resolved)
    return min(asked, max(least, min(most, round(_BYTES / sizes.mean)))), 1 if seed is None else seed


@contextmanager
def _with_sizes(base: Scenario, sizes: Sizes) -> Iterator[Scenario]:
    """Give a scenario the transport and these sizes, in a file that exists meanwhile."""
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        file = Path(folder) / "sizes.csv"
        # The first two points are those that `Sizes.through` puts before the first.
        points = zip(sizes.bytes[2:], sizes.share[2:], strict=True)
        rows = "".join(f"{round(float(size))},{float(share)!r}\n" for size, share in points)
        file.write_text(f"bytes,cumulative_probability\n{rows}", encoding="utf-8")
        cdf = {"cdf": str(file), "dialect": "bytes_probability"}
        yield base.set({"transport.name": "pias", "workload.sizes": cdf})
