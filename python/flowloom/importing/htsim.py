"""Files of htsim: fat trees of two or three tiers (.topo), and connection matrices (.cm).

A topology begins with `Nodes`, `Tiers` and `Podsize`. After `Tier N`, from 0, come the tier's keys:
`Downlink_speed_Gbps`, `Downlink_Latency_ns`, `Switch_Latency_ns`, `Radix_Down`, `Radix_Up`, `Oversubscribed`, and
`Bundle`, the number of parallel links. Names may be in upper or lower case. A connection matrix begins with `Nodes`,
`Connections`, `Triggers` and `Failures`, each with a number. Then come the connections, `0->13 id 1 start 0 size
2000000`, with `trigger`, `send_done_trigger` and `recv_done_trigger`, and the triggers and failures. A size of 0 has
no end. Starts are picoseconds (`Broadcom/csg-htsim`), and were microseconds before connections had numbers. A
connection activates its triggers when its sender or its receiver is done. A trigger that is `oneshot` starts all of its
connections then, a `multishot` one of them each time, and a `barrier count N` all of them at the N-th time.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from decimal import Decimal

from flowloom.importing import joining
from flowloom.importing.parts import (
    BYTES_MAX,
    FLOWS_MAX,
    HOSTS_MAX,
    LINKS_MAX,
    Fabric,
    Link,
    Need,
    Topology,
    Trace,
    duration,
    rate,
    size,
)
from flowloom.importing.source import Source
from flowloom.words import shown, suggestion

_KEYS = (
    "downlink_speed_gbps", "downlink_latency_ns", "switch_latency_ns", "radix_down", "radix_up", "oversubscribed", "bundle",
)  # fmt: skip
_TIERS = ("tor", "agg", "core")
_ENDLESS_BYTES = 100_000_000
"""The size of a flow without an end."""
_CONNECTION = re.compile(r"(\d{1,9})->(\d{1,9})")


def topology_reason(source: Source) -> str | None:
    """Say why a file is a topology; None if it is none."""
    lines = [line for line in source.head if not line.startswith("#")]
    if lines and lines[0].split()[0].lower() in _HEADER and any(re.match(r"(?i)(tiers?|podsize)\s", line) for line in lines):
        return f'it begins with "{shown(lines[0])}" and has tiers'
    return None


_HEADER = ("nodes", "tiers", "podsize")


@dataclasses.dataclass
class _Tier:
    """The keys of a tier."""

    line: int
    keys: dict[str, int]

    def get(self, key: str, default: int) -> int:
        return self.keys.get(key, default)


@dataclasses.dataclass
class _Tree:
    """A tree of two or three tiers. Switches of a tier are counted within a pod, those of the highest in all."""

    source: Source
    hosts: int
    pod: int
    tiers: list[_Tier]

    def rate(self, tier: int) -> int:
        """Return the rate of the links below a tier's switches in bits per second."""
        return self.tiers[tier].keys["downlink_speed_gbps"] * 10**9

    def delay(self, tier: int) -> int:
        """Return the delay of the links below a tier's switches in picoseconds.

        Half of a switch's latency is on each of its links, so a packet that enters by one and leaves by another has all of it.
        """
        below = self.tiers[tier - 1].get("switch_latency_ns", 0) if tier else 0
        twice = 2 * self.tiers[tier].keys["downlink_latency_ns"] + self.tiers[tier].get("switch_latency_ns", 0) + below
        return twice * 500

    def bundle(self, tier: int) -> int:
        return self.tiers[tier].get("bundle", 1)

    def down(self, tier: int) -> int:
        return self.tiers[tier].keys["radix_down"]

    def up(self, tier: int) -> int:
        return self.tiers[tier].keys["radix_up"]

    def divided(self, number: int, by: int, tier: int, what: str) -> int:
        if number % by:
            raise self.source.wrong(self.tiers[tier].line, f"tier {tier}: {what}: {number:,} is no multiple of {by:,}")
        return number // by


