"""The kinds of checks that a claim can make on a figure's runs. A figure file selects them, with parameters and bands.

A check first computes its number for each seed, so that a ratio compares runs on the same flows. Then it estimates the mean
over seeds with its 95 % interval. At every point that `where` selects, the check holds if the whole interval lies in the band,
differs if the whole interval lies outside, and is undecided otherwise. The worst point decides. With one seed, the value alone
decides. At a point without a value (for example because no flow finished) the check differs. If only some seeds have a value,
it is undecided.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, get_type_hints

from flowloom._native import ScenarioError
from flowloom.claims.intervals import DIFFERS, HOLDS, UNDECIDED, Band, Span, largest, smallest, worst
from flowloom.distributions import STEPS, Quantity
from flowloom.figures.fields import AxisName, FlowQuantity, Metric, OnePoint, SeriesName, Shares, Sizes, Tolerance, Where
from flowloom.models import Number
from flowloom.stats import paired_ratios

Point = Mapping[str, Any]


class Measured(Protocol):
    """The interface of a figure's runs for checks."""

    def points(self, where: Where) -> list[dict[str, Any]]:
        """Return the grid's points that `where` selects, in the order of the axes."""

    def values_of(self, axis: str) -> list[Any]:
        """Return an axis's values in order."""

    def name(self, point: Point) -> str:
        """Return a point's name for messages."""

    def samples(self, metric: str, point: Point) -> list[float]:
        """Return a metric for each seed, in the same order at every point; NaN for a run without a value."""

    def quantiles(self, quantity: Quantity, point: Point) -> list[list[float]]:
        """Return the quantiles of a quantity at 0, 0.001, 0.002, ..., 1, for each seed in the same order; NaN without flows."""

    def course(self, series: str, x: str, y: str, point: Point) -> list[tuple[list[float], list[float]]]:
        """Return two columns of a recorded series, for each seed."""


class Outcome(NamedTuple):
    """The outcome of a check."""

    verdict: str
    measured: str
    band: str
    decisive: Span
    """The value that decided the verdict: of the points with this verdict, the one farthest outside the band."""
    where: str = ""
    """The point of this value. Empty if no point alone decides, and if the check holds at several points."""
    points: int = 0
    """How many points were compared with the band."""

    @property
    def holds(self) -> bool:
        """Whether the verdict is `holds`."""
        return self.verdict == HOLDS


class Value(NamedTuple):
    """A number and the point at which it was measured."""

    span: Span
    where: str

    def __str__(self) -> str:
        return f"{self.span} ({self.where})" if self.where else str(self.span)


def summarise(values: Sequence[Value]) -> str:
    """Describe the smallest and the largest value with their points."""
    missing = next((v for v in values if not v.span.known), None)
    if missing:
        return f"no value at {missing.where}"
    low, high = (pick(values, key=lambda v: v.span.value) for pick in (min, max))
    if str(low.span) == str(high.span):
        return str(low.span) + (f" (all {len(values)} points)" if len(values) > 1 else "")
    return f"{low} to {high}"


def _judge(values: Sequence[Value], band: Band, what: str, measured: str | None = None) -> Outcome:
    if not values:
        raise ScenarioError(f"a check of {what} selects no point of the grid; correct its `where`, `of` or `to`")
    verdicts = [band.judge(v.span) for v in values]
    verdict = worst(verdicts)
    decisive = max((v for v, each in zip(values, verdicts, strict=True) if each == verdict), key=lambda v: band.beyond(v.span))
    alone = measured is None and (len(values) == 1 or verdict != HOLDS)
    where = decisive.where if alone else ""
    return Outcome(verdict, measured or summarise(values), f"{what} {band}", decisive.span, where, len(values))


def _judge_one(span: Span, values: Sequence[Value], band: Band, what: str) -> Outcome:
    """Judge one number that follows from the values of several points."""
    measured = f"{span}, of {summarise(values)}" if len(values) > 1 else None
    return _judge([Value(span, "")] if values else [], band, what, measured)


def _paired(a: Sequence[float], b: Sequence[float], combine: Callable[[float, float], float]) -> list[float]:
    """Combine two metrics seed by seed."""
    return [combine(x, y) for x, y in zip(a, b, strict=True)]


