"""Makes a network that the simulator can run from nodes and links as other tools have them.

All hosts are joined, and names have one meaning. What a file has otherwise is changed here, with a sentence for each change.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flowloom.importing.parts import HOSTS_MAX, LINKS_MAX, Link, Network, Switch, count
from flowloom.importing.source import Source, is_whole
from flowloom.words import listed, shown

_LEVELS_MAX = 100
_TAKEN = ("arbiter", "all", "host")
"""Names that have a meaning of their own in scenarios."""


class Node(NamedTuple):
    """A node of a file."""

    id: str
    """What the file's links and flows call it."""
    name: str
    """What the scenario calls it, if no other node has that name."""
    host: bool


def network(source: Source, nodes: Sequence[Node], links: Iterable[Link], attach: Link | None = None) -> Network:
    """Make a network.

    Args:
        source: The file, for errors.
        nodes: All nodes, in the file's order.
        links: Its links, by the numbers of nodes in `nodes`.
        attach: If it is given, the file does not tell hosts from switches: every node becomes a switch with a host of its own,
            which a link of this delay and at least this rate joins to it.

    Raises:
        ScenarioError: There are too many nodes or links, or too few hosts that are joined.
    """
    work = _Work(source, list(nodes), list(links), [])
    if attach is not None:
        work.attach(attach)
    work.check()
    work.drop_loops()
    work.keep_one_component()
    work.note_nics()
    return work.finish()


class _Work:
    """A network in the making."""

    def __init__(self, source: Source, nodes: list[Node], links: list[Link], notes: list[str]) -> None:
        self.source, self.nodes, self.links, self.notes = source, nodes, links, notes

    def attach(self, like: Link) -> None:
        switches = len(self.nodes)
        fastest = [like.rate_bps] * switches
        for link in self.links:
            for end in (link.a, link.b):
                fastest[end] = max(fastest[end], link.rate_bps)
        self.nodes = [
            *(node._replace(name=f"{node.name} switch", id="", host=False) for node in self.nodes),
            *(node._replace(host=True) for node in self.nodes),
        ]
        self.links += [like._replace(a=switches + at, b=at, rate_bps=fastest[at]) for at in range(switches)]
        self.notes.append(
            "The file does not tell hosts from switches: each node is a switch with a host of its own, whose link is as fast "
            "as the fastest link of the node."
        )

    def check(self) -> None:
        for found, most, what in ((sum(n.host for n in self.nodes), HOSTS_MAX, "hosts"), (len(self.links), LINKS_MAX, "links")):
            if found > most:
                raise self.source.wrong(None, f"the network has {found:,} {what}; the simulator has at most {most:,}")

    def drop_loops(self) -> None:
        kept = [link for link in self.links if link.a != link.b]
        if len(kept) < len(self.links):
            self.notes.append(f"{count(len(self.links) - len(kept), 'link')} from a node to itself: left out.")
        self.links = kept

    def keep_one_component(self) -> None:
        component = _components(len(self.nodes), self.links)
        hosts = Counter(part for part, node in zip(component, self.nodes, strict=True) if node.host)
        main, joined = max(hosts.items(), key=lambda entry: (entry[1], -entry[0]), default=(0, 0))
        if joined < 2:
            raise self.source.wrong(None, "no two hosts are joined by links; a network needs two hosts at least")
        kept = [at for at, part in enumerate(component) if part == main]
        if len(kept) < len(self.nodes):
            gone = [shown(self.nodes[at].name) for at, part in enumerate(component) if part != main]
            self.notes.append(f"{count(len(gone), 'node')} that no link joins to the others ({listed(gone, 3)}): left out.")
        # Hosts come first.
        kept.sort(key=lambda at: not self.nodes[at].host)
        number = {at: new for new, at in enumerate(kept)}
        self.nodes = [self.nodes[at] for at in kept]
        self.links = [link._replace(a=number[link.a], b=number[link.b]) for link in self.links if link.a in number]

    def note_nics(self) -> None:
        links = Counter(end for link in self.links for end in (link.a, link.b) if self.nodes[end].host)
        several = sorted(host for host, number in links.items() if number > 1)
        if several:
            names = listed([shown(self.nodes[host].name) for host in several], 3)
            self.notes.append(
                f"{count(len(several), 'host')} with several links ({names}): a host has a NIC for each of its links, "
                "fabric.nics says which of them a flow uses, and no host forwards packets of others."
            )

    def finish(self) -> Network:
        hosts = sum(node.host for node in self.nodes)
        levels = _levels(len(self.nodes), hosts, self.links)
        tiers = max(levels[hosts:], default=0)
        tier = [f"tier{min(level, _LEVELS_MAX)}" if tiers > 1 else "switch" for level in levels]
        names = _names(self.nodes, self.links, {*tier, *_TAKEN})
        switches = [Switch(names[at], min(levels[at], _LEVELS_MAX), tier[at]) for at in range(hosts, len(self.nodes))]
        known = {node.id: at for at, node in enumerate(self.nodes[:hosts])}
        called: dict[str, list[int]] = {}
        for at, node in enumerate(self.nodes[:hosts]):
            called.setdefault(node.name, []).append(at)
        called = {name: ats for name, ats in called.items() if name not in known}
        known |= {name: ats[0] for name, ats in called.items() if len(ats) == 1}
        several = {name: [self.nodes[at].id for at in ats] for name, ats in called.items() if len(ats) > 1}
        renamed = [at for at in range(hosts) if names[at] != self.nodes[at].name]
        if renamed:
            few = [f"{shown(self.nodes[at].name)} is {names[at]}" for at in renamed]
            self.notes.append(f"Names that would have two meanings or no form are changed ({listed(few, 3)}).")
        return Network(names[:hosts], switches, self.links, known, self.notes, several)