def topology(source: Source) -> Topology:
    """Read a topology."""
    tree = _tree(source)
    top = len(tree.tiers) - 1
    pods = tree.divided(tree.hosts, tree.pod, 0, "the number of nodes must be a multiple of the pod size")
    if top == 1 and pods > 1:
        raise source.wrong(None, f"with two tiers, all nodes are one pod: Podsize must be {tree.hosts}, not {tree.pod}")
    tors = tree.divided(tree.pod, tree.down(0), 0, "the pod size must be a multiple of Radix_Down")
    aggs = tree.divided(tree.up(0), tree.bundle(1), 1, "Radix_Up of the tier below must be a multiple of Bundle")
    _same(tree, 1, "Radix_Down", tree.down(1), tors * tree.bundle(1), f"{tors} switches below, with Bundle {tree.bundle(1)}")
    cores = 0
    if top == 2:
        cores = aggs * tree.divided(tree.up(1), tree.bundle(2), 2, "Radix_Up of the tier below must be a multiple of Bundle")
        _same(tree, 2, "Radix_Down", tree.down(2), pods * tree.bundle(2), f"{pods} pods, with Bundle {tree.bundle(2)}")
    links = tree.hosts + pods * tors * tree.up(0) + (pods * aggs * tree.up(1) if top == 2 else 0)
    if links > LINKS_MAX:
        raise source.wrong(None, f"the network has {links:,} links; the simulator has at most {LINKS_MAX:,}")
    for tier in range(top):
        _check_oversubscription(tree, tier)
    found = _known_kind(tree, pods, tors, aggs, cores) or _custom(tree, pods, tors, aggs, cores)
    if any(tier.get("switch_latency_ns", 0) for tier in tree.tiers):
        found.notes.append("The latency of a switch is part of the delays of its links, one half on each.")
    return found


def _tree(source: Source) -> _Tree:
    header: dict[str, int] = {}
    tiers: dict[int, _Tier] = {}
    current: _Tier | None = None
    for number, line in source.lines():
        if line.startswith("#"):
            continue
        name, *words = line.split()
        key = name.lower()
        if key not in (*_HEADER, "tier", *_KEYS):
            raise source.wrong(number, f'unknown key "{shown(name)}": {suggestion(key, (*_HEADER, "tier", *_KEYS))}')
        if len(words) != 1:
            raise source.wrong(number, f"{name} has one number, but here are {len(words)} words after it")
        value = source.whole(number, words[0], name, 0 if key in ("tier", "switch_latency_ns") else 1, 10**9)
        if key == "tier":
            if value in tiers or value > 2:
                raise source.wrong(
                    number, f"tier {value} appears twice" if value in tiers else "tiers are numbered from 0 to 2"
                )
            current = tiers[value] = _Tier(number, {})
            continue
        keys = header if key in _HEADER else current.keys if current else None
        if keys is None:
            raise source.wrong(number, f'{name} belongs to a tier; a line "Tier 0" must come before it')
        if key in keys:
            raise source.wrong(number, f"{name} appears twice")
        keys[key] = value
    return _checked(source, header, tiers)


def _checked(source: Source, header: dict[str, int], tiers: dict[int, _Tier]) -> _Tree:
    for key in _HEADER:
        if key not in header:
            raise source.wrong(None, f"{key.capitalize()} is missing; the file has it before the first tier")
    count = header["tiers"]
    if count not in (2, 3):
        raise source.wrong(None, f"Tiers is {count}; it is 2 or 3")
    if header["nodes"] > HOSTS_MAX:
        raise source.wrong(None, f"Nodes is {header['nodes']:,}; the simulator has at most {HOSTS_MAX:,} hosts")
    for tier in range(count):
        if tier not in tiers:
            raise source.wrong(None, f"Tiers is {count}, but there is no tier {tier}")
        needed = ["downlink_speed_gbps", "downlink_latency_ns", "radix_down", *(["radix_up"] if tier < count - 1 else [])]
        for key in needed:
            if key not in tiers[tier].keys:
                raise source.wrong(tiers[tier].line, f"tier {tier} has no {key.capitalize()}")
    if len(tiers) > count:
        raise source.wrong(tiers[count].line, f"Tiers is {count}, but there is a tier {count}")
    if tiers[0].get("bundle", 1) > 1:
        raise source.wrong(tiers[0].line, "tier 0 has a Bundle: hosts with several links cannot be imported")
    return _Tree(source, header["nodes"], header["podsize"], [tiers[tier] for tier in range(count)])


