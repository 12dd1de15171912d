"""What thresholds cost: the mean flow completion time of M/M/1 queues in series (PIAS, section III-C), in feasible readings.

The link serves one packet in one packet time (mu = 1), and packets arrive at `load`. The paper's mu_i, the product of the
shares of time in which the queues above are idle, telescopes to 1 minus what arrives above: so T_i is 1 / (1 - what arrives
in queues 1 to i). What is left open is how much arrives in a queue, and what a flow's delay is made of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from flowloom.demotion.sizes import PACKET_BYTES, Floats, Sizes

Cost: TypeAlias = Callable[[Floats], Floats]
"""Thresholds (bytes, ascending along the last axis) to what they cost, for any number of sets at once; less is better."""

QUEUES_MAX = 8
"""Priorities that switches have."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """One way to read the objective."""

    about: str
    unit: str
    bounded: bool
    """What arrives in a queue follows the printed upper bound, not its exact value."""
    per_packet: bool
    """A queue's delay counts once for each packet there, not once for each flow that reaches it."""


READINGS = {
    "exact": Reading(
        "the exact mean of the packets that a flow brings to a queue; a queue delays a flow once", "packet times", False, False
    ),
    "bound": Reading(
        "the printed upper bound of them, scaled so that all queues together have the offered load; a queue delays a flow once",
        "packet times", True, False,
    ),
    "per_packet": Reading(
        "the exact mean of the packets; each packet waits for its queue, one after the other", "packet times", False, True
    ),
}  # fmt: skip


def cost(sizes: Sizes, load: float, reading: str) -> Cost:
    """Give the objective of a reading as a function of thresholds.

    Args:
        sizes: The flow sizes.
        load: Offered load of the bottleneck, above 0 and below 1.
        reading: One of READINGS.

    Returns:
        A function: thresholds in bytes, shape (..., K - 1), to the mean delay of a flow, shape (...), in packet times.
        Queues that nothing enters delay nobody, so thresholds that coincide or lie above all sizes count for nothing.
    """
    how = READINGS[reading]

    def of(thresholds: Floats) -> Floats:
        edges = _framed(np.minimum(thresholds, sizes.largest), 0.0, sizes.largest)
        f, survival = sizes.at(edges[..., 1:-1])
        reach = _framed(1 - f, 1.0)
        packets = np.diff(_framed(survival, 0.0, sizes.mean), axis=-1)
        arrivals = np.diff(edges, axis=-1) * reach if how.bounded else packets
        above = np.cumsum(arrivals, axis=-1) / np.sum(arrivals, axis=-1, keepdims=True)
        delay = 1 / (1 - load * np.minimum(above, 1.0))
        # Rounding leaves a trace of arrivals where there are none.
        counted = packets / PACKET_BYTES if how.per_packet else np.where(arrivals > 1e-14 * sizes.mean, reach, 0.0)
        return np.asarray((counted * delay).sum(axis=-1))

    return of


def _framed(inner: Floats, first: float, last: float | None = None) -> Floats:
    """Put a value before, and perhaps one after, along the last axis."""
    shape = (*inner.shape[:-1], 1)
    parts = [np.full(shape, first), inner] + ([] if last is None else [np.full(shape, last)])
    return np.concatenate(parts, axis=-1)


def equal_split(sizes: Sizes, queues: int) -> Floats:
    """Give the simple rule that PIAS is compared with (figure 13): the (100 i / K)-th percentiles of the sizes, bytes."""
    return sizes.percentile(np.arange(1, queues) / queues)


def worst_ratio(costs: list[Cost], least: list[float]) -> Cost:
    """Give, of several objectives, the largest ratio to what each is at its own best."""
    return lambda thresholds: np.max([cost(thresholds) / best for cost, best in zip(costs, least, strict=True)], axis=0)


def mean_ratio(costs: list[Cost], least: list[float]) -> Cost:
    """Give, of several objectives, the mean ratio to what each is at its own best."""
    return lambda thresholds: np.mean([cost(thresholds) / best for cost, best in zip(costs, least, strict=True)], axis=0)


OVER_LOADS = {"worst": worst_ratio, "mean": mean_ratio}
"""How one number is made of the ratios over a range of loads."""
