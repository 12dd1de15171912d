"""The questions that a claim can ask of a figure's runs. A figure file names them with their parameters and bands.

Every check looks at the mean over seeds, at every point that `where` selects, and holds only if it holds at all of them.
A point without a value (nothing finished, say) never holds.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from flowloom._native import ScenarioError

Where = Mapping[str, Sequence[Any]]
Point = Mapping[str, Any]


class Measured(Protocol):
    """The runs of a figure, as checks see them."""

    def points(self, where: Where) -> list[dict[str, Any]]:
        """Give the grid's points that `where` selects, in the order of the axes."""

    def values_of(self, axis: str) -> list[Any]:
        """Give an axis's values in order."""

    def name(self, point: Point) -> str:
        """Name a point for people."""

    def mean(self, metric: str, point: Point) -> float:
        """Give a metric's mean over seeds; NaN if no run of the point has it."""

    def course(self, series: str, x: str, y: str, point: Point) -> list[tuple[list[float], list[float]]]:
        """Give two columns of a recorded series, for each seed."""


class Outcome(NamedTuple):
    """What a check found."""

    holds: bool
    measured: str
    band: str


class Band(NamedTuple):
    """The values with which a claim holds; ends included."""

    at_least: float | None
    at_most: float | None

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, float) or math.isnan(value):
            return False
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f"{number(self.at_least)} to {number(self.at_most)}"
        if self.at_least is not None:
            return f"≥ {number(self.at_least)}"
        return f"≤ {number(self.at_most)}" if self.at_most is not None else "any"


class Value(NamedTuple):
    """One number and the point it was measured at."""

    value: float
    where: str


def number(value: float | None) -> str:
    """Write a measured number with as many digits as it is good for."""
    if value is None or math.isnan(value):
        return "no value"
    return f"{value:.3g}" if abs(value) < 1e4 else f"{value:.3e}"


def summarise(values: Sequence[Value]) -> str:
    """Give the smallest and largest value and where they are."""
    missing = next((v for v in values if math.isnan(v.value)), None)
    if missing:
        return f"no value at {missing.where}"
    low, high = min(values, key=lambda v: v.value), max(values, key=lambda v: v.value)
    if number(low.value) == number(high.value):
        return number(low.value) + (f" (all {len(values)} points)" if len(values) > 1 else "")
    return " to ".join(f"{number(v.value)} ({v.where})" if v.where else number(v.value) for v in (low, high))


def _judge(values: Sequence[Value], band: Band, what: str) -> Outcome:
    if not values:
        raise ScenarioError(f"a check of {what} selects no point of the grid: look at its `where`, `of` and `to`")
    return Outcome(all(v.value in band for v in values), summarise(values), f"{what} {band}")


def _divide(a: float, b: float) -> float:
    return a / b if b else math.nan


