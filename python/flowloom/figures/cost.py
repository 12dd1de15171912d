"""Estimates how long figures take, from the times in the ledger."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from flowloom import axes, toml
from flowloom.claims import ledger
from flowloom.claims.digests import amounts, merged
from flowloom.figures.grid import settings
from flowloom.figures.schema import Figure


def core_seconds(figure: Figure, scale: str) -> float | None:
    """Estimate the time of all runs of a figure, in seconds on one core, from the ledger; None if it was never run.

    If only another scale was run, its time is scaled by the ratio of seeds, and of flows, requests, coflows or time.
    """
    known = {at: run for at, run in ledger.runs_of(figure).items() if at in figure.scales}
    if scale not in figure.scales or not known:
        return None
    at, run = (scale, known[scale]) if scale in known else next(reversed(known.items()))
    return run.seconds if at == scale else run.seconds * figure.scales[scale].seeds / run.seeds * _ratio(figure, scale, at)


def _ratio(figure: Figure, scale: str, other: str) -> float:
    """Estimate how many times longer a run at one scale takes than at another.

    Several keys may limit a run, and scales often change all of them, so the key with the largest change counts.
    """
    here, there = _amounts(figure, scale), _amounts(figure, other)
    ratios = [here[key] / there[key] for key in here.keys() & there.keys() if here[key] and there[key]]
    return max(ratios, key=lambda ratio: abs(math.log(ratio)), default=1.0)


def _amounts(figure: Figure, scale: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for setting in settings(figure, scale) if figure.tool is None else ():
        table = merged(setting.question)
        total.update(dict(amounts(table.get("workload"))))
        total["time_limit"] += _microseconds(toml.lookup(table, "run.time_limit"))
    return total


def _microseconds(value: Any) -> int:
    found = axes.quantity(value)
    return round((found and found.into("us")) or 0.0)


class Remaining:
    """The estimated remaining time of several figures, some of which share runs."""

    def __init__(self, figures: Sequence[Figure], scale: str) -> None:
        """Estimate the times of figures that are run in this order."""
        self._seconds: dict[str, float] = {}
        self.unknown: list[str] = []
        """Names of the figures that were never run."""
        seen: set[str] = set()
        for figure in figures:
            total = core_seconds(figure, scale)
            if total is None:
                self.unknown.append(figure.name)
                continue
            asked = [repr(setting.question) for setting in settings(figure, scale)]
            self._seconds[figure.name] = total * sum(each not in seen for each in asked) / len(asked)
            seen.update(asked)

    def done(self, figure: Figure) -> None:
        """Note that a figure is finished."""
        self._seconds.pop(figure.name, None)

    @property
    def core_seconds(self) -> float:
        """The time of the unfinished figures on one core, as far as it is known."""
        return sum(self._seconds.values())
