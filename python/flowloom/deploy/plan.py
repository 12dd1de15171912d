"""What a scenario means for switches and hosts, as the simulator describes it.

All bytes are bytes on the wire. Rates are in bits per second.
"""

from __future__ import annotations

import dataclasses
import enum
import tomllib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from flowloom import diagnosis, toml
from flowloom.diagnosis import Finding
from flowloom.words import printable, shown

if TYPE_CHECKING:
    from flowloom.scenario import Scenario

_IPV6_MTU = 1280
"""The least MTU of a link that carries IPv6 (RFC 8200, section 5)."""
CLASSES = 8
"""The number of classes of packets. Class c is sent as the class selector CS(7 - c) of RFC 2474."""


def dscp(class_: int) -> int:
    """Return the DSCP of a class."""
    return 8 * (CLASSES - 1 - class_)


@dataclasses.dataclass(frozen=True)
class Limit:
    """The most that a queue holds."""

    bytes: int
    key: str
    """The parameter of the transport that it follows from."""


@dataclasses.dataclass(frozen=True)
class Queue:
    """One queue of a port."""

    holds: str
    """What is in it."""
    limit: Limit | None


@dataclasses.dataclass(frozen=True)
class Marks:
    """How a port marks ECN-capable packets."""

    above: int
    """Bytes that may be queued without marks."""
    all_above: int
    """Bytes above which all packets are marked. In between, packets are marked at random."""
    share: float
    """The share of packets that are marked with `all_above` bytes, between 0 and 1."""
    by_queue: bool
    """Whether the bytes of the packet's own queue count, instead of those of the whole port."""
    at_dequeue: bool
    """Whether packets are marked when they leave."""
    table: str
    """The dotted table of the keys `mark_above`, `ecn` and `mark_at` among the transport's parameters; may be empty."""

    def key(self, name: str) -> str:
        """Return the dotted key of one of its parameters."""
        return f"{self.table}.{name}" if self.table else name

    @property
    def is_random(self) -> bool:
        """Whether some packets are marked at random."""
        return self.all_above > self.above and self.share > 0

    @property
    def begins(self) -> int:
        """Bytes above which packets are marked, some or all. Marks at random with a share of 0 are none."""
        return self.above if self.is_random else self.all_above

    @property
    def percent(self) -> int:
        """The share in whole percent, as switches take it; 100 if nothing is random."""
        return min(100, max(1, round(100 * self.share))) if self.is_random else 100

    @property
    def keys(self) -> list[str]:
        """The dotted keys that the thresholds follow from."""
        names = ["mark_above", *(["mark_all_above", "mark_share"] if self.all_above > self.above else []), "ecn"]
        return [self.key(name) for name in names]


class Division(enum.Enum):
    """How queues divide the memory of a port."""

    WHOLE = "whole"
    """One limit for all queues."""
    PUSH_OUT = "push_out"
    """The same, and earlier queues push out packets of later ones."""
    PER_QUEUE = "per_queue"
    """Each queue has the whole limit for itself."""
    DYNAMIC = "dynamic"
    """All ports of the switch share the memory. A queue takes packets while it is shorter than alpha times the free memory."""


@dataclasses.dataclass(frozen=True)
class Memory:
    """The memory of a port, or of all ports of a switch that share it."""

    bytes: int
    bytes_key: str | None
    """The transport's parameter that limits it, instead of fabric.buffer."""
    division: Division
    division_key: str | None
    alpha: float | None


@dataclasses.dataclass(frozen=True)
class Limiter:
    """A token bucket that some queues share: they get `part` of `whole` of the link's rate."""

    first: int
    """The first of its queues."""
    queues: int
    """How many there are."""
    part: int
    whole: int
    burst: int
    """What the bucket holds, in bytes."""
    share_key: str | None
    burst_key: str

    def rate(self, rate_bps: int) -> int:
        """Return what its queues get of a link of this rate, in bits per second."""
        return round(rate_bps * self.part / self.whole)


@dataclasses.dataclass(frozen=True)
class Feature:
    """What a port does besides queues in strict priority, marks and limits."""

    ability: str
    what: str
    """A clause that begins with "it"."""
    without: str
    """What follows without it: a clause."""
    essential: bool
    """Whether the transport does not work at all without it."""
    key: str | None


