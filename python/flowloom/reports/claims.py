"""Claims with their checks, and measured values against their bands."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flowloom.claims.entries import OfCheck
from flowloom.reports.content import Bullet, Checked

_NUMBER = r"([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_BETWEEN, _LIMIT = re.compile(rf"{_NUMBER} to {_NUMBER}$"), re.compile(rf"([≤≥]) {_NUMBER}$")
_MARGIN = 0.15
"""The room on both sides of a drawing, as a share of what it shows."""


def of(checks: Sequence[OfCheck]) -> list[Checked]:
    """Return the checks of a claim as pages show them."""
    return [
        Checked(
            check.verdict,
            check.text,
            check.band,
            check.paper,
            f"It cannot fail, because {check.given}" if check.given else check.beside and f"It does not count: {check.beside}",
            bullet(check),
            [f"{label}: {found.verdict}, {found.measured}" for label, found in check.readings.items()],
        )
        for check in checks
    ]


def bullet(check: OfCheck) -> Bullet | None:
    """Return where the value that decided lies against its band; None if there is no value, or the band is no range."""
    limits = _limits(check.band)
    if check.value is None or limits is None:
        return None
    ends = check.interval or [check.value, check.value]
    known = [number for number in (*limits, *ends, check.value) if number is not None]
    low, high = min(known), max(known)
    room = _MARGIN * (high - low) or 1.0
    low, high = low - room, high + room

    def at(number: float | None, otherwise: float) -> float:
        return otherwise if number is None else round(100 * (number - low) / (high - low), 2)

    begin, end = at(limits[0], 0.0), at(limits[1], 100.0)
    first, last = at(ends[0], 0.0), at(ends[1], 100.0)
    interval = (first, round(last - first, 2)) if last > first else None
    return Bullet((begin, round(end - begin, 2)), at(check.value, 0.0), interval)


def _limits(band: str) -> tuple[float | None, float | None] | None:
    """Return the limits of a band, with which its text ends."""
    if found := _BETWEEN.search(band):
        return float(found[1]), float(found[2])
    if found := _LIMIT.search(band):
        limit = float(found[2])
        return (None, limit) if found[1] == "≤" else (limit, None)
    return None
