"""Prints demotion thresholds as tables."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import typer

from flowloom import metrics
from flowloom.cli.common import print_table
from flowloom.demotion.analytic import Check, Rival, Solution
from flowloom.demotion.model import READINGS
from flowloom.demotion.published import Published
from flowloom.demotion.simulated import Found
from flowloom.demotion.sizes import PACKET_BYTES, Sizes
from flowloom.metrics import significant, spread
from flowloom.stats import Estimate


def print_found(found: Solution | Found) -> None:
    """Print the thresholds, and a comparison with other sets."""
    _print_queues(found.sizes, found.thresholds)
    if len(found.thresholds) + 1 < found.queues:
        more = "the search found nothing better with more" if isinstance(found, Found) else "more would not lower the objective"
        typer.echo(f"{len(found.thresholds) + 1} of {found.queues} queues are used; {more}.\n")
    if isinstance(found, Solution):
        _print_analytic(found)
    else:
        _print_simulated(found)


def _print_queues(sizes: Sizes, thresholds: tuple[int, ...]) -> None:
    f, survival = sizes.at(np.array(thresholds, dtype=np.float64))
    flows, bytes_ = np.diff([0, *f, 1]), np.diff([0, *survival, sizes.mean]) / sizes.mean
    rows = []
    for number, (ending, carried) in enumerate(zip(flows, bytes_, strict=True), 1):
        here = thresholds[number - 1] if number <= len(thresholds) else None
        limit = ["no limit", ""] if here is None else [f"{here:,}", f"{here / PACKET_BYTES:,.1f}"]
        rows.append([str(number), *limit, f"{ending:.1%}", f"{carried:.1%}"])
    head = ["queue", "up to (bytes)", f"packets of {PACKET_BYTES} B", "flows that end here", "bytes carried"]
    print_table(head, rows, right=range(5), title=f"{sizes.name}: mean flow {metrics.size(sizes.mean)}")


def _print_analytic(solution: Solution) -> None:
    reading = READINGS[solution.reading]
    typer.echo(f"{reading.quantity}, reading {solution.reading}: {reading.about}.")
    if len(solution.loads) == 1:
        _print_one_load(solution)
    else:
        _print_ratios(solution)
    typer.echo(f"found in {solution.seconds:.2f} s\n")
    if solution.check:
        _print_check(solution.check)


def _print_one_load(solution: Solution) -> None:
    (at,) = solution.loads
    rows = []
    for rival in (Rival("these thresholds", solution.thresholds, at.objective), *at.rivals):
        used = len(set(rival.thresholds)) + 1
        rows.append([rival.name, str(used), significant(rival.objective, 4), f"{rival.objective / at.objective:.3f}"])
    print_table([f"at load {at.load:g}", "queues", "objective", "ratio"], rows, right=(1, 2, 3))


def _print_ratios(solution: Solution) -> None:
    names = list(dict.fromkeys(rival.name for at in solution.loads for rival in at.rivals))
    rows = []
    for at in solution.loads:
        found = {rival.name: f"{rival.objective / at.best.objective:.3f}" for rival in at.rivals}
        numbers = [significant(at.best.objective, 4), f"{at.ratio:.3f}", *(found.get(name, "-") for name in names)]
        rows.append([f"{at.load:g}", *numbers])
    head = ["load", "least objective", "these thresholds", *names]
    title = f"Ratios to the least objective at each load; the {solution.over} ratio was minimised: {solution.objective:.4f}"
    print_table(head, rows, right=range(len(head)), title=title)


def _print_simulated(found: Found) -> None:
    several = len(found.loads) > 1
    head = ["set", "queues", *(f"{metrics.label(found.metric)} at {load:g}" for load in found.loads)]
    head += [f"ratio at {load:g}" for load in found.loads] if several else []
    head += [f"{found.over} ratio, to the analytic set's" if several else "to the analytic set's"]
    rows = []
    for each in found.compared:
        numbers = [significant(value.mean, 5) for value in each.values] + [f"{ratio:.3f}" for ratio in each.ratios]
        rows.append([each.name, str(len(each.thresholds) + 1), *numbers, _difference(each.difference)])
    seeds = found.compared[0].difference.n
    title = f"Means of {seeds} seeds that the search did not use; differences are paired by seed, with 95 % intervals"
    print_table(head, rows, right=range(1, len(head)), title=title)
    typer.echo(f"{_verdict(found.compared[0].difference)}\n{found.runs} runs, {found.rounds} rounds, {found.seconds:.0f} s\n")


def _print_check(check: Check) -> None:
    """Print the simulation of the model's set and its rivals, and which one is recommended."""
    title = f"Simulated at load {check.load:g} on {check.fabric}: {check.flows:,} flows, {check.sets[0].value.n} seeds"
    rows = []
    for each in check.sets:
        numbers = [str(len(each.thresholds) + 1), significant(each.value.mean, 4), _difference(each.difference)]
        rows.append(["these thresholds" if each.name == "found" else each.name, *numbers])
    head = ["set", "queues", metrics.label(check.metric), "to the equal split's"]
    print_table(head, rows, right=(1, 2, 3), title=title)
    typer.echo(f"Differences are paired by seed, with 95 % intervals. Recommended: {_recommended(check)}.\n")


def _recommended(check: Check) -> str:
    found, best = check.sets[0], check.best
    if best is found:
        return "these thresholds"
    return f"the {best.name}, whose mean is less by {significant(found.value.mean - best.value.mean, 2)}"


def _difference(difference: Estimate) -> str:
    return "0" if difference.mean == 0 else spread(difference, 4, sign="+")


def _verdict(difference: Estimate) -> str:
    if abs(difference.mean) <= (difference.half_width or 0):
        return "The found set does not differ significantly from the analytic set."
    return f"The found set is significantly {'better' if difference.mean < 0 else 'worse'} than the analytic set."


def print_published(sets: Iterable[Published]) -> None:
    """List published sets, in bytes."""
    rows = [[s.workload, f"{s.load:g}", s.source, *(f"{t:,}" for t in s.thresholds)] for s in sets]
    print_table(["table", "load", "source", *(f"{n}" for n in range(1, 8))], rows, right=range(3, 10), title="Published, bytes")