def _step(a: Sequence[float], b: Sequence[float]) -> Span:
    """Return b - a as a share of the larger of the two means: from -1 to 1, and 0 if both are zero."""
    scale = max(abs(Span.of(a).value), abs(Span.of(b).value))
    rise = Span.of(_paired(a, b, lambda x, y: y - x))
    return Span(*(end / scale for end in rise)) if scale else rise


def level(
    grid: Measured,
    *,
    metric: Metric,
    where: Where | None = None,
    at_least: Number | None = None,
    at_most: Number | None = None,
    every_run: bool = False,
) -> Outcome:
    """Check that the metric lies in the band at every point; with `every_run`, that it lies there in every run."""
    values = []
    for point in grid.points(where or {}):
        samples = grid.samples(metric, point)
        spans = [Span.of(samples)]
        if every_run:
            known = [Span.of([x]) for x in samples if not math.isnan(x)]
            # If some runs have no value, the others alone do not decide.
            spans = known if len(known) == len(samples) else known + spans
        values += [Value(span, grid.name(point)) for span in spans]
    return _judge(values, Band(at_least, at_most), metric + (" in every run" if every_run else ""))


def _compared(
    grid: Measured, metric: str, of: Where, to: Where, where: Where | None
) -> list[tuple[dict[str, Any], Sequence[float], Sequence[float]]]:
    """Return each point with its samples at `of` and at `to`.

    A point has the axes of `of` only if `of` selects several values of them.
    """
    other = {axis: values[0] for axis, values in to.items()}
    return [
        (_apart_from(point, of), grid.samples(metric, point), grid.samples(metric, {**point, **other}))
        for point in grid.points({**(where or {}), **of})
    ]


def _ratios(grid: Measured, metric: str, of: Where, to: Where, where: Where | None) -> list[tuple[dict[str, Any], list[float]]]:
    """Return the ratio for each seed and point."""
    return [(point, paired_ratios(above, below)) for point, above, below in _compared(grid, metric, of, to, where)]


def _apart_from(point: Point, of: Where) -> dict[str, Any]:
    """Return a point's coordinates without those that `of` determines."""
    return {k: v for k, v in point.items() if k not in of or len(of[k]) > 1}


def _spans(grid: Measured, ratios: Sequence[tuple[dict[str, Any], list[float]]]) -> list[Value]:
    return [Value(Span.of(samples), grid.name(point)) for point, samples in ratios]


def ratio(
    grid: Measured,
    *,
    metric: Metric,
    of: Where,
    to: OnePoint,
    where: Where | None = None,
    at_least: Number | None = None,
    at_most: Number | None = None,
) -> Outcome:
    """Check that the metric at `of`, divided by the metric at `to`, lies in the band at all values of the other axes."""
    values = _spans(grid, _ratios(grid, metric, of, to, where))
    return _judge(values, Band(at_least, at_most), f"{metric} of {_named(of)} / {_named(to)}")


def best_ratio(
    grid: Measured,
    *,
    metric: Metric,
    of: Where,
    to: OnePoint,
    where: Where | None = None,
    at_least: Number | None = None,
    at_most: Number | None = None,
) -> Outcome:
    """Check that the smallest of the ratios of `of` to `to` lies in the band, for claims such as "up to 20 % less"."""
    values = _spans(grid, _ratios(grid, metric, of, to, where))
    best = smallest(v.span for v in values)
    return _judge_one(best, values, Band(at_least, at_most), f"least {metric} of {_named(of)} / {_named(to)}")


def mean_ratio(
    grid: Measured,
    *,
    metric: Metric,
    of: Where,
    to: OnePoint,
    where: Where | None = None,
    at_least: Number | None = None,
    at_most: Number | None = None,
) -> Outcome:
    """Check that the mean of the ratios of `of` to `to` over all points lies in the band: "20 % less on average"."""
    ratios = _ratios(grid, metric, of, to, where)
    mean = Span.of([math.fsum(of_seed) / len(of_seed) for of_seed in zip(*(samples for _, samples in ratios), strict=True)])
    return _judge_one(mean, _spans(grid, ratios), Band(at_least, at_most), f"mean {metric} of {_named(of)} / {_named(to)}")


