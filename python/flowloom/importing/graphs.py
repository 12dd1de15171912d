"""GraphML and GML, such as the files of the Internet Topology Zoo.

The rate of a link is `LinkSpeedRaw`, or `LinkSpeed` with `LinkSpeedUnits`, or what `LinkType` or `LinkLabel` says
(`OC-192`, `10 Gbps`). Other tools' `bandwidth`, `capacity`, `rate` and `speed` count if they have a unit. The delay
is `delay` or `latency` if it has a unit, or follows from `Latitude` and `Longitude` of both ends: the great circle at
two thirds of the speed of light. Nodes are hosts if their `type`, `kind`, `role`, `node_type` or `device` says so.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from flowloom.importing import joining, units
from flowloom.importing.matrices import DELAY_PS, RATE_BPS
from flowloom.importing.parts import Link, Network, duration, rate
from flowloom.importing.source import Source
from flowloom.words import shown

_EARTH_KM = 6371.0
_OC1_BPS = 51_840_000
"""The rate of OC-1; OC-n has n times as much."""
_RATES, _DELAYS = ("bandwidth", "capacity", "rate", "speed"), ("delay", "latency")
_KINDS = ("type", "kind", "role", "node_type", "device")
_HOSTS = ("host", "server", "endhost", "end host", "end-host", "client", "compute")
_GML = re.compile(r"^\s*graph\s*(\[|$)")


def graphml_reason(source: Source) -> str | None:
    """Say why a file is GraphML; None if it is not."""
    if source.head and source.head[0].startswith("<") and any("<graphml" in line for line in source.head):
        return "it has the element <graphml>"
    return None


def gml_reason(source: Source) -> str | None:
    """Say why a file is GML; None if it is not."""
    return "it has a line that begins with `graph [`" if any(map(_GML.match, source.head[:200])) else None


def graphml(source: Source) -> Network:
    """Read GraphML."""
    import networkx as nx

    return _network(source, _parsed(source, lambda text: nx.parse_graphml(text, node_type=str)))


def gml(source: Source) -> Network:
    """Read GML."""
    import networkx as nx

    def parse(text: str) -> Any:
        # Files of the Topology Zoo have parallel links without saying so.
        several = re.sub(r"^\s*multigraph\s+\d+\s*$", "", text, flags=re.M)
        return nx.parse_gml(re.sub(r"\bgraph\s*\[", "graph [ multigraph 1 ", several, count=1), label="id")

    return _network(source, _parsed(source, parse))


def _parsed(source: Source, parse: Any) -> Any:
    text = source.text()
    try:
        return parse(text)
    # The parsers end in exceptions of many types where a file is broken.
    except Exception as error:
        raise source.wrong(None, f"the graph cannot be read: {shown(error, 200) or type(error).__name__}") from error


def _network(source: Source, graph: Any) -> Network:
    names = list(graph.nodes)
    number = {name: at for at, name in enumerate(names)}
    hosts = [_is_host(graph.nodes[name]) for name in names]
    labels = [str(graph.nodes[name].get("label", "") or name) for name in names]
    nodes = [joining.Node(str(name), label, host) for name, label, host in zip(names, labels, hosts, strict=True)]
    edges = [(number[a], number[b], data) for a, b, data in graph.edges(data=True)]
    found = [(a, b, _rate(data), _delay(data, graph.nodes[names[a]], graph.nodes[names[b]])) for a, b, data in edges]
    if graph.is_directed():
        found = _both_ways(found)
    known = sorted(bps for _, _, bps, _ in found if bps)
    usual = known[len(known) // 2] if known else RATE_BPS
    links = [Link(a, b, bps or usual, DELAY_PS if delay is None else delay) for a, b, bps, delay in found]
    # Where no node is said to be a host, all may be.
    attach = None if any(hosts) else Link(0, 0, 0, DELAY_PS)
    made = joining.network(source, nodes, links, attach)
    made.notes += _unknown(len(found), len(known), usual, sum(delay is None for *_, delay in found))
    return made


_Edge = tuple[int, int, int | None, int | None]


def _both_ways(edges: list[_Edge]) -> list[_Edge]:
    """Return one link for each edge and the edge back, if there is one."""
    count = Counter((a, b) for a, b, *_ in edges)
    # Of two opposite directions, the one with more edges counts; if both have as many, the one that leads to the later node.
    return [edge for edge in edges if (count[edge[:2]], edge[1]) >= (count[edge[1::-1]], edge[0])]


def _unknown(links: int, rates: int, usual: int, delays: int) -> list[str]:
    notes = []
    if rates < links:
        why = "the median of the others" if rates else "a guess"
        notes.append(f"Links whose rate is not known ({links - rates:,} of {links:,}): they have {rate(usual)}, {why}.")
    if delays:
        notes.append(f"Links whose delay is not known ({delays:,} of {links:,}): they have {duration(DELAY_PS)}, a guess.")
    return notes


def _is_host(data: Mapping[str, Any]) -> bool:
    return any(str(data[key]).strip().lower() in _HOSTS for key in _KINDS if key in data)


def _rate(data: Mapping[str, Any]) -> int | None:
    """Return the rate of an edge in bits per second, None if it is not known."""
    if raw := units.rate_bps(str(data.get("LinkSpeedRaw", ""))):
        return raw
    texts = [f"{data.get('LinkSpeed', '')}{data.get('LinkSpeedUnits', '')}bps"] if data.get("LinkSpeedUnits") else []
    texts += [str(data[key]).strip() for key in ("LinkType", "LinkLabel", *_RATES) if key in data]
    for text in texts:
        if optical := re.match(r"OC-?(\d{1,4})", text):
            return int(optical[1]) * _OC1_BPS or None
        # A number without a unit could be anything.
        if text[-1:].isalpha() and (bps := units.rate_bps(text)):
            return bps
    return None


def _delay(data: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> int | None:
    """Return the delay of an edge in picoseconds, None if it is not known."""
    for key in _DELAYS:
        text = str(data.get(key, "")).strip()
        if text and text[-1].isalpha() and (delay := units.delay_ps(text)) is not None:
            return delay
    places = [_place(node) for node in (a, b)]
    if places[0] is None or places[1] is None:
        return None
    return units.distance_ps(_great_circle_km(places[0], places[1]))


def _place(node: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the latitude and the longitude of a node in radians."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        latitude, longitude = float(node["Latitude"]), float(node["Longitude"])
        if abs(latitude) <= 90 and abs(longitude) <= 360:
            return math.radians(latitude), math.radians(longitude)
    return None


def _great_circle_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the distance of two places on the earth (haversine)."""
    half = math.sin((b[0] - a[0]) / 2) ** 2 + math.cos(a[0]) * math.cos(b[0]) * math.sin((b[1] - a[1]) / 2) ** 2
    return 2 * _EARTH_KM * math.asin(math.sqrt(min(1.0, half)))
