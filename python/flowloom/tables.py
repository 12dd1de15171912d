"""Results as tables, for the command line and for notebooks."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from flowloom import diagnosis, metrics
from flowloom.stats import Estimate, averaged, estimate
from flowloom.transports import transport

if TYPE_CHECKING:
    from flowloom.comparisons import Comparison
    from flowloom.results import Results
    from flowloom.sweeps import Sweep

Seeds: TypeAlias = "Sequence[Results]"
"""Runs that differ only in their seed; tables show their mean."""


class Table(NamedTuple):
    """A table of texts."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    """The columns that are aligned to the right."""
    title: str = ""
    notes: Sequence[str] = ()
    """Lines below the table."""


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

_OF_PACKETS = ("drops.total", "drops.rate", "queueing_us_mean", "packet_hops")
"""What means nothing if a run moves no packets, as that of a bound."""

_ROUND = ("slowdown.mean", "slowdown.p99", "fct_us.mean")


def _estimate(metric: str, seeds: Seeds) -> Estimate:
    return estimate([metrics.evaluate(metric, run.summary) if _means_something(metric, run) else math.nan for run in seeds])


def _means_something(metric: str, run: Results) -> bool:
    if metric == "deadlines_met":
        return run.summary["deadlines_met"] is not None
    return metric not in _OF_PACKETS or run.summary.get("packet_hops") != 0


def _meant(wanted: Iterable[str], columns: Iterable[Seeds]) -> list[str]:
    """Return the metrics that mean something for at least one of some runs."""
    runs = [run for seeds in columns for run in seeds]
    return [metric for metric in wanted if any(_means_something(metric, run) for run in runs)]


def _shown(metric: str, seeds: Seeds) -> str:
    return metrics.show_estimate(metric, _estimate(metric, seeds))


def finished(seeds: Seeds) -> str:
    """Return how many flows of some runs finished: `200 of 200`. Those that had not started count among all flows."""
    done, flows, aborted, waiting = _counts(seeds)
    others = [f"{count:,} {what}" for count, what in ((aborted, "aborted"), (waiting, "did not start")) if count]
    return f"{done:,} of {flows:,}" + (f" ({', '.join(others)})" if others else "")


def flows_finished(seeds: Seeds) -> str:
    """Return what `finished` does, as a clause."""
    done, flows, aborted, waiting = _counts(seeds)
    given_up = f" ({aborted:,} aborted)" if aborted else ""
    return f"{done:,} of {flows:,}{given_up} flows finished" + (f", {waiting:,} did not start" if waiting else "")


def _counts(seeds: Seeds) -> tuple[int, int, int, int]:
    """Return how many flows finished, how many there are, how many were aborted, and how many did not start."""
    # Another tool's flows have no word about the last two.
    done, begun, aborted, waiting = (
        sum(run.summary.get(key, 0) for run in seeds) for key in ("finished", "flows", "aborted", "not_started")
    )
    return done, begun + waiting, aborted, waiting


def _averaged(wanted: Sequence[str], columns: Iterable[Seeds]) -> str:
    """Return the title of a table with the means of some metrics. Another tool's flows have no seeds."""
    ours = [seeds for seeds in columns if "seed" in seeds[0].summary]
    return averaged([_estimate(metric, seeds).n for metric in wanted for seeds in ours])


def of_run(results: Results) -> list[Table]:
    """Return a run's summary: the numbers that mean something for it, its jobs, then slowdown by flow size."""
    label, seed = transport(results.summary["transport"]).label, results.summary["seed"]
    title = f"{label}, seed {seed}: {flows_finished([results])}"
    beside = (metric for part, names in _BESIDE.items() if results.summary.get(part) for metric in names)
    rows = [(metrics.label(m), _shown(m, [results])) for m in _meant((*_RUN, *beside), [[results]])]
    return [
        Table(["", ""], rows, (1,), title, _headrooms(results)),
        *_of_jobs({label: [results]}),
        *_of_sizes({label: [results]}),
    ]