def ratio_of_sums(
    grid: Measured,
    *,
    metric: Metric,
    of: Where,
    to: OnePoint,
    where: Where | None = None,
    at_least: Number | None = None,
    at_most: Number | None = None,
) -> Outcome:
    """Check that the sum of the metric over all points of `of`, divided by that of `to`, lies in the band.

    With means over equally many flows, this is the ratio of the means over the flows of all points.
    """
    compared = _compared(grid, metric, of, to, where)
    above = _sums([samples for _, samples, _ in compared])
    below = _sums([samples for _, _, samples in compared])
    each = _spans(grid, [(point, paired_ratios(one, other)) for point, one, other in compared])
    what = f"sum of {metric} of {_named(of)} / {_named(to)}"
    return _judge_one(Span.of(paired_ratios(above, below)), each, Band(at_least, at_most), what)


def _sums(points: Sequence[Sequence[float]]) -> list[float]:
    """Return the sum over points for each seed."""
    return [math.fsum(of_seed) for of_seed in zip(*points, strict=True)]


def peak(grid: Measured, *, metric: Metric, of: Where, to: OnePoint, at: Where, where: Where | None = None) -> Outcome:
    """Check that the ratio of `of` to `to` is larger at the point `at` than at all others."""
    ratios = _ratios(grid, metric, of, to, where)
    band = f"{metric} of {_named(of)} / {_named(to)} largest at {_named(at)}"
    there = [r for r in ratios if all(r[0].get(axis) in wanted for axis, wanted in at.items())]
    others = [r for r in ratios if r not in there]
    if len(there) != 1 or not others:
        raise ScenarioError(f"a check of {band} selects no point of the grid; `at` must select one of several points")
    margins = [Span.of(_paired(samples, there[0][1], lambda x, y: y - x)) for _, samples in others]
    measured = f"{_spans(grid, there)[0].span} there, elsewhere {summarise(_spans(grid, others))}"
    return _judge([Value(smallest(margins), "")], Band(0.0, None), band, measured)._replace(band=band)


def spread(
    grid: Measured,
    *,
    metric: Metric,
    across: AxisName,
    where: Where | None = None,
    at_most: Number,
    difference: bool = False,
) -> Outcome:
    """Check that the largest value along an axis exceeds the smallest by at most a share (or with `difference`, an amount)."""
    values = []
    for rest, along in _groups(grid, across, where):
        samples = [grid.samples(metric, p) for p in along]
        # The largest over the smallest equals the largest ratio of any two values. Each pair is compared on the same flows.
        pairs = [
            Span.of(_paired(b, a, lambda x, y: y - x) if difference else [r - 1 for r in paired_ratios(a, b)])
            for a, b in itertools.permutations(samples, 2)
        ]
        values.append(Value(largest(pairs), grid.name(rest)))
    what = f"{metric}: largest {'minus' if difference else 'over'} smallest {across}{'' if difference else ', minus 1,'}"
    return _judge(values, Band(None, at_most), what)


def order(
    grid: Measured,
    *,
    metric: Metric,
    across: AxisName,
    rising: list[Any],
    where: Where | None = None,
    tolerance: Tolerance = 0.0,
) -> Outcome:
    """Check that the metric rises in the given order along an axis at every point. It may fall by a share of `tolerance`."""
    known = grid.values_of(across)
    if len(rising) < 2 or any(value not in known or rising.count(value) > 1 for value in rising):
        raise ScenarioError(f"`rising` must list at least two different values of {across}, which has {_listed(known)}")
    values = []
    for rest, along in _groups(grid, across, {**(where or {}), across: rising}):
        # The values of an axis may be lists, which cannot be keys.
        samples = [next(grid.samples(metric, p) for p in along if p[across] == value) for value in rising]
        steps = [_step(a, b) for a, b in itertools.pairwise(samples)]
        values.append(Value(smallest(steps), grid.name(rest)))
    what = f"{metric} rising {' → '.join(map(str, rising))}: smallest step, as a share,"
    return _judge(values, Band(-tolerance, None), what)