@dataclasses.dataclass(frozen=True)
class Port:
    """What a port does to packets. A packet's class is the index of its queue, and queue 0 leaves first."""

    queues: tuple[Queue, ...]
    queues_key: str | None
    marks: Marks | None
    memory: Memory | None
    limiter: Limiter | None
    features: tuple[Feature, ...]

    def number(self, class_: int, alone: int = 0) -> int:
        """Return the number of the queue of a class where queues with higher numbers leave first: 7 for class 0.

        If there is one queue only, it is `alone`, that of DSCP 0, since nothing need set DSCPs then.
        """
        return alone if len(self.queues) == 1 else CLASSES - 1 - class_

    def is_limited(self, class_: int) -> bool:
        """Return whether the limiter holds for the queue of a class."""
        return self.limiter is not None and self.limiter.first <= class_ < self.limiter.first + self.limiter.queues

    def room_keys(self, class_: int) -> tuple[str | None, ...]:
        """Return the keys that limit the queue of a class."""
        if limit := self.queues[class_].limit:
            return (limit.key,)
        if self.memory is None:
            return ()
        shared = self.memory.division is Division.DYNAMIC
        keys = ("fabric.sharing", "fabric.alpha") if shared else (self.memory.division_key,)
        return (self.memory.bytes_key or "fabric.buffer", *keys)


@dataclasses.dataclass(frozen=True)
class SwitchPort:
    """A port of a switch."""

    to: str
    """The tier of the node at the other end."""
    rate_bps: int
    delay_ps: int
    profile: Port
    headroom: int | None
    """With flow control: what a class of packets that come in here may store beyond XOFF, in bytes."""
    xoff: int | None
    """With flow control, unless ports share memory: the threshold in bytes."""


@dataclasses.dataclass(frozen=True)
class Group:
    """The ports of a switch that are alike."""

    name: str
    """A name that a file may contain, such as `to_host`."""
    numbers: tuple[int, ...]
    """The numbers of the ports, from 1, in the order of the scenario's links."""
    port: SwitchPort


@dataclasses.dataclass(frozen=True)
class Member:
    """A switch by its name."""

    name: str
    neighbours: tuple[str, ...]
    """The names of the nodes at its ports, in the order of the ports."""


@dataclasses.dataclass(frozen=True)
class Switch:
    """A kind of switch."""

    name: str
    members: tuple[Member, ...]
    """The switches of this kind."""
    shared: int | None
    """With flow control and shared memory: the bytes that the headrooms leave."""
    ports: tuple[SwitchPort, ...]

    @property
    def first(self) -> str:
        """The name of the first switch of this kind."""
        return self.members[0].name

    @property
    def count(self) -> int:
        """How many switches are of this kind."""
        return len(self.members)

    def groups(self) -> list[Group]:
        """Return the ports that are alike, in the order of the first of each group."""
        alike: dict[SwitchPort, list[int]] = {}
        for number, port in enumerate(self.ports, 1):
            alike.setdefault(port, []).append(number)
        groups: list[Group] = []
        for port, numbers in alike.items():
            name = f"to_{file_name(port.to)}"
            same = sum(group.name.partition("__")[0] == name for group in groups)
            groups.append(Group(f"{name}__{same + 1}" if same else name, tuple(numbers), port))
        return groups


@dataclasses.dataclass(frozen=True)
class Nic:
    """The NICs of one rate."""

    rate_bps: int
    count: int
    profile: Port


@dataclasses.dataclass(frozen=True)
class Knob:
    """A setting of the kernel's TCP."""

    name: str
    value: bool | int | float
    key: str


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A TCP of the Linux kernel."""

    control: str
    """The name of its congestion control."""
    lacks: str | None
    """What the congestion control lacks: a clause."""
    knobs: tuple[Knob, ...]


@dataclasses.dataclass(frozen=True)
class Tagger:
    """A layer below TCP that chooses the class of each packet by what its flow has sent."""

    thresholds: tuple[int, ...]
    """In bytes."""
    key: str
    command: str
    """The command that attaches it to a device."""

    @property
    def change(self) -> str:
        """The command that changes its thresholds where it is attached."""
        return f"{self.command.removesuffix(' attach')} set"

    @property
    def detach(self) -> str:
        """The command that detaches it from a device."""
        return f"{self.command.removesuffix(' attach')} detach"


@dataclasses.dataclass(frozen=True)
class Host:
    """What the transport asks of hosts."""

    ecn: bool
    """Whether its data packets are ECN-capable."""
    kernel: Kernel | None
    """The kernel's TCP that is closest to it; None if it is no TCP."""
    in_nics: bool
    """Whether NICs for RDMA over Ethernet run it."""
    tagger: Tagger | None


@dataclasses.dataclass(frozen=True)
class FlowControl:
    """Priority flow control."""

    classes: int
    """How many classes can be paused."""
    hysteresis: int
    """How far a class must be below XOFF before it may go on, in bytes."""


@dataclasses.dataclass(frozen=True)
class Wire:
    """The sizes of packets, in bytes."""

    name: str
    full: int
    control: int
    mtu: int
    """The largest IP packet."""


