"""Schedules in GOAL, the text format of LogGOPSim and ATLAHS: what the ranks of a program send, receive and compute.

A schedule begins with `num_ranks 4`. Each rank has a block, `rank 0 {` to `}`, with operations that have a label, and
what they wait for:

    l1: calc 1500              (nanoseconds)
    l2: send 8b to 1 tag 7
    l3: recv 8b from 1 tag 7
    l2 requires l1             (l2 begins when l1 is done)
    l3 irequires l2            (l3 begins when l2 begins)

Operations may name a `cpu` and a `nic`. A receive takes the message of the first send to its rank with its tag that no
other has taken. A send is done when it has begun: the message is the network's then.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict, deque
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from flowloom.importing.parts import BYTES_MAX, HOSTS_MAX, SPAN_S_MAX, Need, Trace
from flowloom.importing.source import Source
from flowloom.words import shown

_NS = 1000
"""Picoseconds in a nanosecond."""
_RANKS = re.compile(r"num_ranks\s+(\d{1,9})")
_RANK = re.compile(r"rank\s+(\d{1,9})\s*\{")
_OPERATION = re.compile(
    r"(\w+):\s*(calc|send|recv)\s+(\d{1,18})(b?)(?:\s+(to|from)\s+(\d{1,9}))?((?:\s+(?:tag|cpu|nic)\s+\d{1,9})*)"
)
_WAIT = re.compile(r"(\w+)\s+(i?)requires\s+(\w+)")


class _Event(NamedTuple):
    """Something that happens to a message, by the place of its send."""

    rank: int
    label: str
    end: str
    """`begun` or `received`."""


_Times = dict[_Event | None, int]
"""After which events something happens, and how many picoseconds later; after None: after the beginning of the run."""


@dataclasses.dataclass
class _Operation:
    line: int
    kind: str
    amount: int
    """Bytes, or nanoseconds."""
    peer: int
    tag: str
    requires: list[str] = dataclasses.field(default_factory=list)
    irequires: list[str] = dataclasses.field(default_factory=list)


_Ranks = list[dict[str, _Operation]]


def reason(source: Source) -> str | None:
    """Say why a file is a schedule; None if it is none."""
    first = next((line for line in source.head if not line.startswith(("#", "//", "/*"))), "")
    return f'it begins with "{shown(first)}"' if _RANKS.match(first) else None


def read(source: Source) -> Trace:
    """Read a schedule."""
    ranks, clauses = _operations(source)
    partners, left = _matched(source, ranks)
    trace = Trace(source, len(ranks))
    numbers: dict[tuple[int, str], int] = {}
    pending: list[tuple[int, _Times]] = []
    for rank, operations in enumerate(ranks):
        begins = _begins(source, rank, operations, partners)
        for label, times in begins.items():
            found = operations[label]
            if found.kind != "send" or found.peer == rank:
                continue
            ends = (str(rank), str(found.peer))
            if set(times) == {None}:
                numbers[rank, label] = len(trace)
                trace.add(found.line, Decimal(times[None]) / 10**12, *ends, max(found.amount, 1))
            else:
                numbers[rank, label] = trace.wait(found.line, *ends, max(found.amount, 1))
                pending.append((numbers[rank, label], times))
    for number, times in pending:
        waiting = trace.waiting[number]
        waiting.earliest_ps = times.pop(None, 0)
        waiting.needs += [Need(numbers[event.rank, event.label], event.end, ps) for event, ps in times.items() if event]
    if empty := sum(op.kind == "send" and not op.amount for operations in ranks for op in operations.values()):
        trace.notes.append(f"Messages of 0 bytes ({empty:,}): they have one byte here.")
    if left:
        trace.notes.append(f"Sends that no receive takes ({left:,}): they are flows for which nothing waits.")
    if clauses:
        trace.notes.append("Which processor and which NIC an operation is on: left out, so operations never wait for these.")
    return trace.sort()


def _operations(source: Source) -> tuple[_Ranks, bool]:
    """Return the operations of each rank by label, and whether some name a processor or a NIC."""
    ranks: _Ranks = []
    count, current, clauses = None, None, False
    opened: set[int] = set()
    for number, line in source.lines():
        text = re.split(r"#|//", line)[0].strip()
        if not text:
            continue
        if count is None:
            header = _RANKS.fullmatch(text)
            if header is None:
                raise source.wrong(number, "a schedule begins with num_ranks and a number")
            count = source.whole(number, header[1], "the number of ranks", 2, HOSTS_MAX)
            ranks = [{} for _ in range(count)]
        elif block := _RANK.fullmatch(text):
            current = source.whole(number, block[1], "a rank", 0, count - 1)
            if current in opened:
                raise source.wrong(number, f"rank {current} has a block already")
            opened.add(current)
        elif text == "}":
            current = None
        elif current is None:
            raise source.wrong(number, f'"{shown(text)}" stands outside of a rank; a rank begins with `rank 0 {{`')
        elif found := _OPERATION.fullmatch(text):
            clauses |= "cpu" in found[7] or "nic" in found[7]
            _add(source, number, ranks[current], found, count)
        elif wait := _WAIT.fullmatch(text):
            for label in (wait[1], wait[3]):
                if label not in ranks[current]:
                    raise source.wrong(number, f'no operation above has the label "{shown(label)}"')
            operation = ranks[current][wait[1]]
            (operation.irequires if wait[2] else operation.requires).append(wait[3])
        else:
            raise source.wrong(
                number, f'"{shown(text)}" is neither an operation, such as `l1: send 8b to 1 tag 0`, nor `l2 requires l1`'
            )
    if current is not None:
        raise source.wrong(None, f"the block of rank {current} has no end")
    return ranks, clauses


def _add(source: Source, number: int, operations: dict[str, _Operation], found: re.Match[str], count: int) -> None:
    label, kind, amount, unit, direction, peer, rest = found.groups()
    wanted = {"calc": ("", None), "send": ("b", "to"), "recv": ("b", "from")}[kind]
    if (unit, direction) != wanted:
        forms = {"calc": "l1: calc 1500", "send": "l1: send 8b to 1 tag 0", "recv": "l1: recv 8b from 1 tag 0"}
        raise source.wrong(number, f"{kind} is written as in `{forms[kind]}`")
    if label in operations:
        raise source.wrong(number, f'a second operation has the label "{shown(label)}"')
    most = SPAN_S_MAX * 10**9 if kind == "calc" else BYTES_MAX
    size = source.whole(number, amount, "the time in ns" if kind == "calc" else "the size", 0, most)
    other = source.whole(number, peer, "a rank", 0, count - 1) if peer else 0
    tags = re.search(r"tag\s+(\d+)", rest)
    operations[label] = _Operation(number, kind, size, other, tags[1] if tags else "0")


def _matched(source: Source, ranks: _Ranks) -> tuple[dict[tuple[int, str], tuple[int, str]], int]:
    """Return the send of each receive, by rank and label, and how many sends no receive takes."""
    sent: defaultdict[tuple[int, int, str], deque[str]] = defaultdict(deque)
    for rank, operations in enumerate(ranks):
        for label, found in operations.items():
            if found.kind == "send":
                sent[rank, found.peer, found.tag].append(label)
    partners = {}
    for rank, operations in enumerate(ranks):
        for label, found in operations.items():
            if found.kind != "recv":
                continue
            sends = sent[found.peer, rank, found.tag]
            if not sends:
                raise source.wrong(
                    found.line, f"rank {found.peer} sends nothing with tag {found.tag} that this receive could take"
                )
            partners[rank, label] = (found.peer, sends.popleft())
            amount = ranks[found.peer][partners[rank, label][1]].amount
            if amount != found.amount:
                raise source.wrong(
                    found.line, f"the receive has {found.amount:,} B, but the send that it takes has {amount:,} B"
                )
    return partners, sum(map(len, sent.values()))


def _begins(
    source: Source, rank: int, operations: dict[str, _Operation], partners: dict[tuple[int, str], tuple[int, str]]
) -> dict[str, _Times]:
    """Return when each operation of a rank begins."""
    before = {label: [*found.requires, *found.irequires] for label, found in operations.items()}
    for label, found in operations.items():
        if found.kind == "recv" and found.peer == rank:
            before[label].append(partners[rank, label][1])
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError as error:
        raise source.wrong(operations[error.args[1][0]].line, "the operation waits for itself, by way of others") from None
    begun: dict[str, _Times] = {}
    done: dict[str, _Times] = {}
    for label in order:
        found = operations[label]
        causes = [*(done[other] for other in found.requires), *(begun[other] for other in found.irequires)]
        begun[label] = _latest(causes or [{None: 0}])
        if found.kind == "calc":
            done[label] = {event: ps + found.amount * _NS for event, ps in begun[label].items()}
        elif found.kind == "send":
            # What waits for the send, waits for all that the send waits for.
            done[label] = begun[label] if found.peer == rank else {_Event(rank, label, "begun"): 0}
        elif found.peer == rank:
            done[label] = _latest([begun[label], done[partners[rank, label][1]]])
        else:
            done[label] = _latest([begun[label], {_Event(*partners[rank, label], "received"): 0}])
    return begun


def _latest(times: list[_Times]) -> _Times:
    """Return when all of some things have happened."""
    latest: _Times = {}
    for each in times:
        for event, ps in each.items():
            latest[event] = max(ps, latest.get(event, 0))
    # The beginning of the run is before everything else, unless something follows it much later.
    if len(latest) > 1 and latest.get(None) == 0:
        del latest[None]
    return latest
