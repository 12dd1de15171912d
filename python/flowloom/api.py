"""The Python API for single runs: `run` and `load`. See `flowloom.sweeps` for grids, and `flowloom.comparisons`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from flowloom import outputs
from flowloom.engine import cores, execute
from flowloom.jobs import whole_number
from flowloom.limits import THREADS_MAX
from flowloom.results import Results, load
from flowloom.scenario import Progress, Scenario, Source

__all__ = ["load", "run"]


def run(
    scenario: Source,
    changes: Mapping[str, Any] | None = None,
    /,
    *,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
    threads: int | None = None,
    **overrides: Any,
) -> Results:
    """Simulate one scenario.

    Args:
        scenario: A path, a dict, TOML text or a Scenario.
        changes: Overrides with dotted keys: `{"workload.load": 0.8}`.
        out: A directory to save the result in; it is checked before the run. See `Results.save`.
        force: Replace the result of another scenario or build in `out`.
        progress: Called about ten times a second with (share done, simulated seconds, packet-hops); it may raise to stop
            the run.
        threads: The most threads that the run is spread over, instead of one per core. Results do not depend on it.
        **overrides: Overrides with `__` in place of the dots: `workload__load=0.8`.

    Raises:
        ScenarioError: The scenario is not valid, or `out` holds something that may not be replaced.
        RunError: The simulation failed.
    """
    wanted = Scenario.of(scenario).set(changes or {}).set(overrides)
    threads = cores() if threads is None else whole_number("threads", threads, "threads", THREADS_MAX)
    plan = wanted.plan(progress)
    if out is None:
        return execute(plan, progress, threads)
    with outputs.claim(out, outputs.RESULT, plan.key, force=force) as output:
        results = execute(plan, progress, threads)
        results.write(output)
    return results