def level(
    grid: Measured,
    *,
    metric: str,
    where: Where | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Outcome:
    """Hold if the metric itself lies in the band at every point."""
    values = [Value(grid.mean(metric, p), grid.name(p)) for p in grid.points(where or {})]
    return _judge(values, Band(at_least, at_most), metric)


def _ratios(grid: Measured, metric: str, of: Where, to: Where, where: Where | None) -> list[tuple[dict[str, Any], float]]:
    found = []
    other = {axis: values[0] for axis, values in to.items()}
    for point in grid.points({**(where or {}), **of}):
        value = _divide(grid.mean(metric, point), grid.mean(metric, {**point, **other}))
        found.append(({k: v for k, v in point.items() if k not in of}, value))
    return found


def ratio(
    grid: Measured,
    *,
    metric: str,
    of: Where,
    to: Where,
    where: Where | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Outcome:
    """Hold if the metric at `of`, divided by the metric at `to`, lies in the band for all else the same."""
    values = [Value(v, grid.name(p)) for p, v in _ratios(grid, metric, of, to, where)]
    return _judge(values, Band(at_least, at_most), f"{metric} of {_named(of)} / {_named(to)}")


def best_ratio(
    grid: Measured,
    *,
    metric: str,
    of: Where,
    to: Where,
    where: Where | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Outcome:
    """Hold if the smallest of the ratios of `of` to `to` lies in the band: "up to 20 % less", wherever that is."""
    values = [Value(v, grid.name(p)) for p, v in _ratios(grid, metric, of, to, where)]
    band, what = Band(at_least, at_most), f"{metric} of {_named(of)} / {_named(to)}"
    everywhere = _judge(values, band, what)
    holds = not any(math.isnan(v.value) for v in values) and min(v.value for v in values) in band
    return Outcome(holds, everywhere.measured, f"least {everywhere.band}")


def peak(grid: Measured, *, metric: str, of: Where, to: Where, at: Where, where: Where | None = None) -> Outcome:
    """Hold if the ratio of `of` to `to` is largest at the point `at`."""
    ratios = _ratios(grid, metric, of, to, where)
    values = [Value(v, grid.name(p)) for p, v in ratios]
    there = [v for p, v in ratios if all(p.get(axis) in wanted for axis, wanted in at.items())]
    band = f"{metric} of {_named(of)} / {_named(to)} largest at {_named(at)}"
    if not there:
        raise ScenarioError(f"a check of {band} selects no point of the grid: look at its `at`")
    holds = not any(math.isnan(v.value) for v in values) and max(there) == max(v.value for v in values)
    return Outcome(holds, f"{number(max(there))} there, in all {summarise(values)}", band)


def spread(
    grid: Measured,
    *,
    metric: str,
    across: str,
    where: Where | None = None,
    at_most: float,
    difference: bool = False,
) -> Outcome:
    """Hold if the largest value along an axis exceeds the smallest by no more than a share of it (or, as a difference)."""
    values = []
    for rest, along in _groups(grid, across, where):
        means = [grid.mean(metric, p) for p in along]
        low, high = min(means), max(means)
        missing = any(map(math.isnan, means))
        values.append(Value(math.nan if missing else high - low if difference else _divide(high, low) - 1, grid.name(rest)))
    what = f"{metric}: largest {'minus' if difference else 'over'} smallest {across}{'' if difference else ', minus 1,'}"
    return _judge(values, Band(None, at_most), what)


def order(
    grid: Measured,
    *,
    metric: str,
    across: str,
    rising: Sequence[Any],
    where: Where | None = None,
    tolerance: float = 0.0,
) -> Outcome:
    """Hold if the metric rises in the given order along an axis at every point; `tolerance` is the share it may fall back."""
    values = []
    for rest, along in _groups(grid, across, {**(where or {}), across: list(rising)}):
        by_value = {p[across]: grid.mean(metric, p) for p in along}
        steps = [_step(by_value[a], by_value[b]) for a, b in itertools.pairwise(rising)]
        values.append(Value(math.nan if any(map(math.isnan, steps)) else min(steps), grid.name(rest)))
    return _judge(values, Band(1 - tolerance, None), f"{metric} rising {' → '.join(map(str, rising))}: smallest step")


def _step(a: float, b: float) -> float:
    """Give b / a, where anything is above zero and zero is as much as zero."""
    return b / a if a else math.inf if b > 0 else b + 1


def same_order(
    grid: Measured,
    *,
    metric: str,
    across: str,
    along: str,
    at: Where,
    where: Where | None = None,
    tolerance: float = 0.0,
) -> Outcome:
    """Hold if no two values of `across` change places along another axis; pairs within `tolerance` have no order."""
    flips, pairs = [], 0
    reference = at[along][0]
    compared = list((where or {}).get(across, grid.values_of(across)))
    for rest, line in _groups(grid, along, {**(where or {}), across: compared[:1]}):
        for a, b in itertools.combinations(compared, 2):
            signs = {
                p[along]: _sign(grid.mean(metric, {**p, across: a}), grid.mean(metric, {**p, across: b}), tolerance)
                for p in line
            }
            pairs += len(signs)
            place = {k: v for k, v in rest.items() if k != across}
            flips += [
                f"{a} against {b} at {grid.name({**place, along: v})}"
                for v, sign in signs.items()
                if sign is None or sign * (signs[reference] or 0) < 0
            ]
    measured = f"{len(flips)} of {pairs} comparisons changed sides" + (f": {'; '.join(flips)}" if flips else "")
    return Outcome(bool(pairs) and not flips, measured, f"{metric}: order of {across} as at {_named(at)}")


def _sign(a: float, b: float, tolerance: float) -> int | None:
    if math.isnan(a) or math.isnan(b):
        return None
    if abs(a - b) <= tolerance * min(abs(a), abs(b)):
        return 0
    return 1 if a > b else -1


def trend(
    grid: Measured,
    *,
    metric: str,
    along: str,
    where: Where | None = None,
    falling: bool = False,
    tolerance: float = 0.0,
) -> Outcome:
    """Hold if the metric rises (or falls) from each value of an axis to the next; `tolerance` is the share it may slip."""
    values = []
    for rest, line in _groups(grid, along, where):
        means = [grid.mean(metric, p) for p in line]
        if falling:
            means.reverse()
        steps = [_step(a, b) - 1 for a, b in itertools.pairwise(means)]
        values.append(Value(math.nan if any(map(math.isnan, means)) else min(steps), grid.name(rest)))
    return _judge(values, Band(-tolerance, None), f"{metric} {'falling' if falling else 'rising'} with {along}: smallest step")


def ratio_trend(
    grid: Measured, *, metric: str, of: Where, to: Where, along: str, where: Where | None = None, tolerance: float = 0.0
) -> Outcome:
    """Hold if the ratio of `of` to `to` rises from each value of an axis to the next."""
    lines: dict[str, list[float]] = {}
    for point, value in _ratios(grid, metric, of, to, where):
        lines.setdefault(grid.name({k: v for k, v in point.items() if k != along}), []).append(value)
    values = []
    for name, line in lines.items():
        steps = [b / a - 1 for a, b in itertools.pairwise(line)]
        values.append(Value(math.nan if any(map(math.isnan, steps)) else min(steps), name))
    what = f"{metric} of {_named(of)} / {_named(to)} rising with {along}: smallest step"
    return _judge(values, Band(-tolerance, None), what)


def growth(
    grid: Measured,
    *,
    course: str,
    x: str,
    y: str,
    where: Where | None = None,
    early: Sequence[float] = (0.3, 0.5),
    late: Sequence[float] = (0.8, 1.0),
    at_least: float | None = None,
    at_most: float | None = None,
) -> Outcome:
    """Hold if, over the course of a run, the mean of y late in x divided by its mean early lies in the band."""
    values = []
    for point in grid.points(where or {}):
        ratios = [_divide(mean_within(xs, ys, late), mean_within(xs, ys, early)) for xs, ys in grid.course(course, x, y, point)]
        values.append(Value(math.fsum(ratios) / len(ratios) if ratios else math.nan, grid.name(point)))
    return _judge(values, Band(at_least, at_most), f"{y}: mean at {late[0]}-{late[1]} of the run / at {early[0]}-{early[1]}")


def mean_within(xs: Sequence[float], ys: Sequence[float], span: Sequence[float]) -> float:
    """Give the mean of the ys whose x lies in a span; NaN if there are none."""
    inside = [y for x, y in zip(xs, ys, strict=True) if span[0] <= x <= span[1]]
    return math.fsum(inside) / len(inside) if inside else math.nan


def _groups(grid: Measured, axis: str, where: Where | None) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Give the points that differ only in `axis`, with what they share."""
    groups: dict[tuple[Any, ...], tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for point in grid.points(where or {}):
        rest = {k: v for k, v in point.items() if k != axis}
        groups.setdefault(tuple(map(str, rest.values())), (rest, []))[1].append(point)
    return list(groups.values())


def _named(where: Where) -> str:
    return ", ".join("/".join(map(str, values)) for values in where.values())


KINDS: dict[str, Callable[..., Outcome]] = {
    f.__name__: f for f in (level, ratio, best_ratio, peak, spread, order, same_order, trend, ratio_trend, growth)
}


def parameters(kind: str) -> tuple[list[str], list[str]]:
    """Give the names of a check's parameters: those it needs, and those it may have."""
    wanted = [p for p in inspect.signature(KINDS[kind]).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    required = [p.name for p in wanted if p.default is inspect.Parameter.empty]
    return required, [p.name for p in wanted if p.name not in required]
