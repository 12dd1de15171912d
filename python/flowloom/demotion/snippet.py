"""Thresholds in the form of a scenario."""

from __future__ import annotations

from collections.abc import Sequence

from flowloom import toml

KEY = "transport.pias.thresholds"
"""The scenario key of the thresholds."""


def quantities(thresholds: Sequence[int]) -> list[str]:
    """Format bytes as exact quantities: `1327.14kB`, `183B`."""
    return [f"{t / 1000:.3f}".rstrip("0").rstrip(".") + "kB" if t >= 1000 else f"{t}B" for t in thresholds]


def snippet(thresholds: Sequence[int], about: str) -> str:
    """Return the table of a scenario that sets these thresholds (bytes), below a comment."""
    table, _, key = KEY.rpartition(".")
    return f"# {about}\n[{table}]\n{key} = {toml.value(quantities(thresholds))}\n"
