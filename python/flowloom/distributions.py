"""Distributions over flows: a number of each flow, and the quantiles that figures draw and checks compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from flowloom import columns, metrics, toml
from flowloom._native import ScenarioError
from flowloom.words import shown, suggestion

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

STEPS = 1000
"""Quantiles are taken at the shares 0, 1/STEPS, 2/STEPS, and so on up to 1."""
_FCT = "fct_us"
_NAMES = (
    *(name for name, column in columns.FLOWS.items() if column.always and column.type.startswith(("uint", "int", "float"))),
    _FCT,
)
_OF_FINISHED = ("finish", "slowdown")
"""The columns that are null for an unfinished flow, and infinite in a distribution."""
_RANGE = ("above", "up_to")


class Quantity(NamedTuple):
    """A number of each flow, of all flows or of those in one range of sizes."""

    expression: str
    """An expression over the columns of the flow table and `fct_us`, the completion time with metrics.request_delay."""
    above: float | None = None
    """Only flows with more bytes than this."""
    up_to: float | None = None
    """Only flows with at most this many bytes."""

    @classmethod
    def of(cls, expression: str, sizes: Mapping[str, str] | None = None) -> Quantity:
        """Create a quantity from the values in a figure file: `("fct_us / 1000", {"above": "10kB", "up_to": "100kB"})`.

        Raises:
            ScenarioError: The expression is malformed or has a name that flows do not have, or the sizes are not valid.
        """
        paths = metrics.paths(expression)
        for name in [".".join(map(str, path)) for path in paths]:
            if name not in _NAMES:
                raise ScenarioError(f'`{shown(expression)}`: flows have no "{shown(name)}": {suggestion(name, _NAMES)}')
        if not paths:
            raise ScenarioError(f"`{shown(expression)}` names no column of the flow table: there are {', '.join(_NAMES)}")
        sizes = sizes or {}
        for key in sizes:
            if key not in _RANGE:
                raise ScenarioError(f'a range of sizes has no "{shown(key)}": {suggestion(key, _RANGE)}')
        above, up_to = (metrics.bytes_of(sizes[key]) if key in sizes else None for key in _RANGE)
        if above is not None and up_to is not None and above >= up_to:
            raise ScenarioError(f"`above` must be less than `up_to`, not {toml.value(sizes)}")
        return cls(expression, above, up_to)

    @property
    def range(self) -> str:
        """The range of sizes in words: `10 kB to 100 kB`; empty for all flows."""
        every = self.above is None and self.up_to is None
        return "" if every else metrics.bin_label({"above_bytes": self.above or 0, "up_to_bytes": self.up_to})

    def __str__(self) -> str:
        return self.expression + (f" ({self.range})" if self.range else "")

    def values(self, flows: pa.Table) -> NDArray[np.float64]:
        """Return the number of each flow that has one.

        The finish, the slowdown and the completion time of an unfinished flow are infinite: it counts as slower than all
        others. A flow without another value that the expression names, such as a deadline, is left out.
        """
        import numpy as np

        size = flows["bytes"].to_numpy()
        inside = np.ones(len(size), dtype=bool)
        if self.above is not None:
            inside &= size > self.above
        if self.up_to is not None:
            inside &= size <= self.up_to
        names = {str(path[0]) for path in metrics.paths(self.expression)}
        found = metrics.evaluate_each(self.expression, {name: _column(flows, name)[inside] for name in names})
        return found[~np.isnan(found)]


def _column(flows: pa.Table, name: str) -> NDArray[np.float64]:
    import numpy as np

    if name == _FCT:
        return _column(flows, "slowdown") * _column(flows, "optimum") * 1e6
    values = flows[name].to_numpy().astype(float)
    return np.where(np.isnan(values), np.inf, values) if name in _OF_FINISHED else values


def quantiles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quantiles at the shares 0, 1/STEPS, ..., 1, by nearest rank, as the summary's percentiles.

    The quantile at a share is the least value that at least this share of the values do not exceed; at 0, it is the least
    value. All are NaN if there are no values.
    """
    import numpy as np

    if not len(values):
        return np.full(STEPS + 1, np.nan)
    ranks = -(-np.arange(STEPS + 1) * len(values) // STEPS)
    return np.sort(values)[np.maximum(ranks - 1, 0)]


class Distribution(NamedTuple):
    """The distribution of a quantity over the flows of all seeds."""

    flows: int
    """The number of flows with a value."""
    values: NDArray[np.float64]
    """Its `quantiles`."""