def _of_jobs(results: Mapping[str, Seeds]) -> list[Table]:
    """Return a row for each job, with the time of an iteration and the bus bandwidth of each result."""
    found = next(iter(results.values()))[0].summary.get("jobs") or {}
    head = [
        "Job",
        "Ranks",
        "Size",
        *(f"{name}, {what}" for name in results for what in ("iterations", "mean (µs)", "bus (Gb/s)")),
    ]
    rows = []
    for tenant, job in found.items():
        name = f"{job['collective']}, {job['algorithm']}" + (f" (tenant {tenant})" if len(found) > 1 else "")
        cells = []
        for seeds in results.values():
            same = [(run.summary.get("jobs") or {}).get(tenant) for run in seeds]
            done, wanted = (sum(one[key] if one else 0 for one in same) for key in ("finished", "iterations"))
            numbers = (
                estimate([_number(one and one["time_us"]["mean"]) for one in same]),
                estimate([_number(one and one["bus_gbps"]) for one in same]),
            )
            names = ("jobs.time_us.mean", "jobs.bus_gbps")
            cells += [f"{done:,} of {wanted:,}", *map(metrics.show_estimate, names, numbers)]
        rows.append([name, f"{job['ranks']:,}", metrics.size(job["bytes"]), *cells])
    return [Table(head, rows, range(1, len(head)))] if rows else []


def _headrooms(results: Results) -> list[str]:
    """Return a line for each kind of hop at whose end packets had a headroom, if there was flow control."""
    found = (results.summary.get("pfc") or {}).get("headroom", {})
    return [
        f"headroom of each class at the end of {hop}: {metrics.size(room['bytes'])} beyond XOFF at "
        + ("fabric.alpha times what is free" if room["xoff_bytes"] is None else metrics.size(room["xoff_bytes"]))
        + f"; it goes on {metrics.size(room['hysteresis_bytes'])} below XOFF"
        for hop, room in found.items()
    ]


def _flags(runs: Seeds) -> list[str]:
    """Return each flag of some runs once, with the seeds if not all of them have it."""
    having: dict[str, set[int]] = {}
    for run in runs:
        for found in run.warnings:
            having.setdefault(found.flag, set()).add(run.summary["seed"])
    every = {run.summary.get("seed") for run in runs}  # another tool's flows have no seed, and no warnings
    return [flag if of == every else f"{flag} ({diagnosis.seeds(of)})" for flag, of in having.items()]


def of_comparison(compared: Comparison, left_out: Mapping[str, str] | None = None) -> list[Table]:
    """Return the tables of a comparison.

    At one point, there is a column for each variant: the numbers that mean something for one of them, then slowdown by flow
    size. Over the values of a key, there is a row for each variant, the best first, with a few numbers from each round.

    Args:
        compared: The comparison.
        left_out: By name, the transports that cannot run the scenario, with the reasons. Notes below the first table have them.
    """
    first, *others = [_of_rounds(compared)] if compared.over else side_by_side(compared.columns())
    return [first._replace(notes=_notes(left_out or {})), *others]


