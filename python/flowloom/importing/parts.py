"""What a file of another tool can give a scenario: a network, flows, coflows, or the sizes of flows."""

from __future__ import annotations

import array
import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from flowloom import toml
from flowloom.importing.source import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BYTES_MAX = 10**15
"""The largest flow, as in the simulator."""
HOSTS_MAX = 65_000
LINKS_MAX = 1_000_000
FLOWS_MAX = 10_000_000
"""More flows than this do not fit into the memory of a usual machine."""
TOO_MANY = f"an import has at most {FLOWS_MAX:,} flows, and this is one more; take a part of the file"
_PART = 65_536
SPAN_S_MAX = 1_000_000
"""The longest time between the starts of two flows, in seconds, as in the simulator."""
PS = 10**12
"""Picoseconds in a second."""


class Part(Protocol):
    """One half of a scenario."""

    section: str
    """The table of the scenario that it fills: `topology` or `workload`."""
    notes: list[str]
    """A sentence for each thing of the file that the scenario has otherwise, or not at all."""

    def table(self) -> Mapping[str, Any]:
        """Return the content of its table."""

    def files(self) -> Mapping[str, Iterator[str]]:
        """Return the lines of the files that its table names."""

    def about(self) -> str:
        """Return its size in words, such as `4 hosts and 4 links`."""


class Link(NamedTuple):
    """A link that goes both ways. Its ends are numbers of nodes, hosts first."""

    a: int
    b: int
    rate_bps: int
    delay_ps: int
    loss: float = 0.0
    """The probability that a packet vanishes, each way."""


class Switch(NamedTuple):
    """A switch of a network."""

    name: str
    level: int
    tier: str


@dataclasses.dataclass
class Network:
    """Hosts, switches and links; see `joining.network`."""

    hosts: list[str]
    """Their names, by number."""
    switches: list[Switch]
    """Their numbers follow those of the hosts."""
    links: list[Link]
    known: dict[str, int]
    """By what the file calls a host: its number."""
    notes: list[str] = dataclasses.field(default_factory=list)
    several: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """By a name that several hosts have in the file, and that is no id: their ids."""
    section: str = "topology"

    def table(self) -> Mapping[str, Any]:
        return {"kind": "custom", "file": "network.toml"}

    def files(self) -> Mapping[str, Iterator[str]]:
        return {"network.toml": self._lines()}

    def _lines(self) -> Iterator[str]:
        yield "# Hosts are numbered in the order in which they appear, from 0."
        for name in self.hosts:
            yield f'\n[[node]]\nname = {toml.value(name)}\nkind = "host"'
        for name, level, tier in self.switches:
            yield f'\n[[node]]\nname = {toml.value(name)}\nkind = "switch"\nlevel = {level}\ntier = {toml.value(tier)}'
        for link in self.links:
            ends = f"a = {toml.value(self.node(link.a))}\nb = {toml.value(self.node(link.b))}"
            yield f'\n[[link]]\n{ends}\nrate = "{rate(link.rate_bps)}"\ndelay = "{duration(link.delay_ps)}"'

    def node(self, number: int) -> str:
        """Return the name of a node."""
        hosts = len(self.hosts)
        return self.hosts[number] if number < hosts else self.switches[number - hosts].name

    def faults(self) -> list[Mapping[str, Any]]:
        """Return a fault for each direction of each link that loses packets."""
        lossy = [link for link in self.links if link.loss]
        if len(lossy) == len(self.links) and len({link.loss for link in lossy}) == 1:
            return [{"kind": "loss", "where": "all", "probability": lossy[0].loss}]
        every = list(self._ends())
        parallel, place = Counter(map(frozenset, every)), Counter[frozenset[str]]()
        found: list[Mapping[str, Any]] = []
        for link, (one, other) in zip(self.links, every, strict=True):
            ends = frozenset((one, other))
            place[ends] += 1
            which = f":{place[ends]}" if parallel[ends] > 1 else ""
            if link.loss:
                wheres = (f"{one}-{other}{which}", f"{other}-{one}{which}")
                found += [{"kind": "loss", "where": where, "probability": link.loss} for where in wheres]
        return found

    def _ends(self) -> Iterator[tuple[str, str]]:
        """Yield what the ends of each link are called: the second NIC of `h0` is `h0:2`."""
        nics = Counter[int]()
        for link in self.links:
            ends = []
            for end in (link.a, link.b):
                nics[end] += 1
                further = end < len(self.hosts) and nics[end] > 1
                ends.append(f"{self.node(end)}:{nics[end]}" if further else self.node(end))
            yield ends[0], ends[1]

    def about(self) -> str:
        return f"{count(len(self.hosts), 'host')}, {count(len(self.switches), 'switch')} and {count(len(self.links), 'link')}"


