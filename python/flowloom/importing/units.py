"""Rates and durations as other tools write them."""

from __future__ import annotations

import re
from decimal import Decimal

from flowloom.importing.parts import PS

_NUMBER = r"([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?)\s*"
_RATE = re.compile(_NUMBER + r"(?:([kKmMgGtTpP]?)(i?)(bps|b/s|bit/s|bits/s|Bps|B/s))?")
_DURATION = re.compile(_NUMBER + r"(ps|ns|us|µs|ms|s)?")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SECONDS = {"ps": -12, "ns": -9, "us": -6, "µs": -6, "ms": -3, "s": 0}
RATE_BPS_MIN, RATE_BPS_MAX = 1000, 10**15
"""Slower links than these are mistakes: a port of theirs would not drain within a run."""
DELAY_S_MAX = 1000


def rate_bps(text: str) -> int | None:
    """Read a rate such as `100Gbps`, `25Gb/s`, `1GB/s` or `10000000.0`, a number of bits per second.

    None if it is none, or out of range.

    `B` is a byte, `b` and `bit` are a bit, and `i` makes a unit binary, as in ns-3.
    """
    found = _RATE.fullmatch(text.strip())
    if found is None:
        return None
    number, prefix, binary, unit = found.groups()
    factor = (1024 if binary else 1000) ** _POWERS[(prefix or "").lower()]
    bits = 8 if unit and unit.startswith("B") else 1
    bps = Decimal(number) * factor * bits
    return round(bps) if RATE_BPS_MIN <= bps <= RATE_BPS_MAX else None


def delay_ps(text: str) -> int | None:
    """Read a delay such as `1000ns`, `0.001ms` or `0.5`, a number of seconds. None if it is none, or above DELAY_S_MAX."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    number, unit = found.groups()
    delay = Decimal(number).scaleb(_SECONDS[unit or "s"])
    return round(delay * PS) if delay <= DELAY_S_MAX else None


def distance_ps(km: float) -> int:
    """Return the time that light takes over a distance in fibre: 5 us per kilometre, two thirds of the speed in vacuum."""
    return round(km * 5_000_000)
