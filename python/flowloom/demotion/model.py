"""The queueing models. The paper's is the mean flow completion time of M/M/1 queues in series (PIAS, section III-C).

The link serves one packet per packet time (mu = 1), and packets arrive at the rate `load`. The paper's mu_i is the product of
the shares of time in which the higher queues are idle. It simplifies to 1 minus the arrivals in the higher queues, so T_i is
1 / (1 - arrivals in queues 1 to i). The paper leaves open how much arrives in a queue, and which delays add up to a flow's.
Three of the readings below are feasible answers. The fourth is another model (`bursts`): packets of real flows do not arrive
one by one, and so they wait for longer than the paper's model says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from flowloom.demotion.bursts import Bursts
from flowloom.demotion.sizes import PACKET_BYTES, Floats, Sizes

Cost: TypeAlias = Callable[[Floats], Floats]
"""Maps thresholds (bytes, ascending along the last axis) to their cost, for any number of sets at once; less is better."""

QUEUES_MAX = 8
"""The number of priorities of switches."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """One way to read the objective."""

    about: str
    quantity: str
    """What is minimised, with its unit."""
    bounded: bool
    """Whether the arrivals in a queue have the paper's upper bound instead of their exact value."""
    per_packet: bool
    """Whether a queue's delay counts for each packet in it, instead of for each flow that reaches it."""


_DELAY = "Mean delay in packet times"
READINGS = {
    "bursts": Reading(
        "not the paper's model; the packets of a flow arrive together and wait for those of other flows",
        "Mean slowdown", False, False,
    ),
    "exact": Reading(
        "the exact mean number of packets that a flow has in a queue; a queue delays a flow once", _DELAY, False, False
    ),
    "bound": Reading(
        "the paper's upper bound on the number of packets in a queue, scaled so that all queues together have the offered "
        "load; a queue delays a flow once",
        _DELAY, True, False,
    ),
    "per_packet": Reading(
        "the exact mean number of packets that a flow has in a queue; a queue delays each of them, one after the other",
        _DELAY, False, True,
    ),
}  # fmt: skip


def cost(sizes: Sizes, load: float, reading: str) -> Cost:
    """Return the objective of a reading as a function of thresholds.

    Args:
        sizes: The flow sizes.
        load: Offered load of the bottleneck, above 0 and below 1.
        reading: One of READINGS.

    Returns:
        A function from thresholds in bytes, shape (..., K - 1), to the mean delay of a flow in packet times (of
        `bursts`: its mean slowdown), shape (...).
        An empty queue delays no flow, so thresholds that coincide or lie above all sizes have no effect.
    """
    if reading == "bursts":
        return Bursts(sizes, load)
    how = READINGS[reading]

    def of(thresholds: Floats) -> Floats:
        edges = _framed(np.minimum(thresholds, sizes.largest), 0.0, sizes.largest)
        f, survival = sizes.at(edges[..., 1:-1])
        reach = _framed(1 - f, 1.0)
        packets = np.diff(_framed(survival, 0.0, sizes.mean), axis=-1)
        arrivals = np.diff(edges, axis=-1) * reach if how.bounded else packets
        above = np.cumsum(arrivals, axis=-1) / np.sum(arrivals, axis=-1, keepdims=True)
        delay = 1 / (1 - load * np.minimum(above, 1.0))
        # Rounding errors can make the arrivals of an empty queue positive.
        counted = packets / PACKET_BYTES if how.per_packet else np.where(arrivals > 1e-14 * sizes.mean, reach, 0.0)
        return np.asarray((counted * delay).sum(axis=-1))

    return of


def _framed(inner: Floats, first: float, last: float | None = None) -> Floats:
    """Add a value at the beginning, and optionally one at the end, of the last axis."""
    shape = (*inner.shape[:-1], 1)
    parts = [np.full(shape, first), inner] + ([] if last is None else [np.full(shape, last)])
    return np.concatenate(parts, axis=-1)


def equal_split(sizes: Sizes, queues: int) -> Floats:
    """Return the thresholds that PIAS is compared with (figure 13): the (100 i / K)-th percentiles of the sizes, in bytes."""
    return sizes.percentile(np.arange(1, queues) / queues)


def worst_ratio(costs: list[Cost], least: list[float]) -> Cost:
    """Return the largest of the ratios of several objectives to their optima."""
    return lambda thresholds: np.max([cost(thresholds) / best for cost, best in zip(costs, least, strict=True)], axis=0)


def mean_ratio(costs: list[Cost], least: list[float]) -> Cost:
    """Return the mean of the ratios of several objectives to their optima."""
    return lambda thresholds: np.mean([cost(thresholds) / best for cost, best in zip(costs, least, strict=True)], axis=0)


OVER_LOADS = {"worst": worst_ratio, "mean": mean_ratio}
"""Ways to combine the ratios at several loads into one number."""
