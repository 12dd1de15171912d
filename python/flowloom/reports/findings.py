"""What the numbers of a result say, in a sentence or two."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from flowloom import metrics
from flowloom.axes import Axis, text
from flowloom.comparisons import Comparison
from flowloom.plots import subjects
from flowloom.plots.tables import Row, ranked
from flowloom.results import Results
from flowloom.stats import Estimate, estimate
from flowloom.sweeps import Sweep
from flowloom.tables import finished
from flowloom.transports import transport

_MEAN, _TAIL = "slowdown.mean", "slowdown.p99"
_LINES_MAX = 3
"""At most this many lines of a sweep are described."""


class Rated(NamedTuple):
    """What is compared, with its mean."""

    name: str
    value: Estimate


def of_run(result: Results) -> list[str]:
    """Describe a run."""
    summary = result.summary
    name, done = transport(summary["transport"]).label, finished([result])
    if summary["slowdown"]["mean"] is None:
        return [f"Under {name}, {done} flows finished, so there are no completion times."]
    mean, tail = (metrics.show(metric, metrics.evaluate(metric, summary)) for metric in (_MEAN, _TAIL))
    # Of less than a hundred flows, the 99th percentile is the largest.
    few = summary["finished"] < 100
    slowest = f"the slowest took {tail} times" if few else f"one in a hundred took more than {tail} times"
    return [
        f"Under {name}, {done} flows finished. They took {mean} times as long as alone in the network on average, "
        f"and {slowest} as long."
    ]


def of_comparison(compared: Comparison) -> list[str]:
    """Name the best of a comparison, by how much it is ahead, and whether the intervals overlap."""
    if not compared.sweep.runs:
        return ["No run finished."]
    rounds = compared.rounds()
    bounds = _bounds(rounds)
    if compared.over is not None and len(rounds) > 1:
        return _of_rounds(compared, compared.over, bounds)
    (round_,) = rounds.values()
    rated = _rated(round_, _MEAN)
    best, *_ = ordered = _ordered(rated, bounds)
    sentences = best_of(ordered, "mean slowdown", lambda value: metrics.show_estimate(_MEAN, value))
    tails = _ordered(_rated(round_, _TAIL), bounds)
    if len(tails) > 1 and tails[0].name != best.name and not math.isnan(tails[0].value.mean):
        shown = metrics.show_estimate(_TAIL, tails[0].value)
        sentences.append(f"At the 99th percentile, {tails[0].name} has the least slowdown: {shown}.")
    return sentences + _bound_line(rated, bounds)


def _bounds(rounds: Mapping[str, Mapping[str, Sequence[Results]]]) -> set[str]:
    every = [(name, runs) for round_ in rounds.values() for name, runs in round_.items()]
    return {name for name, runs in every if transport(runs[0].summary["transport"]).bound}


def _rated(round_: Mapping[str, Sequence[Results]], metric: str) -> list[Rated]:
    return [Rated(name, estimate([metrics.evaluate(metric, run.summary) for run in runs])) for name, runs in round_.items()]


def _ordered(rated: Sequence[Rated], bounds: set[str]) -> list[Rated]:
    """Return what is compared, the best first. Bounds are no candidates, unless there is nothing else."""
    found = [each for each in rated if each.name not in bounds] or list(rated)
    return sorted(found, key=lambda each: each.value.rank)


def _bound_line(rated: Sequence[Rated], bounds: set[str]) -> list[str]:
    found = next((each for each in rated if each.name in bounds and not math.isnan(each.value.mean)), None)
    if found is None or len(rated) < 2:
        return []
    return [f"The lower bound, {found.name}, is at {metrics.show_estimate(_MEAN, found.value)}."]


def best_of(ordered: Sequence[Rated], what: str, show: Callable[[Estimate], str]) -> list[str]:
    """Name the best of some means and by how much it is ahead of the next.

    Args:
        ordered: The means, the best first.
        what: What they are means of.
        show: Formats a mean.
    """
    best, *others = ordered
    if math.isnan(best.value.mean):
        return ["No flow finished, so there is nothing to compare."]
    if not others:
        return [f"{best.name} has a {what} of {show(best.value)}."]
    sentence = f"{best.name} has the lowest {what}, {show(best.value)}."
    next_ = others[0]
    if math.isnan(next_.value.mean):
        return [sentence, "No flow finished under the others."]
    if next_.value.n < best.value.n:
        why = "no flow finished in some runs or these failed"
        return [sentence, f"{next_.name} comes next with {show(next_.value)} over fewer runs, since {why}."]
    ahead = next_.value.mean / best.value.mean - 1 if best.value.mean else math.inf
    if not round(100 * ahead, 1):
        return [f"{best.name} and {next_.name} have the lowest {what}, {show(best.value)}."]
    more = f"{_percent(ahead)} more" if ahead < 1 else f"{metrics.significant(1 + ahead, 2)} times as much"
    by = f", which is {more}" if math.isfinite(ahead) else ""
    return [sentence, f"{next_.name} comes next with {show(next_.value)}{by}; {_certainty(best.value, next_.value)}."]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def _certainty(one: Estimate, other: Estimate) -> str:
    if one.half_width is None or other.half_width is None:
        return "there are no confidence intervals, so chance may decide between close numbers"
    if _overlap(one, other):
        return "their 95 % confidence intervals overlap, so more seeds may change the order"
    return "their 95 % confidence intervals do not overlap"


def _overlap(one: Estimate, other: Estimate) -> bool:
    return abs(one.mean - other.mean) <= (one.half_width or 0.0) + (other.half_width or 0.0)


def _of_rounds(compared: Comparison, axis: Axis, bounds: set[str]) -> list[str]:
    rounds = compared.rounds().values()
    ordered = _ordered([Rated(*each) for each in compared.ranking().items()], bounds)
    what = f"mean slowdown over the {len(rounds)} values of {axis.key} (geometric mean)"
    sentences = best_of(ordered, what, lambda value: metrics.show_estimate(_MEAN, value))
    best = ordered[0]
    planned = len(rounds) * max(len(runs) for round_ in rounds for runs in round_.values())
    if 0 < best.value.n < planned:
        sentences.append(f"Even {best.name} has no value in {planned - best.value.n} of {planned} runs, which do not count.")
    if len(ordered) > 1 and best.value.n:
        firsts = [_ordered(_rated(round_, _MEAN), bounds)[0] for round_ in rounds]
        won = [first.name for first in firsts if first.value.n].count(best.name)
        where = "at every value" if won == len(rounds) else f"at {won} of {len(rounds)} values"
        sentences.append(f"{best.name} is the lowest {where}.")
    return sentences


def of_sweep(sweep: Sweep) -> list[str]:
    """Say where the first metric of a sweep is the lowest and the highest, and how it changes along the axis."""
    points = sweep.points()
    if not points:
        return ["No run finished."]
    metric = (sweep.metrics or (_MEAN,))[0]
    label = _lowered(metrics.label(metric))
    rated = [Rated(_at(point), estimate([metrics.evaluate(metric, run.summary) for run in runs])) for point, runs in points]
    rated.sort(key=lambda each: each.value.rank)
    if not rated[0].value.n:
        return [f"No run has a {label}."]
    whole = [each for each in rated if each.value.n == rated[0].value.n]
    low, high = whole[0], whole[-1]
    lacking = f"Points where fewer runs have one are left out ({len(rated) - len(whole)} of {len(rated)})."
    left_out = [lacking] if len(whole) < len(rated) else []
    if len(whole) == 1:
        return [f"The {label} is {metrics.show_estimate(metric, low.value)} at {low.name}.", *left_out]
    extremes = (
        f"The {label} is lowest, {metrics.show_estimate(metric, low.value)}, at {low.name}, and highest, "
        f"{metrics.show_estimate(metric, high.value)}, at {high.name}."
    )
    return [extremes, *left_out, *_along(sweep, metric)]


def _lowered(label: str) -> str:
    return label[0].lower() + label[1:] if label[1:2].islower() else label


def _at(point: Mapping[str, object]) -> str:
    names = [
        transport(str(value)).label if key == "transport.name" else f"{key} = {text(value)}" for key, value in point.items()
    ]
    return ", ".join(names) or "its only point"


def _along(sweep: Sweep, metric: str) -> list[str]:
    """Say how a metric changes from one end of the axis to the other, for a few lines."""
    ((_, subject),) = subjects.of_sweep(sweep)
    if not isinstance(subject, subjects.Over) or subject.axis.at is None or len(subject.series) > _LINES_MAX:
        return []
    axis, at = subject.axis, subject.axis.at
    first, last = at.index(min(at)), at.index(max(at))
    changes = []
    for look, runs in subject.series:
        begin, end = (estimate([metrics.evaluate(metric, run.summary) for run in runs[place]]) for place in (first, last))
        if not begin.n or begin.n != end.n:
            continue
        who = f" with {look.label}" if len(subject.series) > 1 else ""
        verb = "goes" if begin.half_width is None or _overlap(begin, end) else "rises" if end.mean > begin.mean else "falls"
        changes.append(f"{verb} from {metrics.show_estimate(metric, begin)} to {metrics.show_estimate(metric, end)}{who}")
    if not changes or len(at) < 2:
        return []
    return [f"From {axis.key} = {axis.names[first]} to {axis.names[last]} it {', and '.join(changes)}."]


def of_table(rows: Sequence[Row], what: str) -> list[str]:
    """Name the best row of a table of a figure: the one with the lowest values, or with the largest reductions."""
    best, *others = ordered = ranked(rows)
    if not others or any(math.isnan(value) for value in best.values):
        return []
    columns = zip(*(row.costs for row in ordered), strict=True)
    least = [min(cost for cost in column if not math.isnan(cost)) for column in columns]
    won = sum(cost == low for cost, low in zip(best.costs, least, strict=True))
    where = "in every column" if won == len(least) else f"in {won} of {len(least)} columns"
    most = "lowest" if best.whole is None else "largest"
    fewer = ", which has values of fewer seeds" if sum(others[0].counts) < sum(best.counts) else ""
    ahead = f"ahead of {others[0].label}{fewer}"
    return [f"{best.label} has the {most} mean over the columns ({what}), {ahead}; it is the {most} {where}."]
