"""How long figures take, from how long they took."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flowloom.claims import ledger
from flowloom.figures.grid import points, settings
from flowloom.figures.schema import Figure

_AMOUNT = re.compile(r"(\.flows|\.requests|\.time_limit)$")
"""Scenario keys that say how much is simulated."""


def core_seconds(figure: Figure, scale: str) -> float | None:
    """Estimate what all runs of a figure cost, in seconds of one core, from the ledger; None if it was never run.

    What another scale took is multiplied by how many more runs and how many more flows, requests or seconds there are.
    """
    known = {at: run["seconds"] for at, run in ledger.runs_of(figure).items() if at in figure.scales}
    if scale in known:
        return float(known[scale])
    if scale not in figure.scales or not known:
        return None
    other, seconds = next(reversed(known.items()))
    return float(seconds) * _weight(figure, scale) / _weight(figure, other)


def _weight(figure: Figure, scale: str) -> float:
    """Give a number to which the cost of a scale is about proportional."""
    size = figure.scales[scale]
    total = 0.0
    for point in points(figure.axes):
        keys: dict[str, Any] = {}
        for rule in [*figure.rules, *size.rules]:
            if all(point[axis] in wanted for axis, wanted in rule.when.items()):
                keys |= rule.keys
        total += _amount(keys)
    return total * size.seeds


def _amount(keys: Mapping[str, Any]) -> float:
    # Of flows and a limit in time, either may be what ends a run; scales that change both change them alike.
    amounts = [_number(value) for key, value in keys.items() if _AMOUNT.search(key)]
    return max(amounts, default=1.0)


def _number(value: Any) -> float:
    """Read an amount: a number of flows, or a time such as `20ms` in milliseconds."""
    if isinstance(value, int | float):
        return float(value)
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-zµ]*)", str(value))
    scale = {"s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}
    return float(found[1]) * scale.get(found[2], 1.0) if found else 1.0


class Remaining:
    """What is left of several figures, of which some share runs."""

    def __init__(self, figures: Sequence[Figure], scale: str) -> None:
        """Take the figures in the order in which they are run."""
        self._seconds: dict[str, float] = {}
        self.unknown: list[str] = []
        """Names of those that were never run."""
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
        """Note that a figure needs no more."""
        self._seconds.pop(figure.name, None)

    @property
    def core_seconds(self) -> float:
        """What all the others take on one core, as far as that is known."""
        return sum(self._seconds.values())
