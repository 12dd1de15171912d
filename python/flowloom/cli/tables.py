"""Results as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from flowloom import diagnosis, metrics
from flowloom.cli.common import print_table
from flowloom.plots.style import transport_label
from flowloom.results import Results
from flowloom.sweeps import Sweep

_RUN = (
    "slowdown.mean", "slowdown.p50", "slowdown.p99", "fct_us.mean", "fct_us.p99", "nfct", "goodput_gbps", "deadlines_met",
    "drops.total", "drops.rate", "queueing_us_mean", "sim_s", "packet_hops", "wall_s",
)  # fmt: skip
_COMPARISON = (
    "slowdown.mean", "slowdown.p50", "slowdown.p99", "fct_us.mean", "fct_us.p99", "nfct", "goodput_gbps", "drops.rate",
    "queueing_us_mean", "wall_s",
)  # fmt: skip
_SWEEP = ("finished", "slowdown.mean", "slowdown.p99", "fct_us.mean", "nfct", "goodput_gbps", "drops.rate")


def _shown(metric: str, summary: Mapping[str, Any]) -> str:
    return metrics.show(metric, metrics.evaluate(metric, summary))


def print_run(results: Results) -> None:
    """Print a run's summary: the numbers, then slowdown by flow size."""
    summary = results.summary
    name, seed = transport_label(summary["transport"]), summary["seed"]
    title = f"{name}, seed {seed}: {summary['finished']} of {summary['flows']} flows finished"
    print_table(["", ""], [(metrics.label(m), _shown(m, summary)) for m in _RUN], right=(1,), title=title)
    print_sizes({summary["transport"]: results})
    for found in results.warnings:
        typer.echo(f"warning: {found.flag}: {found.text}")


def print_warnings(sweep: Sweep, *, err: bool = False) -> None:
    """Print what keeps the numbers of a sweep from meaning what they seem to: the footnotes of its table's flags."""
    for line in diagnosis.grouped((run.label, run.results.warnings) for run in sweep):
        typer.echo(f"warning: {line}", err=err)


def _flags(*results: Results) -> str:
    return ", ".join(dict.fromkeys(found.flag for result in results for found in result.warnings))


def print_comparison(results: Mapping[str, Results]) -> None:
    """Print transports as columns: the numbers, then slowdown by flow size."""
    head = ["", *(transport_label(name) for name in results)]
    rows = [[metrics.label(m), *(_shown(m, r.summary) for r in results.values())] for m in _COMPARISON]
    finished = ["Flows finished", *(f"{r.summary['finished']} of {r.summary['flows']}" for r in results.values())]
    warned = ["Warnings", *map(_flags, results.values())]
    print_table(head, [finished, *rows, *([warned] if any(warned[1:]) else [])], right=range(1, len(head)))
    print_sizes(results)


_ROUND = ("slowdown.mean", "slowdown.p99", "fct_us.mean")


def ranking(rounds: Mapping[Any, Mapping[str, Results]]) -> list[str]:
    """Order transports by the geometric mean of their mean slowdowns over the rounds, the best first."""
    from statistics import geometric_mean

    names = list(next(iter(rounds.values())))
    return sorted(names, key=lambda name: geometric_mean(r[name].summary["slowdown"]["mean"] for r in rounds.values()))


def print_tournament(rounds: Mapping[Any, Mapping[str, Results]]) -> None:
    """Print a row per transport, the best first, with a few numbers of each round."""
    head = ["", *(f"{value} {metrics.label(m).lower()}" for value in rounds for m in _ROUND), "warnings"]
    rows = [
        [
            transport_label(name),
            *(_shown(m, results[name].summary) for results in rounds.values() for m in _ROUND),
            _flags(*(results[name] for results in rounds.values())),
        ]
        for name in ranking(rounds)
    ]
    print_table(head, rows, right=range(1, len(head) - 1), title="Tournament, by the geometric mean of mean slowdowns")


def print_sizes(results: Mapping[str, Results]) -> None:
    """Print mean and 99th-percentile slowdown by flow size."""
    bins = [r.summary["slowdown"].get("by_size") or [] for r in results.values()]
    if not any(bins):
        return
    head = ["Slowdown by flow size", "Flows"]
    head += [f"{transport_label(name)} {word}" for name in results for word in ("mean", "p99")]
    rows = []
    for entries in zip(*bins, strict=True):
        numbers = [metrics.show("slowdown.mean", _number(e[word])) for e in entries for word in ("mean", "p99")]
        rows.append([metrics.bin_label(entries[0]), str(entries[0]["flows"]), *numbers])
    print_table(head, rows, right=range(1, len(head)))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def print_sweep(sweep: Sweep) -> None:
    """Print a row per run."""
    rows = sweep.table(_SWEEP).to_pylist()
    keys = [k for k in rows[0] if k not in (*_SWEEP, "run", "warnings")]
    head = [*keys, *(metrics.label(m) for m in _SWEEP), "warnings"]
    body = [[*(str(row[k]) for k in keys), *(metrics.show(m, row[m]) for m in _SWEEP), row["warnings"]] for row in rows]
    print_table(head, body, right=range(len(keys), len(head) - 1))
