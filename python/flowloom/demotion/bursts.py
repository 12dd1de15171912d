"""The model of bursts: all packets of a flow arrive at the link together, and a queue serves them first come, first served.

It is Kleinrock's multilevel queue (Queueing Systems II, section 4.7). A flow of x bytes that ends in the queue from a to b
waits for what is left of all flows' first b bytes, and sends its own bytes. The first a bytes of flows that arrive meanwhile
go first:

    T(x) = (W(b) + x) / (1 - rho(a)),    W(b) = lambda E[min(X, b)^2] / 2 / (1 - rho(b)),    rho(y) = lambda E[min(X, y)].

The unit of time is a byte on the link. A flow's slowdown is (T(x) + d) / (x + d), if it takes x + d in the idle network.
"""

from __future__ import annotations

import numpy as np

from flowloom.demotion.sizes import PACKET_BYTES, Floats, Sizes

IDLE_BYTES = 3.0 * PACKET_BYTES
"""The default of d: what the link carries while an empty flow crosses the idle network, in bytes.

It is 1.4 us at 25 Gb/s. Thresholds depend little on it; docs/thresholds.md has numbers.
"""


class Bursts:
    """The mean slowdown of flows as a function of thresholds."""

    def __init__(self, sizes: Sizes, load: float, idle: float = IDLE_BYTES) -> None:
        """Prepare the sums over a distribution up to each of its points.

        Args:
            sizes: The flow sizes.
            load: Offered load of the link, above 0 and below 1.
            idle: The link's bytes in the delay of an empty flow, above 0.
        """
        self._sizes, self._load, self._idle = sizes, load, idle
        at, share = sizes.bytes, sizes.share
        # E[min(X, y)^2] / 2, which is the integral of y (1 - F(y)); and the integral of 1 / (x + idle) over F.
        residue = _residue(at[:-1], at[1:], share[:-1], share[1:])
        per_time = _per_time(at[:-1], at[1:], share[:-1], share[1:], idle)
        self._residue, self._per_time = (np.concatenate([[0.0], np.cumsum(parts)]) for parts in (residue, per_time))

    def __call__(self, thresholds: Floats) -> Floats:
        """Return the mean slowdowns, shape (...), for thresholds in bytes, ascending along the last axis, shape (..., K - 1).

        Thresholds that coincide or lie above all sizes have no effect.
        """
        sizes, load, idle = self._sizes, self._load, self._idle
        shape = (*thresholds.shape[:-1], 1)
        inner = np.minimum(thresholds, sizes.largest)
        edges = np.concatenate([np.zeros(shape), inner, np.full(shape, sizes.largest)], axis=-1)
        share, survival = sizes.at(edges)
        residue, per_time = self._up_to(edges, share)
        left = 1 - load * np.minimum(survival / sizes.mean, 1.0)
        # x / (x + d) is 1 - d / (x + d), so that the sums of both follow from the share of flows and from 1 / (x + d).
        flows = np.diff(np.where(edges > 0, share, 0.0), axis=-1)
        wait = load / sizes.mean * residue[..., 1:] / left[..., 1:]
        delays = (np.diff(per_time, axis=-1) * (wait - idle) + flows) / left[..., :-1]
        return np.asarray(delays.sum(axis=-1) + idle * per_time[..., -1])

    def _up_to(self, edges: Floats, share: Floats) -> tuple[Floats, Floats]:
        """Return both sums at some sizes. At 0 they are 0, and elsewhere they include a step of F."""
        at = self._sizes.bytes
        before = np.clip(np.searchsorted(at, edges, side="right") - 1, 0, len(at) - 1)
        low, f_low = at[before], self._sizes.share[before]
        residue = self._residue[before] + _residue(low, edges, f_low, share)
        per_time = self._per_time[before] + _per_time(low, edges, f_low, share, self._idle)
        return residue, np.where(edges > 0, per_time, 0.0)


def _residue(low: Floats, high: Floats, f_low: Floats, f_high: Floats) -> Floats:
    """Return the integral of y (1 - F(y)), for F linear between two points."""
    width = high - low
    return np.asarray(width * ((1 - f_low) * (2 * low + high) + (1 - f_high) * (low + 2 * high)) / 6)


def _per_time(low: Floats, high: Floats, f_low: Floats, f_high: Floats, idle: float) -> Floats:
    """Return the integral of 1 / (x + idle) over F, for F linear between two points, or with a step where they coincide."""
    width = high - low
    spread = np.log1p(width / (low + idle)) / np.where(width > 0, width, 1.0)
    return np.asarray((f_high - f_low) * np.where(width > 0, spread, 1 / (low + idle)))
