"""Means over seeds with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean, and how far the true mean may be from it (95 %)."""

    mean: float
    half_width: float | None
    """Student's t interval; None with one seed, which says nothing about the spread."""
    n: int


def estimate(values: Sequence[float]) -> Estimate:
    """Estimate the mean of independent runs, 95 % Student t; runs without a value (NaN) are left out."""
    known = [v for v in values if not math.isnan(v)]
    n = len(known)
    if n == 0:
        return Estimate(math.nan, None, 0)
    mean = math.fsum(known) / n
    if n == 1:
        return Estimate(mean, None, 1)
    from scipy.special import stdtrit  # scipy.stats has the same behind half a second of imports

    variance = math.fsum((v - mean) ** 2 for v in known) / (n - 1)
    return Estimate(mean, float(stdtrit(n - 1, 0.975)) * math.sqrt(variance / n), n)
