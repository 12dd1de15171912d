"""Numbers with the interval that several seeds leave open, and what a band says about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flowloom.stats import estimate

HOLDS, DIFFERS, UNDECIDED = "holds", "differs", "undecided"


def worst(verdicts: Iterable[str]) -> str:
    """Give the verdict of several together: one that differs decides, then one that is undecided."""
    found = set(verdicts)
    return next((v for v in (DIFFERS, UNDECIDED) if v in found), HOLDS)


class Span(NamedTuple):
    """A measured value and its 95 % interval; with one seed there is no interval, and both ends are the value."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Span:
        """Estimate the mean of one number per seed (Student's t); seeds without a value (NaN) are left out."""
        mean, half_width, _ = estimate(samples)
        return cls(mean, mean - (half_width or 0.0), mean + (half_width or 0.0))

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


def least(spans: Iterable[Span]) -> Span:
    """Give the smallest of several; its interval holds wherever theirs do. One without a value leaves none."""
    every = list(spans)
    if not every or not all(span.known for span in every):
        return Span(math.nan, math.nan, math.nan)
    return Span(*(min(ends) for ends in zip(*every, strict=True)))


def largest(spans: Iterable[Span]) -> Span:
    """Give the largest of several, like `least`."""
    return -least(-span for span in spans)


class Band(NamedTuple):
    """The values with which a claim holds; ends included."""

    at_least: float | None
    at_most: float | None

    def judge(self, span: Span) -> str:
        """Say whether an interval lies inside (holds), outside (differs) or across a limit (undecided). No value differs."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        if not span.known or span.high < low or span.low > high:
            return DIFFERS
        return HOLDS if low <= span.low and span.high <= high else UNDECIDED

    def beyond(self, span: Span) -> float:
        """Give how far a value lies outside; negative inside, infinite if there is none."""
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
    """Write a measured number with as many digits as it is good for."""
    value += 0.0  # no negative zero
    return f"{value:.3g}" if abs(value) < 1e4 else f"{value:.3e}"
