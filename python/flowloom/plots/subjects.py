"""Decides what results, comparisons and sweeps are shown as: by `pictures` with matplotlib, by `flowloom.reports` in pages.

Each function returns subjects with the names of their pictures' files.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from flowloom import transports
from flowloom.axes import Axis, text
from flowloom.comparisons import METRICS, Comparison
from flowloom.overlays import Points
from flowloom.plots import flows, samples, style, variants
from flowloom.plots.comparison import Scheme
from flowloom.plots.over import Series
from flowloom.results import Results
from flowloom.sweeps import COLUMN, Sweep

_NAME = "transport.name"


class Course(NamedTuple):
    """The few flows of a run, each from its start to its end."""

    result: Results
    title: str


class Each(NamedTuple):
    """The few flows of a comparison one by one."""

    schemes: Sequence[Scheme]
    groups: Sequence[flows.Group]
    title: str


class Many(NamedTuple):
    """Many flows: by size, and as a distribution."""

    schemes: Sequence[Scheme]
    title: str
    points: Sequence[tuple[style.Look, Points]] = ()
    """Other tools' means by flow size."""


class Over(NamedTuple):
    """Metrics over the values of a key."""

    axis: Axis
    series: Sequence[Series]
    metrics: Sequence[str]
    title: str
    points: Sequence[tuple[style.Look, Points]] = ()
    """Other tools' points."""


class Recorded(NamedTuple):
    """A series that runs have recorded, or several of samples."""

    schemes: Sequence[Scheme]
    name: str
    title: str


Subject: TypeAlias = Course | Each | Many | Over | Recorded


def of(what: Results | Comparison | Sweep) -> Iterator[tuple[str, Subject]]:
    """Return the subjects of anything; see the functions below."""
    if isinstance(what, Results):
        return of_run(what)
    return of_comparison(what) if isinstance(what, Comparison) else of_sweep(what)


def of_run(result: Results) -> Iterator[tuple[str, Subject]]:
    """Return the subjects of a run: a few flows one by one, or many together, and what was sampled over time."""
    title = _titled(result)
    if result.flows.num_rows <= flows.FEW:
        yield "flows", Course(result, title)
    else:
        yield "flows", Many(_scheme(result), title)
    for name in samples.KINDS:
        if name in result.series:
            yield f"series-{name}", Recorded(_scheme(result), name, title)


def of_comparison(compared: Comparison) -> Iterator[tuple[str, Subject]]:
    """Return the subjects of a comparison: one for each value of its key, and one over all of them."""
    looks = _looks(compared)
    points = [(looks[other.label], other.points) for other in compared.beside if other.points is not None]
    for round_, schemes in _rounds(compared, looks).items():
        title = _title(compared, round_)
        groups = [] if points else flows.groups(schemes)
        if groups:
            yield name_of_round(round_), Each(schemes, groups, title)
        else:
            yield name_of_round(round_), Many(schemes, title, [] if compared.over else points)
    if compared.over:
        yield "tournament", _over(compared, compared.over, looks, points)


def of_sweep(sweep: Sweep) -> Iterator[tuple[str, Subject]]:
    """Return the subject of a sweep: metrics over the key with the most numbers, a line for each combination of the others."""
    points = sweep.points()
    axes = [Axis.of(key, _distinct(point[key] for point, _ in points)) for key in points[0][0]]
    ordered = sorted(axes, key=lambda axis: (axis.at is None, axis.key == _NAME, -len(axis.values)))
    # Transports alone stand side by side.
    x = ordered[0] if ordered and ordered[0].key != _NAME else Axis.none()
    others = [axis.key for axis in axes if axis.key != x.key]
    lines: dict[str, dict[str, list[Results]]] = {}
    for point, runs in points:
        lines.setdefault(_label(point, others, runs[0]), {})[text(point[x.key]) if x.key else ""] = runs
    looks = _looks_of_points(points, others)
    drawn = [Series(looks[label], [found.get(name, []) for name in x.names]) for label, found in lines.items()]
    yield "sweep", Over(x, drawn, sweep.metrics or METRICS, sweep.title)