def _notes(left_out: Mapping[str, str]) -> list[str]:
    """Return a line with the transports that are left out, and a line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in left_out.items():
        # A reason may name the transport; without its name, several transports may share the reason.
        reasons.setdefault(re.sub(rf"(?<![\w.]){name}(?![\w.])", "it", why), []).append(transport(name).label)
    names = [f"{label} ({number})" for number, labels in enumerate(reasons.values(), start=1) for label in labels]
    found = [f"({number}) {why}" for number, why in enumerate(reasons, start=1)]
    return [f"Left out: {', '.join(names)}", *found] if names else []


def of_variants(compared: Comparison) -> list[Table]:
    """Return the tables of a comparison at one point with a row for each variant, so that they can be sorted by a number."""
    results = compared.columns()
    wanted = _meant(_COMPARISON, results.values())
    head = ["", metrics.label("finished"), *(metrics.label(metric) for metric in wanted), "Warnings"]
    rows = [
        [name, finished(seeds), *(_shown(metric, seeds) for metric in wanted), ", ".join(_flags(seeds))]
        for name, seeds in results.items()
    ]
    return [Table(head, rows, range(1, len(head) - 1), _averaged(wanted, results.values())), *_of_sizes(results)]


def side_by_side(results: Mapping[str, Seeds]) -> list[Table]:
    """Return tables with a column for each result, which has the runs of its seeds: numbers, then slowdown by flow size."""
    head = ["", *results]
    wanted = _meant(_COMPARISON, results.values())
    rows = [[metrics.label(m), *(_shown(m, seeds) for seeds in results.values())] for m in wanted]
    done = ["Flows finished", *(finished(seeds) for seeds in results.values())]
    # A flag in each row, since all of them in one cell would make the column wide.
    flags = itertools.zip_longest(*(_flags(seeds) for seeds in results.values()), fillvalue="")
    warned = [["" if number else "Warnings", *cells] for number, cells in enumerate(flags)]
    first = Table(head, [done, *rows, *warned], range(1, len(head)), _averaged(wanted, results.values()))
    return [first, *_of_jobs(results), *_of_sizes(results)]


def _of_rounds(compared: Comparison) -> Table:
    rounds = compared.rounds()
    labels = [f"{label[0].lower()}{label[1:]}" for label in map(metrics.label, _ROUND)]
    head = ["", *(f"{value} {label}" for value in rounds for label in labels), "warnings"]
    rows = [
        [
            name,
            *(_shown(m, results[name]) if name in results else "failed" for results in rounds.values() for m in _ROUND),
            ", ".join(_flags([run for results in rounds.values() for run in results.get(name, ())])),
        ]
        for name in compared.ranking()
    ]
    title = "Tournament, ranked by the geometric mean of the rounds' mean slowdowns"
    return Table(head, rows, range(1, len(head) - 1), title)


def _of_sizes(results: Mapping[str, Seeds]) -> list[Table]:
    """Return mean and 99th-percentile slowdown by flow size, without sizes that no flow has.

    Variants may have ranges of their own.
    """
    bins = [
        [{metrics.bin_label(e): e for e in run.summary["slowdown"].get("by_size") or []} for run in seeds]
        for seeds in results.values()
    ]
    first = bins[0]
    head = ["Slowdown by flow size", "Flows"]
    head += [f"{name} {word}" for name in results for word in ("mean", "p99")]
    rows = []
    for range_ in first[0]:
        if not any(run.get(range_, {}).get("flows") for runs in bins for run in runs):
            continue
        numbers = [
            metrics.show_estimate("slowdown.mean", estimate([_number(run.get(range_, {}).get(word)) for run in runs]))
            for runs in bins
            for word in ("mean", "p99")
        ]
        rows.append([range_, f"{sum(run[range_]['flows'] for run in first):,}", *numbers])
    return [Table(head, rows, range(1, len(head)))] if rows else []


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def of_sweep(sweep: Sweep) -> list[Table]:
    """Return a row for each point: its values of the varied keys, and the means over its seeds."""
    points = sweep.points()
    shown = sweep.metrics or _SWEEP
    keys = list(points[0][0])
    head = [*keys, metrics.label("finished"), *(metrics.label(m) for m in shown), "warnings"]
    body = [
        [
            *(str(value) for value in point.values()),
            finished(seeds),
            *(_shown(m, seeds) for m in shown),
            ", ".join(_flags(seeds)),
        ]
        for point, seeds in points
    ]
    return [Table(head, body, range(len(keys), len(head) - 1), _averaged(shown, [seeds for _, seeds in points]))]
