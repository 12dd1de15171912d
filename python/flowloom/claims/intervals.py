"""Measured values with their confidence intervals, and verdicts from comparing them with a band."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flowloom.stats import estimate

HOLDS, DIFFERS, UNDECIDED = "holds", "differs", "undecided"


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of several verdicts: differs, then undecided, then holds."""
    found = set(verdicts)
    return next((v for v in (DIFFERS, UNDECIDED) if v in found), HOLDS)


class Span(NamedTuple):
    """A measured value and its 95 % interval. With one seed there is no interval, and both ends equal the value.

    If only some seeds have a value, nothing is known of the others, and the interval has no ends.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Span:
        """Estimate the mean of one number per seed (Student's t); NaN stands for no value."""
        mean, half_width, known = estimate(samples)
        spread = math.inf if 0 < known < len(samples) else half_width or 0.0
        return cls(mean, mean - spread, mean + spread)

    @property
    def known(self) -> bool:
        """Whether there is a value."""
        return not math.isnan(self.value)

    def __neg__(self) -> Span:
        return Span(-self.value, -self.high, -self.low)

    def __str__(self) -> str:
        if not self.known:
            return "no value"
        interval = f" [{number(self.low)}, {number(self.high)}]" if self.low < self.high else ""
        return number(self.value) + interval


def smallest(spans: Iterable[Span]) -> Span:
    """Return the minima of the values, lower ends and upper ends of several spans. The result is unknown if one of them is."""
    every = list(spans)
    if not every or not all(span.known for span in every):
        return Span(math.nan, math.nan, math.nan)
    return Span(*(min(ends) for ends in zip(*every, strict=True)))


def largest(spans: Iterable[Span]) -> Span:
    """Return the largest of several spans, like `smallest`."""
    return -smallest(-span for span in spans)


class Band(NamedTuple):
    """The values for which a claim holds, limits included."""

    at_least: float | None
    at_most: float | None

    @property
    def can_fail(self) -> bool:
        """Whether some values lie outside the band, and some inside."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return low <= high and (low, high) != (-math.inf, math.inf)

    def judge(self, span: Span) -> str:
        """Return `holds` for an interval inside the band, `differs` for one outside or without a value, else `undecided`."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        if not span.known or span.high < low or span.low > high:
            return DIFFERS
        return HOLDS if low <= span.low and span.high <= high else UNDECIDED

    def beyond(self, span: Span) -> float:
        """Return how far a value lies outside the band: negative inside, infinite without a value."""
        if not span.known:
            return math.inf
        over = -math.inf if self.at_most is None else span.value - self.at_most
        under = -math.inf if self.at_least is None else self.at_least - span.value
        return max(over, under)

    def __str__(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f"{number(self.at_least)} to {number(self.at_most)}"
        if self.at_least is not None:
            return f"≥ {number(self.at_least)}"
        return f"≤ {number(self.at_most)}" if self.at_most is not None else "any"


def number(value: float) -> str:
    """Format a measured number with three digits."""
    value += 0.0  # turns -0.0 into 0.0
    return f"{value:.3g}" if abs(value) < 1e4 else f"{value:.3e}"