@dataclasses.dataclass
class Fabric:
    """A network that the simulator has a kind for."""

    kind: Mapping[str, Any]
    """The content of the table `topology`."""
    hosts: int
    links: int
    notes: list[str] = dataclasses.field(default_factory=list)
    section: str = "topology"
    several: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """No two hosts have one name."""

    @property
    def known(self) -> dict[str, int]:
        """By what files call a host: its number."""
        return {str(host): host for host in range(self.hosts)}

    def table(self) -> Mapping[str, Any]:
        return self.kind

    def files(self) -> Mapping[str, Iterator[str]]:
        return {}

    def faults(self) -> list[Mapping[str, Any]]:
        """Return the faults of its links: there are none."""
        return []

    def about(self) -> str:
        return f"{count(self.hosts, 'host')} and {count(self.links, 'link')}"


Topology = Network | Fabric


class Need(NamedTuple):
    """What a flow waits for."""

    flow: int
    """The number of another flow, in the order in which they were added."""
    end: str = ""
    """What must have happened to it: `begun`, `received`, `acknowledged`; empty for what its source can see."""
    delay_ps: int = 0
    """The time after that."""


@dataclasses.dataclass
class Waiting:
    """When a flow starts that waits for others."""

    line: int
    """Its line in the file, for errors."""
    needs: list[Need] = dataclasses.field(default_factory=list)
    """One or more, once all is known."""
    earliest_ps: int = 0
    """It does not start before this time of the file; 0 says nothing."""