def _neighbours(nodes: int, links: Iterable[Link]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(nodes)]
    for link in links:
        found[link.a].append(link.b)
        found[link.b].append(link.a)
    return found


def _components(nodes: int, links: Iterable[Link]) -> list[int]:
    """Return the number of the component of each node."""
    near = _neighbours(nodes, links)
    component = [-1] * nodes
    for start in range(nodes):
        if component[start] < 0:
            component[start] = start
            waiting = deque([start])
            while waiting:
                for other in near[waiting.popleft()]:
                    if component[other] < 0:
                        component[other] = start
                        waiting.append(other)
    return component


def _levels(nodes: int, hosts: int, links: Iterable[Link]) -> list[int]:
    """Return how many links each node is away from the nearest host."""
    near = _neighbours(nodes, links)
    level = [0] * hosts + [-1] * (nodes - hosts)
    waiting = deque(range(hosts))
    while waiting:
        node = waiting.popleft()
        for other in near[node]:
            if level[other] < 0:
                level[other] = level[node] + 1
                waiting.append(other)
    return level


def _names(nodes: Sequence[Node], links: Sequence[Link], taken: set[str]) -> list[str]:
    """Return names of which each has one meaning, alone and with another one and a hyphen between them."""
    names = _unique(nodes, taken, "-")
    ends: dict[str, tuple[int, int]] = {}
    for link in links:
        for pair in ((link.a, link.b), (link.b, link.a)):
            if ends.setdefault("-".join(names[end] for end in pair), pair) != pair:
                return _unique(nodes, taken, "")
    return names


def _unique(nodes: Sequence[Node], taken: set[str], kept: str) -> list[str]:
    """Return names without colons and, unless they are to be kept, without hyphens."""
    used = set(taken)
    names = []
    for at, node in enumerate(nodes):
        plain = (
            "".join(c if c.isprintable() and (c in kept or c not in "-:") else "_" for c in node.name).strip()[:60] or "node"
        )
        if is_whole(plain.removeprefix("+")):
            plain = f"n{plain}"
        name = next(n for n in itertools.chain([plain], (f"{plain}_{k}" for k in itertools.count(at))) if n not in used)
        used.add(name)
        names.append(name)
    return names
