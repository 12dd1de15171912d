"""The coflow trace of the public coflow benchmark (`coflow/coflow-benchmark`, README.md), which is that of Facebook.

The simulator reads this format itself, so the file is checked, counted and copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

from flowloom.importing.parts import BYTES_MAX, FLOWS_MAX, HOSTS_MAX, SPAN_S_MAX, Coflows, size
from flowloom.importing.source import Source, is_whole
from flowloom.words import shown

_MEGABYTE = 10**6
_USUAL_BYTES = 10**10
"""With more bytes than this, a run takes long."""


def reason(source: Source) -> str | None:
    """Say why a file is a coflow trace; None if it is none."""
    if len(source.head) < 2:
        return None
    first, second = (line.split() for line in source.head[:2])
    if len(first) == 2 and all(map(is_whole, first)) and len(second) >= 5 and ":" in second[-1]:
        return f'line 1 is "{shown(source.head[0])}", and a coflow with the reducer "{shown(second[-1])}" follows'
    return None


def read(source: Source) -> Coflows:
    """Read a coflow trace."""
    lines = source.lines()
    number, line = next(lines, (None, ""))
    words = line.split()
    if number is None or len(words) != 2:
        raise source.wrong(number, "the first line has the number of ports and the number of coflows")
    racks = source.whole(number, words[0], "the number of ports", 2, HOSTS_MAX)
    count = source.whole(number, words[1], "the number of coflows", 1, FLOWS_MAX)
    rows: list[str] = []
    ids: set[int] = set()
    flows, local, megabytes, last = 0, 0, Decimal(0), Decimal(0)
    for number, line in lines:
        row = _Row(source, number, line, racks)
        if len(rows) == count:
            raise source.wrong(number, f"line 1 says that there are {count:,} coflows; this is one more")
        if row.arrival_ms < last:
            raise source.wrong(number, f"the coflow arrives at {row.arrival_ms} ms, before the one above it; sort them")
        if row.id in ids:
            raise source.wrong(number, f"a second coflow has id {row.id}")
        ids.add(row.id)
        last = row.arrival_ms
        flows += row.flows
        local += row.local
        megabytes += row.megabytes
        if flows > FLOWS_MAX:
            raise source.wrong(number, f"with this coflow, there are more flows than an import can have, {FLOWS_MAX:,}")
        rows.append(line)
    if len(rows) < count:
        raise source.wrong(None, f"line 1 says that there are {count:,} coflows, but {len(rows):,} follow")
    if local == flows:
        raise source.wrong(None, "no flow is left: both ends of each are one rack")
    return _scaled(Coflows(racks, rows, flows, float(megabytes * _MEGABYTE), list(_local(local))))


def _local(local: int) -> Iterator[str]:
    if local:
        yield f"Flows within a rack ({local:,}): the simulator leaves them out, and counts them."


def _scaled(found: Coflows) -> Coflows:
    """Divide sizes and times by a power of ten, so that a run ends soon."""
    whole = found.bytes
    while whole / found.divisor > _USUAL_BYTES and found.divisor < 10**6:
        found.divisor *= 10
    if found.divisor > 1:
        found.notes.append(
            f"Sizes and times are divided by {found.divisor:,}, since {size(whole)} would take long (size_divisor, "
            "time_divisor)."
        )
    return found


class _Row:
    """One coflow."""

    def __init__(self, source: Source, number: int, line: str, racks: int) -> None:
        self._source, self._number, self._racks = source, number, racks
        self._words = iter(line.split())
        self.id = self._whole("the coflow's id", 0)
        self.arrival_ms = source.number(number, self._next("the arrival in ms"), "the arrival in ms", 0, 1000 * SPAN_S_MAX)
        mappers = Counter(
            self._rack(self._next("the rack of a mapper")) for _ in range(self._whole("the number of mappers", 1))
        )
        reducers = [self._reducer() for _ in range(self._whole("the number of reducers", 1))]
        if (more := next(self._words, None)) is not None:
            raise source.wrong(number, f'"{shown(more)}" is more than the coflow says it has')
        self.flows = mappers.total() * len(reducers)
        self.local = sum(mappers[rack] for rack, _ in reducers)
        self.megabytes = sum((megabytes for _, megabytes in reducers), Decimal(0))

    def _next(self, what: str) -> str:
        word = next(self._words, None)
        if word is None:
            raise self._source.wrong(self._number, f"the line ends where {what} should be")
        return word

    def _whole(self, what: str, least: int) -> int:
        return self._source.whole(self._number, self._next(what), what, least)

    def _rack(self, word: str) -> int:
        return self._source.whole(self._number, word, "a rack", 0, self._racks - 1)

    def _reducer(self) -> tuple[int, Decimal]:
        word = self._next("a reducer")
        rack, colon, megabytes = word.partition(":")
        if not colon:
            raise self._source.wrong(self._number, f'a reducer is "{shown(word)}"; it is rack:megabytes, such as 17:25')
        most = BYTES_MAX / _MEGABYTE
        return self._rack(rack), self._source.number(self._number, megabytes, "the size of a reducer in MB", 0, most)