class Trace:
    """Flows with their starts, in any order, of which some can wait for others. `sort` comes after the last one."""

    section = "workload"

    def __init__(self, source: Source, hosts: int | None = None) -> None:
        """Create a trace without flows.

        Args:
            source: The file, for errors.
            hosts: The number of hosts, if the file says it; they are called 0, 1, and so on.
        """
        self.hosts = hosts
        self.notes: list[str] = []
        self.names: dict[str, int] = {}
        """By what the file calls a host: its number here, in the order in which they appear."""
        self._source = source
        self._first: Decimal | None = None
        self._zero_ps = self._begin_ps = 0
        """When the earliest flow starts: after the one that was added first, and in the time of the file."""
        self._starts_ps, self._sizes = array.array("q"), array.array("q")
        self._sources, self._targets = array.array("i"), array.array("i")
        self.waiting: dict[int, Waiting] = {}
        """By the number of a flow that waits: for what."""
        self._order: NDArray[np.int64] | None = None
        self._numbers: Mapping[str, int] = {}
        self._within = self._empty = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, line: int, start_s: Decimal, src: str, dst: str, size: int) -> None:
        """Add a flow. Flows of 0 bytes, and flows from a host to itself, are counted and left out.

        Raises:
            ScenarioError: There are too many flows, or the flow starts too long before or after the first one.
        """
        if src == dst or size == 0:
            self._within, self._empty = self._within + (src == dst), self._empty + (src != dst)
            return
        if self._first is None:
            self._first = start_s
        since = start_s - self._first
        if abs(since) > SPAN_S_MAX:
            raise self._source.wrong(line, _too_long(abs(since)))
        self._append(line, round(since * PS), src, dst, size)

    def wait(self, line: int, src: str, dst: str, size: int) -> int:
        """Add a flow that waits for others, with two ends and a byte or more. Return its number.

        `waiting` must have what it waits for before `sort` is called.

        Raises:
            ScenarioError: There are too many flows.
        """
        number = len(self)
        self.waiting[number] = Waiting(line)
        self._append(line, 0, src, dst, size)
        return number

    def _append(self, line: int, start_ps: int, src: str, dst: str, size: int) -> None:
        if len(self) == FLOWS_MAX:
            raise self._source.wrong(line, TOO_MANY)
        self._starts_ps.append(start_ps)
        self._sizes.append(size)
        for ends, name in ((self._sources, src), (self._targets, dst)):
            ends.append(self.names.setdefault(name, len(self.names)))

    def sort(self) -> Trace:
        """Put the flows in the order of their starts, the first of which becomes time 0. Those that wait come last.

        Raises:
            ScenarioError: There are no flows, the time between the first and the last is too long, or flows wait for each
                other in a circle.
        """
        import numpy as np

        if self._first is None:
            what = (
                "every flow waits for another one" if self.waiting else "there is no flow between two hosts with a byte or more"
            )
            raise self._source.wrong(None, what)
        starts = np.asarray(self._starts_ps)
        own = np.ones(len(starts), dtype=bool)
        own[list(self.waiting)] = False
        sorted_flows = np.argsort(starts, kind="stable")
        self._order = np.concatenate([sorted_flows[own[sorted_flows]], np.array(self._in_turn(), dtype=np.int64)])
        self._zero_ps, last = int(starts[own].min()), int(starts[own].max())
        if last - self._zero_ps > SPAN_S_MAX * PS:
            raise self._source.wrong(None, _too_long(Decimal(last - self._zero_ps) / PS))
        self._begin_ps = round(self._first * PS) + self._zero_ps
        if begin := self._first + Decimal(self._zero_ps) / PS:
            self.notes.append(f"Time 0 is {begin.normalize():f} s of the file, where its first flow starts.")
        if self._within:
            self.notes.append(f"Flows from a host to itself ({self._within:,}): left out.")
        if self._empty:
            self.notes.append(f"Flows of 0 bytes ({self._empty:,}): left out.")
        return self

    def _in_turn(self) -> list[int]:
        """Return the flows that wait, each behind those that it waits for."""
        import graphlib

        before = {
            flow: [need.flow for need in found.needs if need.flow in self.waiting] for flow, found in self.waiting.items()
        }
        try:
            return list(graphlib.TopologicalSorter(before).static_order())
        except graphlib.CycleError as error:
            flow = min(error.args[1])
            raise self._source.wrong(self.waiting[flow].line, "the flow waits for itself, by way of others") from None

    @property
    def bytes(self) -> int:
        """The payload of all flows."""
        return sum(self._sizes)

    def place(self, numbers: Mapping[str, int]) -> str | None:
        """Say which number each host has in the network. Return the first host that has none, if there is one."""
        self._numbers = numbers
        return next((name for name in self.names if name not in numbers), None)

    def table(self) -> Mapping[str, Any]:
        return {"kind": "trace", "file": "flows.csv"}

    def files(self) -> Mapping[str, Iterator[str]]:
        return {"flows.csv": self._lines()}

    def _lines(self) -> Iterator[str]:
        yield "id,start_s,src,dst,bytes,after" if self.waiting else "start_s,src,dst,bytes"
        numbers = [self._numbers[name] for name in self.names]
        assert self._order is not None
        # A list of all flows would take more memory than the flows themselves.
        for part in range(0, len(self), _PART):
            for flow in self._order[part : part + _PART].tolist():
                start = seconds(self._starts_ps[flow] - self._zero_ps)
                rest = f"{numbers[self._sources[flow]]},{numbers[self._targets[flow]]},{self._sizes[flow]}"
                if found := self.waiting.get(flow):
                    earliest = found.earliest_ps - self._begin_ps
                    yield f"{flow},{seconds(earliest) if earliest > 0 else ''},{rest},{' '.join(map(_after, found.needs))}"
                else:
                    yield f"{flow},{start},{rest}," if self.waiting else f"{start},{rest}"

    def about(self) -> str:
        return f"{count(len(self), 'flow')} of {size(self.bytes)} in all"


