"""A distribution of flow sizes, for the search for thresholds."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from flowloom import _native, engine, importing
from flowloom.words import shown, suggestion

Floats: TypeAlias = NDArray[np.float64]

PACKET_BYTES = 1460
"""Payload of a full packet in bytes; thresholds in packets are multiples of it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Sizes:
    """A cumulative distribution F of flow sizes, linear in bytes between its points. A step of F is an atom."""

    name: str
    """The name for titles and messages."""
    bytes: Floats
    """The sizes of the points, non-decreasing from 0."""
    share: Floats
    """F at the points: the share of flows that are no larger, non-decreasing from 0 to 1."""
    survival: Floats
    """The integral of 1 - F from 0 to each point, in bytes. The last entry is the mean size."""

    @classmethod
    def through(cls, name: str, points: Sequence[tuple[float, float]]) -> Sizes:
        """Create a distribution from points (bytes, cumulative probability). The first point is an atom, as in scenarios.

        Raises:
            ScenarioError: All flows are empty.
        """
        first = float(points[0][0])
        size, share = np.array([(0.0, 0.0), (first, 0.0), *points], dtype=np.float64).T
        survival = np.concatenate([[0.0], np.cumsum(np.diff(size) * (1 - (share[1:] + share[:-1]) / 2))])
        if survival[-1] <= 0:
            raise _native.ScenarioError(f"all flows of {name} have 0 bytes")
        return cls(name, size, share, survival)

    @classmethod
    def of(cls, source: str | os.PathLike[str] | Sizes, dialect: str | None = None) -> Sizes:
        """Create a distribution from the name of a table, or from a file with `importing.read`.

        Args:
            source: A name (`web_search`), or the path of a CSV or Parquet file.
            dialect: The format of the file: `flows` for a log of flows, `histogram`, and so on.

        Raises:
            ScenarioError: There is no such table, or the file cannot be read or is not a distribution.
        """
        if isinstance(source, Sizes):
            return source
        tables = {table["name"]: table["points"] for table in engine.catalogue()["workloads"]}
        if source in tables and dialect is None:
            return cls.through(str(source), tables[source])
        path = Path(source)
        if dialect is None and not path.exists():
            raise _native.ScenarioError(
                f'"{shown(source)}" is neither a flow-size table nor a file: {suggestion(str(source), tables)}'
            )
        return cls.through(path.name, importing.read(path, dialect, "--dialect").points)

    @property
    def mean(self) -> float:
        """The mean size in bytes."""
        return float(self.survival[-1])

    @property
    def largest(self) -> float:
        """The largest size in bytes."""
        return float(self.bytes[-1])

    def at(self, sizes: Floats) -> tuple[Floats, Floats]:
        """Return F, and the integral of 1 - F from 0 in bytes, at an array of sizes."""
        inside = np.minimum(sizes, self.largest)
        after = np.clip(np.searchsorted(self.bytes, inside, side="right"), 1, len(self.bytes) - 1)
        low, high = self.bytes[after - 1], self.bytes[after]
        f_low, f_high = self.share[after - 1], self.share[after]
        part = np.where(high > low, (inside - low) / np.where(high > low, high - low, 1), 1)
        f = np.where(inside >= self.largest, 1.0, f_low + part * (f_high - f_low))
        survival = self.survival[after - 1] + (inside - low) * (1 - (f_low + f) / 2)
        return f, np.where(inside >= self.largest, self.mean, survival)

    def percentile(self, share: Floats) -> Floats:
        """Return the smallest sizes that at least a share (0 to 1) of the flows does not exceed."""
        after = np.clip(np.searchsorted(self.share, share, side="left"), 1, len(self.share) - 1)
        f_low, f_high = self.share[after - 1], self.share[after]
        part = np.where(f_high > f_low, (share - f_low) / np.where(f_high > f_low, f_high - f_low, 1), 1)
        return np.asarray(self.bytes[after - 1] + part * (self.bytes[after] - self.bytes[after - 1]))

    @property
    def position(self) -> Floats:
        """A coordinate from 0 to 1 at each point, in which flows and bytes have equal weight.

        In a coordinate of flows alone, the large sizes would be too close together for a search, and in one of bytes alone the
        small sizes. In this coordinate, ranges without flows and atoms have a positive width too.
        """
        return np.asarray((self.share + self.survival / self.mean) / 2)

    @property
    def queues(self) -> int:
        """The maximum number of queues in each of which some flow ends: the number of different sizes in packets."""
        moves = (np.diff(self.share) > 0).nonzero()[0]
        low, high = self.bytes[moves], self.bytes[moves + 1]
        last = np.maximum(np.ceil(high / PACKET_BYTES), 1)
        first = np.maximum(np.where(high > low, np.floor(low / PACKET_BYTES) + 1, last), 1)
        seen = np.concatenate([[0.0], np.maximum.accumulate(last)[:-1]])
        return int(np.maximum(last - np.maximum(first - 1, seen), 0).sum())
