"""Draws what `subjects` decides that results, comparisons and sweeps are shown as: pictures with the names of their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from flowloom.comparisons import Comparison
from flowloom.plots import comparison, flows, over, series, subjects
from flowloom.plots.subjects import Course, Each, Many, Over, Subject
from flowloom.results import Results
from flowloom.sweeps import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def of(what: Results | Comparison | Sweep) -> Iterator[tuple[str, Canvas]]:
    """Draw anything; see `subjects`."""
    return _drawn(subjects.of(what))


def of_run(result: Results) -> Iterator[tuple[str, Canvas]]:
    """Draw a run."""
    return _drawn(subjects.of_run(result))


def of_comparison(compared: Comparison) -> Iterator[tuple[str, Canvas]]:
    """Draw a comparison."""
    return _drawn(subjects.of_comparison(compared))


def of_sweep(sweep: Sweep) -> Iterator[tuple[str, Canvas]]:
    """Draw a sweep."""
    return _drawn(subjects.of_sweep(sweep))


def of_series(what: Results | Comparison | Sweep, name: str) -> Iterator[tuple[str, Canvas]]:
    """Draw a series of the runs, or several of samples, which `series.draw` describes.

    Raises:
        ScenarioError: No run has recorded such a series, or it has no such column.
    """
    return _drawn(subjects.of_series(what, name))


def _drawn(found: Iterable[tuple[str, Subject]]) -> Iterator[tuple[str, Canvas]]:
    return ((name, _draw(subject)) for name, subject in found)


def _draw(subject: Subject) -> Canvas:
    match subject:
        case Course(result, title):
            return flows.chart(result, title)
        case Each(schemes, groups, title):
            return flows.draw(schemes, groups, title)
        case Many(schemes, title, points):
            return comparison.draw(schemes, title, points)
        case Over(axis, lines, metrics, title, points):
            return over.draw(axis, lines, metrics, title, points)
        case _:
            return series.draw(subject.schemes, subject.name, subject.title)
