"""Prints results as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import typer

from flowloom import tables
from flowloom.cli.common import print_table
from flowloom.comparisons import Comparison
from flowloom.results import Results
from flowloom.sweeps import Sweep


def _print(found: Iterable[tables.Table]) -> None:
    for head, rows, right, title, notes in found:
        print_table(head, rows, right=right, title=title, notes=notes)


def print_run(results: Results) -> None:
    """Print a run's summary: the numbers, then slowdown by flow size."""
    _print(tables.of_run(results))
    for found in results.warnings:
        typer.echo(f"warning: {found.flag}: {found.text}")


def print_comparison(compared: Comparison, left_out: Mapping[str, str]) -> None:
    """Print the variants of a comparison side by side, or ranked over the values of its key, and what was left out and why."""
    _print(tables.of_comparison(compared, left_out))


def print_side_by_side(results: Mapping[str, Sequence[Results]]) -> None:
    """Print results with a column for each."""
    _print(tables.side_by_side(results))


def print_sweep(sweep: Sweep) -> None:
    """Print a row for each point of a sweep."""
    _print(tables.of_sweep(sweep))


def print_warnings(sweep: Sweep, *, err: bool = False) -> None:
    """Print the warnings of a sweep's runs, which explain the flags in its table."""
    for line in sweep.warning_lines():
        typer.echo(line, err=err)