def same_order(
    grid: Measured,
    *,
    metric: Metric,
    across: AxisName,
    along: AxisName,
    at: OnePoint,
    where: Where | None = None,
    tolerance: Tolerance = 0.0,
) -> Outcome:
    """Check that the values of `across` have the same order at each point of another axis as at the point `at`.

    Pairs that differ by at most `tolerance` at `at` have no order and are not checked.
    """
    compared = list((where or {}).get(across, grid.values_of(across)))
    if list(at) != [along] or across == along or at[along][0] not in (where or {}).get(along, at[along]):
        raise ScenarioError(f"`at` must select one of the values of {along} that are compared, and `across` another axis")
    values, unordered = [], 0
    for rest, line in _groups(grid, along, {**(where or {}), across: compared[:1]}):
        place = {k: v for k, v in rest.items() if k != across}
        for a, b in itertools.combinations(compared, 2):
            steps = [
                (p[along], _step(grid.samples(metric, {**p, across: a}), grid.samples(metric, {**p, across: b}))) for p in line
            ]
            before = next(step for value, step in steps if value == at[along][0])
            if abs(before.value) <= tolerance:
                unordered += 1
                continue
            # How far the order of the pair changed: it did if one step is above the tolerance and the other below its negative.
            values += [
                Value(
                    largest([smallest([before, -after]), smallest([-before, after])]),
                    f"{a} against {b} at {grid.name({**place, along: v})}",
                )
                for v, after in steps
                if v != at[along][0]
            ]
    band = Band(None, tolerance)
    flips, perhaps = ([v.where for v in values if band.judge(v.span) == verdict] for verdict in (DIFFERS, UNDECIDED))
    measured = f"{len(flips)} of {len(values)} comparisons changed sides" + (f": {'; '.join(flips)}" if flips else "")
    if perhaps:
        measured += f"; perhaps also {'; '.join(perhaps)}"
    if unordered:
        measured += f"; {unordered} pairs have no order at {_named(at)}"
    what = f"{metric}: order of {across} as at {_named(at)}"
    if not values:
        return Outcome(UNDECIDED, measured, what, Span.of([]))
    return _judge(values, band, what, measured)._replace(band=what)


def trend(
    grid: Measured,
    *,
    metric: Metric,
    along: AxisName,
    where: Where | None = None,
    falling: bool = False,
    tolerance: Tolerance = 0.0,
) -> Outcome:
    """Check that the metric rises (or falls) from each value of an axis to the next, except for a share of `tolerance`."""
    values = []
    for rest, line in _groups(grid, along, where):
        samples = [grid.samples(metric, p) for p in line]
        values.append(Value(_smallest_step(samples[::-1] if falling else samples), grid.name(rest)))
    what = f"{metric} {'falling' if falling else 'rising'} with {along}: smallest step, as a share,"
    return _judge(values, Band(-tolerance, None), what)


def _smallest_step(line: Sequence[Sequence[float]]) -> Span:
    return smallest(_step(a, b) for a, b in itertools.pairwise(line))


def ratio_trend(
    grid: Measured,
    *,
    metric: Metric,
    of: Where,
    to: OnePoint,
    along: AxisName,
    where: Where | None = None,
    tolerance: Tolerance = 0.0,
) -> Outcome:
    """Check that the ratio of `of` to `to` rises from each value of an axis to the next."""
    lines: dict[str, list[list[float]]] = {}
    for point, ratios in _ratios(grid, metric, of, to, where):
        lines.setdefault(grid.name({k: v for k, v in point.items() if k != along}), []).append(ratios)
    values = [Value(_smallest_step(line), name) for name, line in lines.items()]
    what = f"{metric} of {_named(of)} / {_named(to)} rising with {along}: smallest step, as a share,"
    return _judge(values, Band(-tolerance, None), what)


