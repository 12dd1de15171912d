"""Runs one scenario in this process and returns its results."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from flowloom import _native, columns, provenance, series, traces
from flowloom.backlog import in_summary
from flowloom.results import Results, seed_of
from flowloom.scenario import Plan, Progress, Scenario, located


def catalogue() -> dict[str, Any]:
    """Return lists of what the simulator provides, under the keys `transports`, `workloads`, `topologies` and `wires`."""
    entries: dict[str, Any] = json.loads(_native.catalogue())
    return entries


def defaults(transport: str) -> Mapping[str, Any]:
    """Return the parameters of a transport as they are if a scenario gives none."""
    return _defaults(_native.catalogue).get(transport, {})


@functools.cache
def _defaults(described: Callable[[], str]) -> dict[str, dict[str, Any]]:
    # The simulator takes a while to describe all transports.
    return {entry["name"]: entry["defaults"] for entry in json.loads(described())["transports"]}


class _Recorder:
    """Keeps what a run records over its course. An exception in the block deletes it.

    The simulator's thread calls `take`. A run that was told to stop can be in such a call for longer than is waited for the
    run, as the first one imports libraries. The block ends after the call, since Python must not end while a thread is in it.
    """

    def __init__(self) -> None:
        self._series, self._trace = series.Writer(), traces.Writer()
        self._taking = threading.Lock()
        self._over = False

    def take(self, name: str, part: bytes | Mapping[str, Any]) -> None:
        with self._taking:
            if self._over:
                raise RuntimeError("the run was left")
            if isinstance(part, bytes):
                self._trace.take(name, part)
            else:
                self._series.take(name, part)

    def close(self) -> tuple[series.Series, traces.Trace]:
        return self._series.close(), self._trace.close()

    def __enter__(self) -> _Recorder:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind:
            with self._taking:
                self._over = True
            self._series.discard()
            self._trace.discard()


def simulate(scenario: Scenario, progress: Progress | None = None) -> Results:
    """Plan a scenario and run it in this process.

    Raises:
        ScenarioError: The scenario is not valid.
        RunError: The simulation failed.
        OSError: What the run records does not fit on the disk.
    """
    return execute(scenario.plan(progress), progress)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_share = 1


def use_threads(most: int) -> None:
    """Let runs of this process that are not told otherwise use this many threads at most; at first, it is one."""
    global _share
    _share = most


def execute(plan: Plan, progress: Progress | None = None, threads: int | None = None) -> Results:
    """Run a plan in this process. The plan is used up.

    Args:
        plan: The plan.
        progress: Is called with the share of flows that are done, the simulated time and the packet-hops so far.
        threads: The most threads that the run is spread over; by default as many as `use_threads` says. Results do not
            depend on it.

    Raises:
        RunError: The simulation failed.
        OSError: What the run records does not fit on the disk.
    """
    begin = time.perf_counter()
    with _Recorder() as recorder:
        outcome = plan.run(progress, recorder.take, threads or _share)
        samples, trace = recorder.close()
    wall_s = time.perf_counter() - begin
    summary = json.loads(outcome["summary"])
    seed = seed_of(tomllib.loads(plan.resolved))
    record = provenance.record(seed, summary.get("wall_s", wall_s), summary.get("peak_rss_mb"))
    if plan.scenario.path:
        record["scenario"] = plan.scenario.title
    with contextlib.suppress(_native.ScenarioError):  # a file that the scenario refers to was deleted during the run
        record["key"] = plan.key
    flows = columns.flow_table(outcome["flows"])
    return Results(
        summary | in_summary(flows),
        located(plan.resolved),
        record,
        _flows=flows,
        _series=samples,
        _trace=trace,
    )
