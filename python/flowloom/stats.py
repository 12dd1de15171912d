"""Means over seeds with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean with its 95 % confidence interval."""

    mean: float
    half_width: float | None
    """Half the width of Student's t interval; None with one seed, for which the spread is unknown."""
    n: int
    """The number of values that it is the mean of."""

    @property
    def rank(self) -> tuple[int, float]:
        """What means are sorted by, the least first. Those that lack runs are over other flows, and come after the others."""
        return -self.n, self.mean


def estimate(values: Sequence[float]) -> Estimate:
    """Estimate the mean of independent runs (Student's t, 95 %). Runs without a value (NaN) do not count."""
    known = [v for v in values if not math.isnan(v)]
    n = len(known)
    if n == 0:
        return Estimate(math.nan, None, 0)
    mean = math.fsum(known) / n
    if n == 1:
        return Estimate(mean, None, 1)
    from scipy.special import stdtrit  # scipy.stats has the same function, but takes half a second to import

    variance = math.fsum((v - mean) ** 2 for v in known) / (n - 1)
    return Estimate(mean, float(stdtrit(n - 1, 0.975)) * math.sqrt(variance / n), n)


def averaged(counts: Collection[int]) -> str:
    """Describe means over seeds, given `Estimate.n` of each; empty if each is over one, or none has a value.

    A run that failed, or that has no value, leaves its mean with fewer seeds. A mean over none is not shown.
    """
    shown = [count for count in counts if count]
    if max(shown, default=1) == 1:
        return ""
    count, fewer = seeds_of(shown)
    return f"Means of {count} seeds with 95 % confidence intervals (Student's t){fewer}"


def seeds_of(counts: Collection[int]) -> tuple[str, str]:
    """Return in words how many seeds means are over, and what to say if these are not the same seeds."""
    least, most = min(counts), max(counts)
    if least == most:
        return f"{most}", ""
    return f"{least} to {most}", "; means over different seeds are not of the same flows"


def paired_ratios(of: Sequence[float], to: Sequence[float]) -> list[float]:
    """Divide seed by seed, so that a ratio compares runs on the same flows.

    After a division by zero, a seed has no value. Leaving it out would bias the mean.
    """
    return [x / y if y else math.nan for x, y in zip(of, to, strict=True)]
