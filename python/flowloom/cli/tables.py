"""Prints results as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import typer

from flowloom import diagnosis, metrics
from flowloom.cli.common import print_table
from flowloom.results import Results
from flowloom.stats import Estimate, averaged, estimate
from flowloom.sweeps import Sweep
from flowloom.transports import transport

Seeds: TypeAlias = Sequence[Results]
"""Runs that differ only in their seed; tables show their mean."""

_RUN = (
    "slowdown.mean", "slowdown.p50", "slowdown.p99", "fct_us.mean", "fct_us.p99", "nfct", "goodput_gbps", "deadlines_met",
    "drops.total", "drops.rate", "queueing_us_mean", "sim_s", "packet_hops", "wall_s",
)  # fmt: skip
_COMPARISON = (
    "slowdown.mean", "slowdown.p50", "slowdown.p99", "fct_us.mean", "fct_us.p99", "nfct", "goodput_gbps",
    "deadlines_met", "drops.rate", "queueing_us_mean", "wall_s",
)  # fmt: skip
_SWEEP = ("slowdown.mean", "slowdown.p99", "fct_us.mean", "nfct", "goodput_gbps", "drops.rate")


_BESIDE = {
    "background": ("background.goodput_gbps",),
    "control_messages": ("control_messages.received", "control_messages.received_per_s"),
    "gaps": ("gaps.switch_per_s", "gaps.idle_share"),
    "pfc": ("pfc.frames", "pfc.paused_share_max"),
}
"""Additional content of a run's table, if there is any."""

_ROUND = ("slowdown.mean", "slowdown.p99", "fct_us.mean")


def _label(name: str) -> str:
    return transport(name).label


def _estimate(metric: str, seeds: Seeds) -> Estimate:
    return estimate([metrics.evaluate(metric, run.summary) for run in seeds])


def _shown(metric: str, seeds: Seeds) -> str:
    return metrics.show_estimate(metric, _estimate(metric, seeds))


def _finished(seeds: Seeds) -> str:
    finished, flows = (sum(run.summary[key] for run in seeds) for key in ("finished", "flows"))
    aborted = sum(run.summary.get("aborted", 0) for run in seeds)
    return f"{finished:,} of {flows:,}" + (f" ({aborted:,} aborted)" if aborted else "")


def _averaged(rows: Iterable[Seeds]) -> str:
    """Return the title of a table of means. Another tool's flows have no seeds."""
    return averaged([len(seeds) for seeds in rows if "seed" in seeds[0].summary])


def print_run(results: Results) -> None:
    """Print a run's summary: the numbers, then slowdown by flow size."""
    name, seed = _label(results.summary["transport"]), results.summary["seed"]
    title = f"{name}, seed {seed}: {_finished([results])} flows finished"
    beside = (metric for part, names in _BESIDE.items() if results.summary.get(part) for metric in names)
    print_table(["", ""], [(metrics.label(m), _shown(m, [results])) for m in (*_RUN, *beside)], right=(1,), title=title)
    print_sizes({name: [results]})
    for found in results.warnings:
        typer.echo(f"warning: {found.flag}: {found.text}")


def print_warnings(sweep: Sweep, *, err: bool = False) -> None:
    """Print the warnings of a sweep's runs, which explain the flags in its table."""
    for line in diagnosis.grouped((run.label, run.results.warnings) for run in sweep):
        typer.echo(f"warning: {line}", err=err)


def _flags(runs: Seeds) -> str:
    """Return each flag of some runs once, with the seeds if not all of them have it."""
    having: dict[str, set[int]] = {}
    for run in runs:
        for found in run.warnings:
            having.setdefault(found.flag, set()).add(run.summary["seed"])
    every = {run.summary.get("seed") for run in runs}  # another tool's flows have no seed, and no warnings
    return ", ".join(flag if of == every else f"{flag} ({diagnosis.seeds(of)})" for flag, of in having.items())


def print_comparison(results: Mapping[str, Seeds]) -> None:
    """Print a table with a column for each variant, by its title: the numbers, then slowdown by flow size."""
    head = ["", *results]
    deadlines = any(run.summary["deadlines_met"] is not None for seeds in results.values() for run in seeds)
    wanted = [metric for metric in _COMPARISON if deadlines or metric != "deadlines_met"]
    rows = [[metrics.label(m), *(_shown(m, seeds) for seeds in results.values())] for m in wanted]
    finished = ["Flows finished", *(_finished(seeds) for seeds in results.values())]
    title = _averaged(results.values())
    warned = ["Warnings", *(_flags(seeds) for seeds in results.values())]
    print_table(head, [finished, *rows, *([warned] if any(warned[1:]) else [])], right=range(1, len(head)), title=title)
    print_sizes(results)


def print_tournament(rounds: Mapping[Any, Mapping[str, Seeds]], ranking: Sequence[str]) -> None:
    """Print a row for each variant, the best first, with a few numbers from each round."""
    head = ["", *(f"{value} {metrics.label(m).lower()}" for value in rounds for m in _ROUND), "warnings"]
    rows = [
        [
            name,
            *(_shown(m, results[name]) if name in results else "failed" for results in rounds.values() for m in _ROUND),
            _flags([run for results in rounds.values() for run in results.get(name, ())]),
        ]
        for name in ranking
    ]
    print_table(
        head,
        rows,
        right=range(1, len(head) - 1),
        title="Tournament, ranked by the geometric mean of the rounds' mean slowdowns",
    )


def print_sizes(results: Mapping[str, Seeds]) -> None:
    """Print mean and 99th-percentile slowdown by flow size. Variants may have ranges of their own."""
    bins = [[{metrics.bin_label(e): e for e in run.summary["slowdown"].get("by_size") or []} for run in seeds]
            for seeds in results.values()]  # fmt: skip
    if not (first := bins[0]):
        return
    head = ["Slowdown by flow size", "Flows"]
    head += [f"{name} {word}" for name in results for word in ("mean", "p99")]
    rows = []
    for range_ in first[0]:
        numbers = [
            metrics.show_estimate("slowdown.mean", estimate([_number(run.get(range_, {}).get(word)) for run in runs]))
            for runs in bins
            for word in ("mean", "p99")
        ]
        rows.append([range_, f"{sum(run[range_]['flows'] for run in first):,}", *numbers])
    print_table(head, rows, right=range(1, len(head)))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def print_sweep(sweep: Sweep) -> None:
    """Print a row per point: its values of the varied keys, and the means over its seeds."""
    points = sweep.points()
    shown = sweep.metrics or _SWEEP
    keys = list(points[0][0])
    head = [*keys, metrics.label("finished"), *(metrics.label(m) for m in shown), "warnings"]
    body = [
        [*(str(value) for value in point.values()), _finished(seeds), *(_shown(m, seeds) for m in shown), _flags(seeds)]
        for point, seeds in points
    ]
    print_table(head, body, right=range(len(keys), len(head) - 1), title=_averaged([seeds for _, seeds in points]))
