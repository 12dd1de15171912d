"""The search: thresholds of least cost, by SciPy's optimisers. The same arguments give the same thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flowloom.demotion.model import Cost
from flowloom.demotion.sizes import Floats, Sizes

_RESTARTS = 2
_MEMBERS = 12
"""Per threshold."""
_GENERATIONS = 200
_TOLERANCE = 1e-6
_IN_VAIN = 2
"""After so many more queues that do not lower the cost, no more are tried."""


def minimise(cost: Cost, sizes: Sizes, queues: int, starts: Sequence[Floats] = ()) -> Floats:
    """Find thresholds of least cost.

    The objective has kinks and many local minima, so differential evolution goes first and Nelder and Mead's simplex
    finishes. Each number of queues starts from the best for one fewer: another queue never costs more.

    Args:
        cost: What to minimise.
        sizes: The flow sizes; thresholds are looked for among them.
        queues: How many queues there may be.
        starts: Thresholds (bytes, ascending, `queues` - 1 each) to begin with besides random ones.

    Returns:
        Whole bytes, strictly ascending, below the largest size; fewer than `queues` - 1 where more would not help.
    """
    best: Floats = np.empty(0)
    in_vain = 0
    for count in range(1, queues):
        larger = [np.sort(np.append(best, extra)) for extra in (*best[-1:], sizes.largest)]
        better = _evolve(cost, sizes, count, larger + (list(starts) if count == queues - 1 else []))
        in_vain = in_vain + 1 if float(cost(better)) > float(cost(best)) * (1 - 1e-9) else 0
        best = better
        if in_vain == _IN_VAIN:
            break
    best = min([best, *starts], key=lambda t: float(cost(t)))
    return _tidy(cost, sizes, best)


def _evolve(cost: Cost, sizes: Sizes, count: int, starts: list[Floats]) -> Floats:
    from scipy.optimize import differential_evolution, minimize

    place, position = sizes.bytes, sizes.position

    def thresholds(at: Floats) -> Floats:
        return np.asarray(np.interp(np.sort(at, axis=-1), position, place))

    bounds = [(0.0, 1.0)] * count
    found = list(starts)
    for seed in range(_RESTARTS):
        members = np.random.default_rng(seed).random((_MEMBERS * count, count))
        for row, start in enumerate(starts):
            members[row] = np.interp(start, place, position)
        evolved = differential_evolution(
            lambda at: cost(thresholds(at.T)), bounds, init=members, vectorized=True, updating="deferred", polish=False,
            seed=seed, maxiter=_GENERATIONS, tol=_TOLERANCE,
        )  # fmt: skip
        found.append(thresholds(evolved.x))
    found.sort(key=lambda t: float(cost(t)))
    polished = minimize(
        lambda at: float(cost(thresholds(np.clip(at, 0, 1)))), np.interp(found[0], place, position), method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-12 * float(cost(found[0])), "maxfev": 400 * count, "adaptive": True},
    )  # fmt: skip
    found.append(thresholds(np.clip(polished.x, 0, 1)))
    return min(found, key=lambda t: float(cost(t)))


def _tidy(cost: Cost, sizes: Sizes, best: Floats) -> Floats:
    """Move thresholds onto the distribution's own points and whole bytes, and leave out those that do nothing."""
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