@dataclasses.dataclass
class Coflows:
    """Coflows of the Facebook trace's format."""

    racks: int
    rows: list[str]
    """The lines of the trace, without the first."""
    flows: int
    bytes: float
    notes: list[str] = dataclasses.field(default_factory=list)
    divisor: int = 1
    """What sizes and times are divided by."""
    section: str = "workload"

    def table(self) -> Mapping[str, Any]:
        divisors = {"size_divisor": self.divisor, "time_divisor": self.divisor} if self.divisor > 1 else {}
        return {"kind": "coflow_trace", "file": "coflows.txt", **divisors}

    def files(self) -> Mapping[str, Iterator[str]]:
        return {"coflows.txt": iter([f"{self.racks} {len(self.rows)}", *self.rows])}

    def about(self) -> str:
        return f"{count(len(self.rows), 'coflow')} with {count(self.flows, 'flow')} of {size(self.bytes)} in all"


@dataclasses.dataclass
class Sizes:
    """The sizes of flows. Their starts and ends are random."""

    points: list[tuple[float, float]]
    """Bytes and cumulative probabilities, as of `sizes.Table`."""
    mean: float
    lines: list[str]
    """Of the file that a scenario reads."""
    notes: list[str] = dataclasses.field(default_factory=list)
    section: str = "workload"

    def table(self) -> Mapping[str, Any]:
        return {"kind": "poisson", "sizes": {"cdf": "sizes.csv"}, "load": 0.5, "flows": 1000}

    def files(self) -> Mapping[str, Iterator[str]]:
        return {"sizes.csv": iter(self.lines)}

    def about(self) -> str:
        return f"sizes of flows: {len(self.points):,} points, mean {self.mean:,.0f} B, largest {self.points[-1][0]:,.0f} B"


Workload = Trace | Coflows | Sizes


def _after(need: Need) -> str:
    """Write what a flow waits for as a trace does."""
    return f"{need.flow}{need.end and '@'}{need.end}" + (f"+{seconds(need.delay_ps)}" if need.delay_ps else "")


def _too_long(span_s: Decimal) -> str:
    fits = f"at most {SPAN_S_MAX:,} s fit into a run; check the unit of starts"
    return f"flows start {span_s:,.0f} s apart; {fits}"


def _quantity(value: int, units: tuple[tuple[str, int], ...]) -> str:
    name, unit = next(((name, unit) for name, unit in units if value >= unit), units[-1])
    return f"{Decimal(value) / unit:f}{name}"


def rate(bps: int) -> str:
    """Format a rate, exactly."""
    return _quantity(bps, (("Gb/s", 10**9), ("Mb/s", 10**6), ("kb/s", 10**3), ("b/s", 1)))


def duration(ps: int) -> str:
    """Format a duration, exactly."""
    return _quantity(ps, (("s", PS), ("ms", 10**9), ("us", 10**6), ("ns", 10**3), ("ps", 1)))


def seconds(ps: int) -> str:
    """Format picoseconds in seconds, exactly."""
    whole, part = divmod(ps, PS)
    return f"{whole}.{part:012d}".rstrip("0").rstrip(".")


def size(found: float) -> str:
    """Format bytes for people."""
    unit, factor = next(((u, f) for u, f in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if found >= f), ("B", 1))
    return f"{found / factor:,.4g} {unit}"


def count(number: int, what: str) -> str:
    """Format a number of things."""
    plural = "" if number == 1 else "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{plural}"
