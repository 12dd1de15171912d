"""Flowloom: data-center transports, written once, compared on the same fabric, workloads and metrics.

``run`` simulates one scenario. ``compare`` runs several transports and variants of it, and ``sweep`` varies its keys.
``load``, ``load_comparison`` and ``load_sweep`` read what these have saved. ``report`` writes a page of HTML about it.
``ledger`` returns the verdicts on the papers' claims. ``thresholds`` computes demotion thresholds for PIAS,
``check_thresholds`` simulates them, and ``search_thresholds`` finds them by simulation. ``write_trace`` writes flows of
a program of yours to a file that a scenario can name.
Everything is imported on first use, so that ``import flowloom`` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowloom._native import RunError, ScenarioError
    from flowloom.api import load, run
    from flowloom.claims.listing import Ledger, ledger
    from flowloom.clusters import Cluster
    from flowloom.comparisons import Comparison, compare, load_comparison
    from flowloom.demotion.analytic import thresholds
    from flowloom.demotion.check import check_thresholds
    from flowloom.demotion.simulated import search_thresholds
    from flowloom.flows import Flow, write_trace
    from flowloom.reports.pages import report
    from flowloom.results import Results
    from flowloom.scenario import Scenario
    from flowloom.sweeps import IncompleteSweep, Sweep, load_sweep, sweep

__all__ = [
    "Cluster",
    "Comparison",
    "Flow",
    "IncompleteSweep",
    "Ledger",
    "Results",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "check_thresholds",
    "compare",
    "ledger",
    "load",
    "load_comparison",
    "load_sweep",
    "report",
    "run",
    "search_thresholds",
    "sweep",
    "thresholds",
    "write_trace",
]

_MODULES = {
    "Cluster": "flowloom.clusters",
    "Comparison": "flowloom.comparisons",
    "Flow": "flowloom.flows",
    "IncompleteSweep": "flowloom.sweeps",
    "Ledger": "flowloom.claims.listing",
    "Results": "flowloom.results",
    "RunError": "flowloom._native",
    "Scenario": "flowloom.scenario",
    "ScenarioError": "flowloom._native",
    "Sweep": "flowloom.sweeps",
    "check_thresholds": "flowloom.demotion.check",
    "compare": "flowloom.comparisons",
    "ledger": "flowloom.claims.listing",
    "load": "flowloom.api",
    "load_comparison": "flowloom.comparisons",
    "load_sweep": "flowloom.sweeps",
    "report": "flowloom.reports.pages",
    "run": "flowloom.api",
    "search_thresholds": "flowloom.demotion.simulated",
    "sweep": "flowloom.sweeps",
    "thresholds": "flowloom.demotion.analytic",
    "write_trace": "flowloom.flows",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("flowloom")
    if name not in _MODULES:
        raise AttributeError(f"module 'flowloom' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