def quantiles_below(
    grid: Measured,
    *,
    quantity: FlowQuantity,
    of: Where,
    to: OnePoint,
    where: Where | None = None,
    sizes: Sizes | None = None,
    between: Shares = [0.01, 0.99],  # noqa: B006, nothing changes it
    at_least: Number | None = None,
    at_most: Number | None = None,
) -> Outcome:
    """Check that the share of quantiles at which the distribution of `of` is below that of `to` lies in the band.

    At each quantile, the difference is taken for each seed, and its mean estimated with its 95 % interval. The lower end of
    the share counts the quantiles whose whole interval is below zero, and the upper end those with a part below zero.
    """
    each = Quantity.of(quantity, sizes)
    first, last = (round(end * STEPS) for end in between)
    other = {axis: values[0] for axis, values in to.items()}
    values = []
    for point in grid.points({**(where or {}), **of}):
        pairs = zip(grid.quantiles(each, point), grid.quantiles(each, {**point, **other}), strict=True)
        seeds = [_paired(a[first : last + 1], b[first : last + 1], _relative) for a, b in pairs]
        differences = [Span.of(samples) for samples in zip(*seeds, strict=True)]
        values.append(Value(_share_below(differences), grid.name(_apart_from(point, of))))
    what = f"share of quantiles {between[0]}-{between[1]} of {each} at which {_named(of)} is below {_named(to)}"
    return _judge(values, Band(at_least, at_most), what)


def _relative(a: float, b: float) -> float:
    """Return a - b as a share of the larger of the two, which may be infinite: from -1 to 1 if both are positive."""
    if a == b:
        return 0.0
    difference = a - b
    return math.copysign(1.0, difference) if math.isinf(difference) else difference / max(abs(a), abs(b))


def _share_below(differences: Sequence[Span]) -> Span:
    """Return the share of differences that are below zero; they certainly are if their whole interval is."""
    if not all(span.known for span in differences):
        return Span.of([])
    counts = (sum(ends) for ends in zip(*((d.value < 0, d.high < 0, d.low < 0) for d in differences), strict=True))
    return Span(*(count / len(differences) for count in counts))


def growth(
    grid: Measured,
    *,
    course: SeriesName,
    x: str,
    y: str,
    where: Where | None = None,
    early: Shares = [0.3, 0.5],  # noqa: B006
    late: Shares = [0.8, 1.0],  # noqa: B006
    at_least: Number | None = None,
    at_most: Number | None = None,
) -> Outcome:
    """Check that the mean of y late in a run, divided by its mean early in the run, lies in the band."""
    values = []
    for point in grid.points(where or {}):
        runs = grid.course(course, x, y, point)
        early_means, late_means = ([mean_within(xs, ys, span) for xs, ys in runs] for span in (early, late))
        values.append(Value(Span.of(paired_ratios(late_means, early_means)), grid.name(point)))
    return _judge(values, Band(at_least, at_most), f"{y}: mean at {late[0]}-{late[1]} of the run / at {early[0]}-{early[1]}")


def mean_within(xs: Sequence[float], ys: Sequence[float], span: Sequence[float]) -> float:
    """Return the mean of the ys whose x lies in an interval; NaN if there are none."""
    inside = [y for x, y in zip(xs, ys, strict=True) if span[0] <= x <= span[1]]
    return math.fsum(inside) / len(inside) if inside else math.nan


def _groups(grid: Measured, axis: str, where: Where | None) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return groups of points that differ only in `axis`, each with the coordinates that they share."""
    groups: dict[tuple[Any, ...], tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for point in grid.points(where or {}):
        rest = {k: v for k, v in point.items() if k != axis}
        groups.setdefault(tuple(map(str, rest.values())), (rest, []))[1].append(point)
    return list(groups.values())


def _named(where: Where) -> str:
    return ", ".join("/".join(map(str, values)) for values in where.values())


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


KINDS: dict[str, Callable[..., Outcome]] = {
    f.__name__: f
    for f in (
        level,
        ratio,
        best_ratio,
        mean_ratio,
        ratio_of_sums,
        peak,
        spread,
        order,
        same_order,
        trend,
        ratio_trend,
        growth,
        quantiles_below,
    )
}


def parameters(kind: str) -> dict[str, tuple[Any, Any]]:
    """Return the parameters of a kind of check by name: the type of each, and its default (`...` if it has none).

    A figure file gives a check's parameters, and the function's signature declares what it may give.
    """
    function = KINDS[kind]
    types = get_type_hints(function, include_extras=True)
    wanted = [p for p in inspect.signature(function).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    return {p.name: (types[p.name], ... if p.default is inspect.Parameter.empty else p.default) for p in wanted}
