"""Whether flows that arrive over time pile up: the test behind the warning `backlog grows`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_SIGMAS = 3.0
"""By how many standard deviations of what arrives the backlog must grow. By chance, that happens in about 1 of 1000 runs."""
_LEVELS_OFF = 0.5
"""If the backlog grows by less than this share of what it grew by in the first half, it levels off."""
_WARM_UP = 0.25
"""The second half tells nothing if a byte's flow takes more than this share of it when it is alone: the flows that came first
are still on their way, and at a load of 3/4 they take some four times as long as alone."""
_BURST = 0.5
"""If more than this share of the flows starts at one instant, the backlog shrinks from there on, and nothing can be said."""


class Growth(NamedTuple):
    """How the bytes of open flows grow while flows arrive. All numbers but the last are bytes."""

    arrived: float
    """What arrives in the second half of the time in which flows arrive."""
    first: float
    """By how much the backlog grows in the first half."""
    second: float
    """By how much it grows in the second half."""
    noise: float
    """The standard deviation of what arrives in the second half, if flows arrive independently."""
    warm_up: float = 0.0
    """The optimum of the flow that a byte belongs to, averaged over all bytes, as a share of half of the time in which flows
    arrive."""

    @property
    def is_certain(self) -> bool:
        """Whether the backlog grows by more than chance explains and does not level off, once the network is full."""
        grows = self.second > _SIGMAS * self.noise and self.second > _LEVELS_OFF * self.first
        return grows and self.warm_up <= _WARM_UP

    @property
    def longer(self) -> float:
        """How many times as many flows would decide: a true growth is proportional to their number, and chance to its root."""
        if self.second <= 0:
            return np.inf
        return max((_SIGMAS * self.noise / self.second) ** 2, self.warm_up / _WARM_UP)


def in_summary(flows: pa.Table) -> dict[str, Any]:
    """Return what a summary says of the growth of the backlog; nothing where `growth` has none."""
    found = growth(flows)
    return {} if found is None else {"backlog": found._asdict()}


def growth(flows: pa.Table) -> Growth | None:
    """Measure how the backlog grows.

    A flow counts with all its bytes while it is open; one that was given up does not count, since the table does not say when
    that was. The backlog of a network that keeps up follows the random arrivals: in the second half, it grows by no more than
    this half's arrivals exceed their mean. The variance of what arrives is the sum of the squared sizes (a compound Poisson
    process). If flows share no bottleneck, their excesses do not add up, and the test is on the safe side.

    Args:
        flows: A flow table, with at least the columns `start`, `finish`, `optimum` (in seconds) and `bytes`. `aborted` is not
            null for flows that were given up.

    Returns:
        None if flows do not arrive over time: there are fewer than two, or most start at one instant.
    """
    if "aborted" in flows.column_names:
        flows = flows.filter(flows["aborted"].is_null())
    start, finish, optimum, size = (flows[name].to_numpy().astype(float) for name in ("start", "finish", "optimum", "bytes"))
    if len(start) < 2 or np.unique(start, return_counts=True)[1].max() > _BURST * len(start):
        return None
    first, last = start.min(), start.max()
    middle = (first + last) / 2
    late = start > middle
    begin, half, end = (float(size[(start <= at) & ~(finish <= at)].sum()) for at in (first, middle, last))
    alone = float((size * optimum).sum() / max(size.sum(), 1.0))
    noise = float(np.sqrt((size[late] ** 2).sum()))
    return Growth(float(size[late].sum()), half - begin, end - half, noise, alone / (middle - first))
