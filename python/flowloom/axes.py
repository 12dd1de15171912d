"""The values of a scenario key as the axis of a drawing: numbers in one unit where the values are numbers or quantities."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flowloom import toml
from flowloom.metrics import BYTES

_TIME = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0}
_RATES = {"b": 1.0, "kb": 1e3, "Mb": 1e6, "Gb": 1e9, "Tb": 1e12}
_RATE = {f"{bits}{per_second}": factor for per_second in ("/s", "ps") for bits, factor in _RATES.items()}
_DIMENSIONS: tuple[Mapping[str, float], ...] = ({"": 1.0}, _TIME, _RATE, BYTES)
"""The units of scenarios. Values of two dimensions have no common axis."""
_QUANTITY = re.compile(r"\s*([0-9._+eE-]+?)\s*([a-zA-Zµμ/]*)\s*")


class Quantity(NamedTuple):
    """A number with its unit, which is empty for a plain number."""

    number: float
    unit: str

    def into(self, unit: str) -> float | None:
        """Return the number in another unit; None if the units measure different things."""
        of = next((each for each in _DIMENSIONS if self.unit in each and unit in each), None)
        return None if of is None else self.number * of[self.unit] / of[unit]


def quantity(value: Any) -> Quantity | None:
    """Return a number, or a text such as `10Gb/s`, as a quantity; None if it is neither."""
    if isinstance(value, bool):
        return None
    if not isinstance(value, str):
        try:
            return Quantity(float(value), "")
        except (TypeError, ValueError, OverflowError):
            return None
    found = _QUANTITY.fullmatch(value)
    if found is None or not any(found[2] in each for each in _DIMENSIONS):
        return None
    try:
        number = float(found[1])
    except ValueError:
        return None
    return Quantity(number, found[2]) if math.isfinite(number) else None


def text(value: Any) -> str:
    """Return a value as a drawing names it: a text as it is, anything else as TOML."""
    return value if isinstance(value, str) else toml.value(value)


class Axis(NamedTuple):
    """An axis with the values of a scenario key."""

    key: str
    values: tuple[Any, ...]
    names: tuple[str, ...]
    """The values as texts, for tables and for an axis without numbers."""
    at: tuple[float, ...] | None
    """The values as numbers in `unit`; None if they have no order of numbers, or if there is only one."""
    unit: str

    @classmethod
    def of(cls, key: str, values: Sequence[Any]) -> Axis:
        """Create an axis. Quantities are given in the smallest unit that one of them has."""
        names = tuple(map(text, values))
        found = [quantity(value) for value in values]
        known = [each for each in found if each is not None]
        if len(known) < len(found) or len(known) < 2:
            return cls(key, tuple(values), names, None, "")
        unit = min((each.unit for each in known), key=lambda unit: Quantity(1, unit).into(_base(unit)) or 0)
        at = [each.into(unit) for each in known]
        numbers = tuple(number for number in at if number is not None)
        if len(numbers) < len(at) or len(set(numbers)) < len(numbers):
            return cls(key, tuple(values), names, None, "")
        return cls(key, tuple(values), names, numbers, unit)

    @classmethod
    def none(cls) -> Axis:
        """Create the axis of a single group without a name."""
        return cls("", ("",), ("",), None, "")

    @property
    def title(self) -> str:
        """The name of the axis, with its unit."""
        return f"{self.key} ({self.unit})" if self.unit else self.key

    @property
    def log(self) -> bool:
        """Whether the numbers are spaced more evenly on a logarithmic axis than on a linear one."""
        if self.at is None or min(self.at) <= 0 or len(self.at) < 3:
            return False
        return _unevenness([math.log(number) for number in self.at]) < _unevenness(self.at)

    def place(self, value: Any) -> float | None:
        """Return where a value lies on the axis; None if it does not. A plain number is taken to be in the axis's unit."""
        if self.at is None:
            return float(self.names.index(str(value))) if str(value) in self.names else None
        found = quantity(value)
        return None if found is None else found.number if not found.unit else found.into(self.unit)


def _base(unit: str) -> str:
    return next(name for each in _DIMENSIONS if unit in each for name, factor in each.items() if factor == 1.0)


def _unevenness(numbers: Sequence[float]) -> float:
    gaps = [high - low for low, high in itertools.pairwise(sorted(numbers))]
    return max(gaps) / min(gaps)