def _same(tree: _Tree, tier: int, key: str, found: int, right: int, why: str) -> None:
    if found != right:
        raise tree.source.wrong(tree.tiers[tier].line, f"tier {tier}: {key} is {found}, but it must be {right}, for {why}")


def _check_oversubscription(tree: _Tree, tier: int) -> None:
    stated = tree.tiers[tier].get("oversubscribed", 1)
    below, above = tree.down(tier) * tree.rate(tier), tree.up(tier) * tree.rate(tier + 1)
    if below != stated * above:
        raise tree.source.wrong(
            tree.tiers[tier].line,
            f"tier {tier}: Oversubscribed is {stated}, but radices and speeds give {below / above:g} ({tree.down(tier)} links "
            f"of {rate(tree.rate(tier))} below, and {tree.up(tier)} of {rate(tree.rate(tier + 1))} above)",
        )


def _known_kind(tree: _Tree, pods: int, tors: int, aggs: int, cores: int) -> Fabric | None:
    delays = {"delay": duration(tree.delay(1)), "host_delay": duration(tree.delay(0))}
    if len(tree.tiers) == 2 and tree.bundle(1) == 1:
        rates = {"host_rate": rate(tree.rate(0)), "spine_rate": rate(tree.rate(1))}
        racks = {"racks": tors, "hosts_per_rack": tree.down(0), "spines": aggs}
        return Fabric({"kind": "leaf_spine", **racks, **rates, **delays}, tree.hosts, tree.hosts + tors * aggs)
    k = pods
    if len(tree.tiers) == 3 and 2 * tors == 2 * aggs == k and 4 * cores == k * k and tree.bundle(1) == tree.bundle(2) == 1:
        keys = {"kind": "fat_tree", "k": k, "rate": rate(tree.rate(1)), **delays}
        if tree.down(0) != k // 2:
            keys["hosts_per_edge"] = tree.down(0)
        for name, tier in (("host_rate", 0), ("core_rate", 2)):
            if tree.rate(tier) != tree.rate(1):
                keys[name] = rate(tree.rate(tier))
        if tree.delay(2) != tree.delay(1):
            keys["core_delay"] = duration(tree.delay(2))
        return Fabric(keys, tree.hosts, tree.hosts + k**3 // 2)
    return None


def _custom(tree: _Tree, pods: int, tors: int, aggs: int, cores: int) -> Topology:
    nodes = [joining.Node(str(host), f"h{host}", host=True) for host in range(tree.hosts)]
    first = [tree.hosts, tree.hosts + pods * tors, tree.hosts + pods * (tors + aggs)]
    for tier, count in zip(_TIERS, (pods * tors, pods * aggs, cores), strict=True):
        nodes += [joining.Node(f"{tier}{at}", f"{tier}{at}", host=False) for at in range(count)]

    def joined(a: int, b: int, tier: int) -> list[Link]:
        return [Link(a, b, tree.rate(tier), tree.delay(tier))] * tree.bundle(tier)

    links = [link for host in range(tree.hosts) for link in joined(host, first[0] + host // tree.down(0), 0)]
    for pod in range(pods):
        for tor in range(tors):
            for agg in range(aggs):
                links += joined(first[0] + pod * tors + tor, first[1] + pod * aggs + agg, 1)
        # The n-th aggregation switch of each pod is joined to the same cores: n, n + aggs, and so on.
        for agg in range(aggs):
            for core in range(agg, cores, aggs):
                links += joined(first[1] + pod * aggs + agg, first[2] + core, 2)
    return joining.network(tree.source, nodes, links)


def connections_reason(source: Source) -> str | None:
    """Say why a file is a connection matrix; None if it is none."""
    lines = [line for line in source.head if not line.startswith("#")]
    begins = lines and re.match(r"(Nodes|Connections)\s", lines[0])
    if begins and any(re.match(r"Connections\s|\d+->\d+", line) for line in lines):
        return f'it begins with "{shown(lines[0])}" and has connections'
    if lines and _CONNECTION.match(lines[0]):
        return f'it begins with the connection "{shown(lines[0])}"'
    return None


def connections(source: Source) -> Trace:
    """Read a connection matrix. Starts are picoseconds.

    Raises:
        ScenarioError: As for any file; and unless `--as` names the format, if starts could be microseconds, too, since
            connections have starts, but no numbers.
    """
    return _Matrix(source, Decimal("1e-12")).read()


def connections_us(source: Source) -> Trace:
    """Read a connection matrix. Starts are microseconds."""
    return _Matrix(source, Decimal("1e-6")).read()


@dataclasses.dataclass
class _Trigger:
    """Who activates a trigger, and who waits for it."""

    kind: str = ""
    """`oneshot`, `multishot` or `barrier`; empty before that is known."""
    count: int = 1
    """How often a barrier is activated."""
    activators: list[Need] = dataclasses.field(default_factory=list)
    """Connections by their number in the trace."""
    waiting: list[int] = dataclasses.field(default_factory=list)
    """Connections by their number in the trace."""


class _Matrix:
    """A connection matrix in the making."""

    def __init__(self, source: Source, unit_s: Decimal) -> None:
        self.source, self.unit_s = source, unit_s
        self.counts: dict[str, int] = {}
        self.found: Counter[str] = Counter()
        """How many there are of what the header counts."""
        self.left: Counter[str] = Counter()
        """How many there are of what is left out or changed."""
        self.triggers: dict[str, _Trigger] = {}
        """By number."""
        self.largest = Decimal(0)
        self.numbered = False

    def read(self) -> Trace:
        trace: Trace | None = None
        for number, line in self.source.lines():
            words = line.split()
            if words[0].startswith("#"):
                continue
            if words[0] in ("Nodes", "Connections", "Triggers", "Failures"):
                self.header(number, words)
            elif "->" in words[0]:
                trace = trace or Trace(self.source, self.nodes(number))
                self.connection(trace, number, words)
            elif words[0] == "trigger":
                self.found["Triggers"] += 1
                self.trigger(number, words[1:])
            elif words[0] == "failure":
                self.found["Failures"] += 1
            else:
                known = "Nodes, Connections, Triggers, Failures, a connection such as 0->1, trigger or failure"
                raise self.source.wrong(number, f'a line begins with {known}, but this one with "{shown(words[0])}"')
        return self.finish(trace)

    def header(self, number: int, words: list[str]) -> None:
        name = words[0]
        if len(words) != 2 or name in self.counts:
            why = f"{name} appears twice" if name in self.counts else f"{name} has one number"
            raise self.source.wrong(number, why)
        least, most = (2, HOSTS_MAX) if name == "Nodes" else (0, FLOWS_MAX)
        self.counts[name] = self.source.whole(number, words[1], name, least, most)

    def nodes(self, number: int) -> int:
        if "Nodes" not in self.counts:
            raise self.source.wrong(number, "Nodes is missing; the file begins with it")
        return self.counts["Nodes"]

    def connection(self, trace: Trace, number: int, words: list[str]) -> None:
        ends = _CONNECTION.fullmatch(words[0])
        if ends is None:
            raise self.source.wrong(number, f'a connection begins with its ends, such as 0->13, not "{shown(words[0])}"')
        src, dst = (str(self.source.whole(number, end, "a node", 0, self.nodes(number) - 1)) for end in ends.groups())
        keys = self.keys(number, words[1:])
        self.found["Connections"] += 1
        if ("start" in keys) == ("trigger" in keys):
            raise self.source.wrong(number, "a connection has either a start or a trigger")
        if "size" not in keys:
            raise self.source.wrong(number, "the connection has no size")
        count = self.source.whole(number, keys["size"], "the size", 0, BYTES_MAX)
        self.numbered |= "id" in keys
        self.left["prio"] += "prio" in keys
        self.left["endless"] += count == 0
        flow = len(trace)
        if "trigger" in keys:
            if src == dst:
                raise self.source.wrong(number, "a connection that waits for a trigger joins two nodes")
            self.known(keys["trigger"]).waiting.append(trace.wait(number, src, dst, count or _ENDLESS_BYTES))
        else:
            start = self.source.number(number, keys["start"], "the start")
            self.largest = max(self.largest, start)
            trace.add(number, start * self.unit_s, src, dst, count or _ENDLESS_BYTES)
        for key, end in (("send_done_trigger", "acknowledged"), ("recv_done_trigger", "received")):
            if key in keys and src != dst:
                self.known(keys[key]).activators.append(Need(flow, end))

    def known(self, name: str) -> _Trigger:
        """Return the trigger of a number."""
        return self.triggers.setdefault(str(int(name)), _Trigger())

    def trigger(self, number: int, words: list[str]) -> None:
        kinds = ("oneshot", "multishot", "barrier")
        if len(words) < 3 or words[0] != "id":
            raise self.source.wrong(number, "a trigger has a number and a kind, as in `trigger id 1 oneshot`")
        name, kind = str(self.source.whole(number, words[1], "the trigger's id")), words[2]
        if kind not in kinds:
            raise self.source.wrong(number, f'unknown kind of trigger "{shown(kind)}": {suggestion(kind, kinds)}')
        trigger = self.known(name)
        if trigger.kind:
            raise self.source.wrong(number, f"a second trigger has id {name}")
        trigger.kind = kind
        if kind == "barrier":
            if len(words) != 5 or words[3] != "count":
                raise self.source.wrong(number, "a barrier has a count, as in `trigger id 1 barrier count 2`")
            trigger.count = self.source.whole(number, words[4], "the barrier's count", 1, FLOWS_MAX)

    def join(self, trace: Trace) -> None:
        """Let each connection that waits for a trigger wait for the connections that activate it."""
        for name, trigger in self.triggers.items():
            for at, flow in enumerate(trigger.waiting):
                found, needs = trace.waiting[flow], trigger.activators
                if not trigger.kind:
                    raise self.source.wrong(found.line, f"the connection waits for trigger {name}, which is not in the file")
                if trigger.kind == "multishot":
                    needs = needs[at : at + 1]
                    self.left["multishot"] += 1
                elif trigger.kind == "barrier" and trigger.count != len(needs):
                    raise self.source.wrong(
                        found.line,
                        f"the connection waits until trigger {name} was activated {trigger.count:,} times, and "
                        f"{len(needs):,} connections activate it; only a barrier of all of them can be imported",
                    )
                elif trigger.kind == "oneshot" and len(needs) > 1:
                    raise self.source.wrong(found.line, f"trigger {name} is activated {len(needs):,} times, but is a oneshot")
                if not needs:
                    raise self.source.wrong(found.line, f"no connection activates trigger {name}, so this one never starts")
                found.needs.extend(needs)

    def keys(self, number: int, words: list[str]) -> dict[str, str]:
        """Return the keys of a connection with their values."""
        known = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio", "addon")
        keys: dict[str, str] = {}
        rest = iter(words)
        for key in rest:
            if key not in known:
                raise self.source.wrong(number, f'unknown key "{shown(key)}": {suggestion(key, known)}')
            if key in keys:
                raise self.source.wrong(number, f"{key} appears twice")
            keys[key] = "" if key == "addon" else next(rest, "")
            if key not in ("addon", "start"):
                self.source.whole(number, keys[key], key)
        return keys

    def finish(self, trace: Trace | None) -> Trace:
        for name, what in (("Connections", "connection"), ("Triggers", "trigger"), ("Failures", "failure")):
            if self.counts.get(name, 0) != self.found[name]:
                raise self.source.wrong(
                    None, f"{name} is {self.counts.get(name, 0):,}, but there are {self.found[name]:,} ({what} lines)"
                )
        if trace is None:
            raise self.source.wrong(None, "there are no connections")
        if self.largest and not self.numbered and not self.source.explicit:
            readings = [
                f"--as {name} (the last flow starts at {self.largest * Decimal(unit):.6g} s)"
                for name, unit in (("htsim_cm", "1e-12"), ("htsim_cm_us", "1e-6"))
            ]
            raise self.source.wrong(
                None, f"the unit of starts is not known, since connections have no numbers: say {' or '.join(readings)}"
            )
        self.join(trace)
        left = self.left
        if left["multishot"]:
            trace.notes.append(
                f"Connections of multishot triggers ({left['multishot']:,}): each waits for the activation of its own place in "
                "the order of the file, not of time."
            )
        if left["endless"]:
            trace.notes.append(
                f"Connections without an end, of size 0 ({left['endless']:,}): they have {size(_ENDLESS_BYTES)} here."
            )
        if left["prio"]:
            trace.notes.append(f"Priorities of connections ({left['prio']:,}): left out.")
        if self.found["Failures"]:
            trace.notes.append(
                f"Failures of switches and links ({self.found['Failures']:,}): left out; [[fault]] can say them."
            )
        return trace.sort()
