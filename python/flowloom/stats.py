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
    """Describe means over seeds, given how many seeds each is over; empty if each is over one.

    A run that failed leaves its mean with fewer seeds.
    """
    least, most = min(counts), max(counts)
    if most == 1:
        return ""
    count = f"{most}" if least == most else f"{least} to {most}"
    fewer = "" if least == most else "; means over different seeds are not of the same flows"
    return f"Means of {count} seeds with 95 % confidence intervals (Student's t){fewer}"


def paired_ratios(of: Sequence[float], to: Sequence[float]) -> list[float]:
    """Divide seed by seed, so that a ratio compares runs on the same flows.

    After a division by zero, no seed has a value: leaving out that seed alone would bias the mean.
    """
    return [math.nan] * len(of) if 0 in to else [x / y for x, y in zip(of, to, strict=True)]