@dataclasses.dataclass(frozen=True)
class Pool:
    """The memory of each port, or with alpha of each switch."""

    bytes: int
    alpha: float | None


@dataclasses.dataclass(frozen=True)
class Plan:
    """A scenario as switches and hosts."""

    transport: str
    label: str
    about: str
    parameters: dict[str, Any]
    """The transport's parameters, with those that follow from the workload."""
    placement: str
    """Where control endpoints run: `nowhere`, on an `extra_host`, or on `switches`."""
    paths: str
    """What the transport needs of paths: `any`, `one`, `symmetric` or `symmetric_or_sprayed`."""
    multipath: bool
    """Whether packets between two hosts can take different shortest paths."""
    choice: str
    """For what a switch chooses a path: each `flow`, `flowlet` or `packet`, or each packet by the `queue` of its port."""
    wire: Wire
    memory: Pool
    pfc: FlowControl | None
    host: Host
    switches: tuple[Switch, ...]
    nics: tuple[Nic, ...]
    hosts: tuple[str, ...]
    """The names of hosts, in the order of their numbers."""
    scenario: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The resolved scenario."""
    title: str = "scenario"
    warnings: tuple[Finding, ...] = ()
    """What of the scenario does not suit the network or the flows."""

    @property
    def name(self) -> str:
        """The transport's name in its authors' spelling."""
        return self.label or self.transport

    def parameter(self, key: str) -> str:
        """Return the whole key of one of the transport's parameters."""
        return f"transport.{self.transport}.{key}"

    def source(self, *keys: str | None) -> str:
        """Return the text of scenario keys with their values, for a comment: `fabric.buffer = "36.864kB"`.

        Keys that do not begin with a table of the scenario are the transport's own. None stands for its design.
        """
        return ", ".join(self._sources(keys)) or f"by design of {self.name}"

    def ports(self) -> Iterator[tuple[str, SwitchPort, str]]:
        """Yield each port of each switch: the switch, the port, and the node at the other end of its link."""
        for kind in self.switches:
            for member in kind.members:
                yield from ((member.name, port, to) for port, to in zip(kind.ports, member.neighbours, strict=True))

    def rate_source(self, bps: int) -> str:
        """Return the text of the topology's keys that give links this rate."""
        wanted = rate(bps)
        keys = [key for key, value in self.scenario.get("topology", {}).items() if value == wanted]
        return self.source(*(f"topology.{key}" for key in keys)) if keys else f"the topology: {wanted}"

    @property
    def mtu_source(self) -> str:
        """The text of the key that the MTU follows from, with what it means for IPv6."""
        lost = f". IPv6 needs an MTU of {_IPV6_MTU}, so the device loses its IPv6 addresses and routes"
        return f"{self.source('fabric.wire')}{lost if self.wire.mtu < _IPV6_MTU else ''}"

    def _sources(self, keys: Iterable[str | None]) -> Iterable[str]:
        for key in keys:
            if key is None:
                continue
            own = key.partition(".")[0] not in self.scenario
            table: Any = self.parameters if own else self.scenario
            for part in key.split("."):
                table = table.get(part) if isinstance(table, dict) else None
            whole = self.parameter(key) if own else key
            yield whole if table is None else f"{whole} = {line(toml.value(table))}"


def plan_of(scenario: Scenario, *, for_datagrams: bool = False) -> Plan:
    """Return what a scenario means for switches and hosts.

    Args:
        scenario: The scenario.
        for_datagrams: Whether ports are for the datagrams of `flowloom-node`: limits then go by their sizes.

    Raises:
        ScenarioError: The scenario is not valid, or its transport is a bound that no network can run.
    """
    planned = scenario.plan()
    described = TypeAdapter(Plan).validate_json(planned.deployment(for_datagrams=for_datagrams))
    found = tuple(diagnosis.foreseen(planned.resolved, planned.misfits))
    return dataclasses.replace(
        described, scenario=tomllib.loads(planned.resolved), title=line(scenario.path or scenario.title), warnings=found
    )


def line(text: str) -> str:
    """Return a text on one line that ends no comment."""
    return shown(text, 160)


def file_name(name: str) -> str:
    """Return a name with those characters alone that file names and variables have."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in printable(name, keep="")) or "_"


def size(count: int) -> str:
    """Return bytes as a scenario writes them: `97.5kB`."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.6f}".rstrip("0").rstrip(".") + unit
    return f"{count}B"


def rate(bps: int) -> str:
    """Return a rate as a scenario writes it: `10Gb/s`."""
    for unit, factor in (("Gb/s", 10**9), ("Mb/s", 10**6), ("kb/s", 10**3)):
        if bps >= factor:
            return f"{bps / factor:.6f}".rstrip("0").rstrip(".") + unit
    return f"{bps}b/s"
