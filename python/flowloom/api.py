"""The Python API for single runs and comparisons: `run`, `compare` and `load`. See `flowloom.sweeps` for grids."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from flowloom import outputs
from flowloom.engine import simulate
from flowloom.results import Results, load
from flowloom.scenario import Progress, Scenario, Source
from flowloom.sweeps import sweep

__all__ = ["compare", "load", "run"]


def run(
    scenario: Source,
    changes: Mapping[str, Any] | None = None,
    /,
    *,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
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
        **overrides: Overrides with `__` in place of the dots: `workload__load=0.8`.

    Raises:
        ScenarioError: The scenario is not valid, or `out` holds something that may not be replaced.
        RunError: The simulation failed.
    """
    wanted = Scenario.of(scenario).set(changes or {}).set(overrides)
    if out is None:
        return simulate(wanted, progress)
    with outputs.claim(out, outputs.RESULT, wanted.key(progress), force=force) as output:
        results = simulate(wanted, progress)
        results.write(output)
    return results


def compare(
    scenario: Source,
    transports: Sequence[str],
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> dict[str, Results]:
    """Run several transports on the same scenario, and so on the same flows; return the results by transport. See `sweep`.

    Raises:
        ScenarioError: As in `sweep`.
        IncompleteSweep: Some transports failed; its attribute `sweep` has the results of the others.
    """
    runs = sweep(scenario, {"transport.name": list(transports)}, executor=executor, workers=workers, out=out, force=force)
    return {run.point["transport.name"]: run.results for run in runs}