def of_series(what: Results | Comparison | Sweep, name: str) -> Iterator[tuple[str, Subject]]:
    """Return a series of the runs, or several of samples; there may be none of this name."""
    stem = _stem("series", name.replace(".", "-"))
    if isinstance(what, Results):
        yield stem, Recorded(_scheme(what), name, _titled(what))
    elif isinstance(what, Comparison):
        for round_, schemes in _rounds(what, _looks(what)).items():
            ours = [scheme for scheme in schemes if "seed" in scheme.runs[0].summary]
            yield _stem(stem, round_), Recorded(ours, name, _title(what, round_))
    else:
        points = what.points()
        keys = list(points[0][0])
        looks = _looks_of_points(points, keys)
        schemes = [Scheme(looks[_label(point, keys, runs[0])], runs) for point, runs in points]
        yield stem, Recorded(schemes, name, what.title)


def _label(point: Mapping[str, Any], keys: Sequence[str], run: Results) -> str:
    """Return the label of a line: the transport, if it is varied or nothing else is, and the values of the other keys."""
    return ", ".join(filter(None, (_own(keys, run), _kind(point, keys))))


def _own(keys: Sequence[str], run: Results) -> str:
    return transports.transport(run.summary["transport"]).label if _NAME in keys or not keys else ""


def _kind(point: Mapping[str, Any], keys: Sequence[str]) -> str:
    return ", ".join(f"{key.rpartition('.')[2]} {text(point[key])}" for key in keys if key != _NAME)


def _looks_of_points(points: Sequence[tuple[dict[str, Any], list[Results]]], keys: Sequence[str]) -> dict[str, style.Look]:
    """Return the looks of lines, by label, that stand for the values of some keys.

    What differs in other keys than the transport has the same dash and hatch for each transport. For one transport, shades
    from dark to light show the order of the values.
    """
    kinds = list(dict.fromkeys(_kind(point, keys) for point, _ in points))
    names: dict[str, variants.Name] = {}
    for point, runs in points:
        label, number = _label(point, keys, runs[0]), kinds.index(_kind(point, keys))
        names[label] = variants.Name(label, runs[0].summary["transport"], number - 1 if number else None)
    if len({name.transport for name in names.values()}) == 1 and len(names) > 1:
        return {label: style.numbered(number, len(names), label) for number, label in enumerate(names)}
    return variants.looks(list(names.values()))


def _titled(result: Results) -> str:
    return ", ".join(filter(None, (result.title, transports.transport(result.summary["transport"]).label)))


def _scheme(result: Results) -> list[Scheme]:
    return [Scheme(style.transport(result.summary["transport"]), [result])]


def _title(compared: Comparison, round_: str) -> str:
    return f"{compared.sweep.title}, {compared.over.key} {round_}" if compared.over else compared.sweep.title


def name_of_round(round_: str) -> str:
    """Return the name of a comparison's picture at a value of its key."""
    return _stem("compare", round_)


def _stem(name: str, round_: str) -> str:
    return re.sub(r"[^\w.=+-]+", "-", f"{name}-{round_}").strip("-")


def _rounds(compared: Comparison, looks: dict[str, style.Look]) -> dict[str, list[Scheme]]:
    """Return what is compared at each value of the key."""
    return {
        round_: [Scheme(looks[title], runs) for title, runs in compared.columns(round_).items()] for round_ in compared.rounds()
    }


def _over(
    compared: Comparison, axis: Axis, looks: Mapping[str, style.Look], points: Sequence[tuple[style.Look, Points]]
) -> Over:
    rounds = compared.rounds()
    drawn = [Series(looks[name], [rounds.get(at, {}).get(name, []) for at in axis.names]) for name in compared.ranking()]
    return Over(axis, drawn, compared.sweep.metrics or METRICS, compared.sweep.title, points)


def _looks(compared: Comparison) -> dict[str, style.Look]:
    """Return the looks of variants by their titles, and of other tools by their labels."""
    used = {run.point[COLUMN]: run.results.summary["transport"] for run in compared.sweep}
    # A variant of which no run finished has no transport, and is not drawn. It counts, so that others keep their looks.
    numbers = itertools.count()
    ours = [
        variants.Name(each.title, used.get(each.label, ""), None if each.plain else next(numbers)) for each in compared.variants
    ]
    theirs = {other.label: variants.overlay(other.label, number) for number, other in enumerate(compared.beside)}
    return variants.looks(ours) | theirs


def _distinct(values: Any) -> list[Any]:
    return list({text(value): value for value in values}.values())
