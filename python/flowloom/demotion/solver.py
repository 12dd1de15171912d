"""Finds thresholds of least cost with SciPy's optimisers. The same arguments give the same thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flowloom.demotion.model import Cost
from flowloom.demotion.sizes import Floats, Sizes

_SEED = 1
_MEMBERS = 12
"""The population of differential evolution per threshold."""
_GENERATIONS = 200
_TOLERANCE = 1e-6
_PLACES = 200
"""The number of positions at which a single threshold is tried."""
_USELESS_MAX = 2
"""The search ends when this number of additional queues in a row has not lowered the cost."""


class Found(NamedTuple):
    """The outcome of a search. Thresholds are whole bytes, strictly ascending, below the largest size."""

    thresholds: Floats
    """The best thresholds. There are fewer than `queues - 1` of them if more would not lower the cost."""
    searched: Floats
    """The best thresholds that the search found before the comparison with the rivals."""


def minimise(cost: Cost, sizes: Sizes, queues: int, *, starts: Sequence[Floats] = (), rivals: Sequence[Floats] = ()) -> Found:
    """Find thresholds of least cost.

    The objective has kinks and many local minima. The search therefore begins with differential evolution, then moves one
    threshold at a time over the whole range, and ends with Nelder and Mead's simplex method. The search with each number of
    queues starts from the best thresholds for one queue fewer, so another queue never increases the cost.

    Args:
        cost: The function to minimise.
        sizes: The flow sizes, which limit the thresholds.
        queues: The maximum number of queues.
        starts: Thresholds (bytes, ascending, `queues` - 1 each) to start from, besides random ones.
        rivals: Other thresholds, which the search does not use. If one of them costs less, it is refined and returned.
    """
    best: Floats = np.empty(0)
    useless = 0
    for count in range(1, queues):
        larger = [np.sort(np.append(best, extra)) for extra in (*best[-1:], sizes.largest)]
        better = _evolve(cost, sizes, count, larger + (list(starts) if count == queues - 1 else []))
        useless = useless + 1 if float(cost(better)) > float(cost(best)) * (1 - 1e-9) else 0
        best = better
        if useless == _USELESS_MAX:
            break
    searched = _tidy(cost, sizes, _polish(cost, sizes, best))
    least = min([searched, *rivals], key=lambda t: float(cost(t)))
    return Found(searched if least is searched else _tidy(cost, sizes, _polish(cost, sizes, least)), searched)


def _evolve(cost: Cost, sizes: Sizes, count: int, starts: list[Floats]) -> Floats:
    from scipy.optimize import differential_evolution

    members = np.random.default_rng(_SEED).random((_MEMBERS * count, count))
    for row, start in enumerate(starts):
        members[row] = np.interp(start, sizes.bytes, sizes.position)
    evolved = differential_evolution(
        lambda at: cost(_thresholds(sizes, at.T)), [(0.0, 1.0)] * count, init=members, vectorized=True,
        updating="deferred", polish=False, seed=_SEED, maxiter=_GENERATIONS, tol=_TOLERANCE,
    )  # fmt: skip
    tried = [_move_each(cost, sizes, each) for each in (_thresholds(sizes, evolved.x), *starts)]
    return min(tried, key=lambda t: float(cost(t)))


def _thresholds(sizes: Sizes, at: Floats) -> Floats:
    """Return the thresholds at positions from 0 to 1, in any order."""
    return np.asarray(np.interp(np.sort(np.clip(at, 0, 1), axis=-1), sizes.position, sizes.bytes))


def _polish(cost: Cost, sizes: Sizes, best: Floats) -> Floats:
    from scipy.optimize import minimize

    if not len(best):
        return best
    polished = minimize(
        lambda at: float(cost(_thresholds(sizes, at))), np.interp(best, sizes.bytes, sizes.position), method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-12 * float(cost(best)), "maxfev": 400 * len(best), "adaptive": True},
    )  # fmt: skip
    return min(best, _thresholds(sizes, polished.x), key=lambda t: float(cost(t)))


def _move_each(cost: Cost, sizes: Sizes, best: Floats) -> Floats:
    """Move one threshold at a time to its best position, near or far, until no move lowers the cost."""
    places = np.interp(np.linspace(0, 1, _PLACES), sizes.position, sizes.bytes)
    corners = sizes.bytes[:: math.ceil(len(sizes.bytes) / _PLACES)]
    places = np.concatenate([places, corners])
    while True:
        tries = np.repeat(best[None, :], len(places) * len(best), axis=0)
        for index in range(len(best)):
            tries[index * len(places) : (index + 1) * len(places), index] = places
        tries.sort(axis=-1)
        costs = cost(tries)
        if costs.min() >= float(cost(best)) * (1 - 1e-12):
            return best
        best = tries[costs.argmin()]


def _tidy(cost: Cost, sizes: Sizes, best: Floats) -> Floats:
    """Move thresholds to points of the distribution and whole bytes, and remove those without an effect."""
    limit = float(cost(best)) * (1 + 1e-9)
    for index in range(len(best)):
        near = np.searchsorted(sizes.bytes, best[index])
        for point in sizes.bytes[max(near - 1, 0) : near + 1]:
            moved = np.sort(np.concatenate([best[:index], [point], best[index + 1 :]]))
            if float(cost(moved)) <= limit:
                best, limit = moved, min(limit, float(cost(moved)) * (1 + 1e-9))
    best = np.unique(np.round(best))
    best = best[(best >= 1) & (best < sizes.largest)]
    for threshold in list(best):
        without = best[best != threshold]
        if float(cost(without)) <= float(cost(best)) * (1 + 1e-7):
            best = without
    return best
