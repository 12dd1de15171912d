"""Topology and flow files of the HPCC authors' ns-3, and of the simulators that descend from it.

A topology begins with a line of counts: nodes, switches and links; some descendants also give the number of
top-of-rack switches before the last, and rates after it. The next line has the numbers of the switches, and then
there is a line for each link: both ends, the rate, the delay, and the probability that a packet is lost. A flow file
begins with the number of flows. Then there is a line for each: source, destination, priority group, destination port,
bytes, and the start in seconds. What follows in either file is not read.
(`alibaba-edu/High-Precision-Congestion-Control`: the last lines of mix/topology.txt and mix/flow.txt.)
"""

from __future__ import annotations

from collections.abc import Iterator

from flowloom.importing import joining, units
from flowloom.importing.parts import BYTES_MAX, FLOWS_MAX, HOSTS_MAX, LINKS_MAX, Link, Network, Trace
from flowloom.importing.source import Source, is_number, is_whole
from flowloom.words import shown

_NODES_MAX = 10 * HOSTS_MAX
"""The most nodes that are read, of which most must then be switches."""


def topology_reason(source: Source) -> str | None:
    """Say why a file is a topology; None if it is none."""
    words = [line.split() for line in source.head[:3]]
    if len(words) < 2 or len(words[0]) < 3 or not all(is_whole(word) for word in words[0][:3]):
        return None
    for line in words[1:]:
        if len(line) == 5 and is_whole(line[0]) and is_whole(line[1]) and line[3][-1] == "s" and line[3][:1].isdigit():
            return f'line 1 is "{shown(source.head[0])}" and a link with a rate and a delay follows'
    return None


def topology(source: Source) -> Network:
    """Read a topology."""
    lines = source.lines()
    nodes, switch_count, link_count = _counts(source, lines)
    switches: set[int] = set()
    while len(switches) < switch_count:
        number, words = _next(source, lines, f"the numbers of {switch_count:,} switches")
        for word in words:
            switch = source.whole(number, word, "a switch", 0, nodes - 1)
            if switch in switches:
                raise source.wrong(number, f"switch {switch} appears twice among the {switch_count:,} switches of line 1")
            switches.add(switch)
        if len(switches) > switch_count:
            raise source.wrong(number, f"line 1 says that there are {switch_count:,} switches, but here are more")
    links = []
    for _ in range(link_count):
        number, words = _next(source, lines, f"a link: line 1 says that there are {link_count:,}")
        links.append(_link(source, number, words, nodes))
    rest = sum(1 for _, line in lines if _is_link(line.split()))
    found = joining.network(source, [_node(at, at in switches) for at in range(nodes)], links)
    if rest:
        found.notes.append(f"Line 1 says that there are {link_count:,} links: the {rest:,} after them are left out.")
    return found


def _counts(source: Source, lines: Iterator[tuple[int, str]]) -> tuple[int, int, int]:
    number, words = _next(source, lines, "the numbers of nodes, switches and links")
    if len(words) < 3:
        raise source.wrong(number, "it has the numbers of nodes, switches and links")
    nodes = source.whole(number, words[0], "the number of nodes", 2, _NODES_MAX)
    switches = source.whole(number, words[1], "the number of switches", 0, nodes)
    links = source.whole(number, words[3 if len(words) > 3 else 2], "the number of links", 1, LINKS_MAX)
    return nodes, switches, links


def _next(source: Source, lines: Iterator[tuple[int, str]], what: str) -> tuple[int, list[str]]:
    number, line = next(lines, (0, ""))
    if not number:
        raise source.wrong(None, f"the file ends where it should have {what}")
    return number, line.split()


def _node(at: int, switch: bool) -> joining.Node:
    return joining.Node(str(at), f"{'s' if switch else 'h'}{at}", not switch)


def _is_link(words: list[str]) -> bool:
    return len(words) >= 4 and is_whole(words[0]) and is_whole(words[1])


def _link(source: Source, number: int, words: list[str], nodes: int) -> Link:
    if not 4 <= len(words) <= 5:
        raise source.wrong(number, f"a link has both ends, a rate, a delay and an error rate, but here are {len(words)} words")
    a, b = (source.whole(number, word, "an end of the link", 0, nodes - 1) for word in words[:2])
    rate, delay = units.rate_bps(words[2]), units.delay_ps(words[3])
    if rate is None:
        raise source.wrong(number, f'the rate is "{shown(words[2])}"; it is something like 100Gbps')
    if delay is None:
        raise source.wrong(number, f'the delay is "{shown(words[3])}"; it is something like 1000ns or 0.001ms')
    loss = float(source.number(number, words[4], "the error rate", 0, 1)) if len(words) > 4 else 0.0
    return Link(a, b, rate, delay, loss)


def flows_reason(source: Source) -> str | None:
    """Say why a file has flows; None if it has none."""
    if len(source.head) < 2 or not is_whole(source.head[0]):
        return None
    if not _is_flow(source.head[1].split()):
        return None
    return f'line 1 is "{shown(source.head[0])}" and a flow of six numbers follows'


def flows(source: Source) -> Trace:
    """Read flows."""
    lines = source.lines()
    number, words = _next(source, lines, "the number of flows")
    count = source.whole(number, words[0], "the number of flows", 1, FLOWS_MAX)
    found = Trace(source)
    for _ in range(count):
        number, words = _next(source, lines, f"a flow: line 1 says that there are {count:,}")
        if len(words) != 6:
            what = "source, destination, priority group, port, bytes and start"
            raise source.wrong(number, f"a flow has {what}, but here are {len(words)} words")
        src, dst = (str(source.whole(number, word, "a host")) for word in words[:2])
        size = source.whole(number, words[4], "the number of bytes", 0, BYTES_MAX)
        found.add(number, source.number(number, words[5], "the start in seconds"), src, dst, size)
    found.notes.append("Priority groups and ports of flows: left out. The transport chooses the classes of packets.")
    if rest := sum(1 for _, line in lines if _is_flow(line.split())):
        found.notes.append(f"Line 1 says that there are {count:,} flows: the {rest:,} after them are left out.")
    return found.sort()


def _is_flow(words: list[str]) -> bool:
    return len(words) == 6 and all(map(is_number, words))
