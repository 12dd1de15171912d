"""The pictures of results, comparisons and sweeps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flowloom.comparisons import COLUMN, Comparison
from flowloom.overlays import Points
from flowloom.plots import comparison, over, style, variants

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def of_comparison(compared: Comparison) -> Iterator[tuple[str, Canvas]]:
    """Draw a comparison: a picture for each value of its key, and one over all of them. Each has the name of its file."""
    looks = _looks(compared)
    points = [(looks[other.label], other.points) for other in compared.beside if other.points is not None]
    for round_ in compared.rounds():
        stem = re.sub(r"[^\w.=+-]+", "-", f"compare-{round_}").strip("-")
        schemes = [comparison.Scheme(looks[title], runs) for title, runs in compared.columns(round_).items()]
        title = compared.title + (f", {round_}" if round_ else "")
        yield stem, comparison.draw(schemes, title, [] if compared.over else points)
    if compared.over:
        yield "tournament", _over(compared, looks, points)


def _over(compared: Comparison, looks: dict[str, style.Look], points: list[tuple[style.Look, Points]]) -> Canvas:
    assert compared.over is not None
    rounds = compared.rounds()
    series = [
        over.Series(looks[title], [rounds.get(name, {}).get(title, []) for name in compared.over.names])
        for title in compared.ranking()
    ]
    return over.draw(compared.over, series, compared.metrics, compared.title, points)


def _looks(compared: Comparison) -> dict[str, style.Look]:
    """Return the looks of variants by their titles, and of other tools by their labels."""
    transports = {run.point[COLUMN]: run.results.summary["transport"] for run in compared.sweep}
    # A variant of which no run finished has no transport, and is not drawn. It counts, so that others keep their looks.
    numbers = itertools.count()
    ours = [
        variants.Name(each.title, transports.get(each.label, ""), None if each.plain else next(numbers))
        for each in compared.variants
    ]
    theirs = {other.label: variants.overlay(other.label, number) for number, other in enumerate(compared.beside)}
    return variants.looks(ours) | theirs
