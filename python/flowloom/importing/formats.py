"""Every format that is read: a module that recognises a file by its content and reads it, and an entry in this list."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from flowloom._native import ScenarioError
from flowloom.importing import coflows, goal, graphs, hpcc, htsim, logs, matrices, sizes
from flowloom.importing.parts import Topology, Workload
from flowloom.importing.source import Source
from flowloom.words import shown, suggestion


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of files."""

    name: str
    """What `--as` calls it."""
    about: str
    read: Callable[[Source], Topology | Workload]
    """Raises ScenarioError with the file and the line if the file is broken."""
    reason: Callable[[Source], str | None] = lambda _: None
    """Says why a file has this format, from its first lines; None if it has another one. A format without it must be named."""


def _log(source: Source) -> Workload:
    log = logs.Log.of(source)
    if not log.lacks:
        return log.trace()
    found = sizes.part(source, sizes.FLOWS)
    found.notes += log.unread([log.bytes])
    if len(log.names) > 1:
        lacks = ", ".join(log.lacks)
        found.notes.append(f"The log has no {lacks}: it gives the sizes of flows, whose starts and ends are random.")
    return found


def _matrix(name: str | None) -> Callable[[Source], Topology]:
    return lambda source: matrices.read(source, name)


def _sizes(dialect: str | None) -> Callable[[Source], Workload]:
    return functools.partial(sizes.part, dialect=dialect)


FORMATS = (
    Format("graphml", "GraphML", graphs.graphml, graphs.graphml_reason),
    Format("gml", "GML", graphs.gml, graphs.gml_reason),
    Format("htsim_topo", "a topology of htsim (.topo)", htsim.topology, htsim.topology_reason),
    Format("htsim_cm", "a connection matrix of htsim (.cm), starts in ps", htsim.connections, htsim.connections_reason),
    Format("htsim_cm_us", "a connection matrix of htsim (.cm), starts in us", htsim.connections_us),
    Format("hpcc_topology", "a topology of the HPCC authors' ns-3", hpcc.topology, hpcc.topology_reason),
    Format("hpcc_flows", "flows of the HPCC authors' ns-3", hpcc.flows, hpcc.flows_reason),
    Format("goal", "a schedule in GOAL", goal.read, goal.reason),
    Format("coflows", "a coflow trace of Facebook's format", coflows.read, coflows.reason),
    Format("matrix", "a matrix of nodes", _matrix(None), matrices.reason),
    Format("adjacency", "a matrix of how many links join two nodes", _matrix("adjacency")),
    Format("distances_km", "a matrix of distances in km", _matrix("distances_km")),
    Format("delays_ms", "a matrix of delays in ms", _matrix("delays_ms")),
    Format("delays_us", "a matrix of delays in us", _matrix("delays_us")),
    Format("rates_gbps", "a matrix of rates in Gb/s", _matrix("rates_gbps")),
    Format("sizes", "a table of sizes of flows", _sizes(None), sizes.reason),
    Format("bytes_probability", "a table of bytes and cumulative probability", _sizes("bytes_probability")),
    Format("bytes_percent", "a table of bytes and cumulative percent", _sizes("bytes_percent")),
    Format("packets_probability", "a table of packets of 1460 B and cumulative probability", _sizes("packets_probability")),
    Format("ns2_bytes", "ns-2's table of three columns, sizes in bytes", _sizes("ns2_bytes")),
    Format("ns2_packets", "ns-2's table of three columns, sizes in packets of 1460 B", _sizes("ns2_packets")),
    Format(sizes.HISTOGRAM, "a table of bytes and numbers of flows", _sizes(sizes.HISTOGRAM)),
    Format(sizes.FLOWS, "a log of flows", _log, logs.reason),
)
"""A file has the first of these formats that recognises it."""


def read(source: Source, name: str | None) -> Topology | Workload:
    """Read a file.

    Args:
        source: The file.
        name: The name of its format. Without it, the file's first lines say it.

    Raises:
        ScenarioError: There is no such format, no format recognises the file, or the file is broken.
    """
    names = [entry.name for entry in FORMATS]
    if name is not None:
        found = next((entry for entry in FORMATS if entry.name == name), None)
        if found is None:
            raise ScenarioError(f'--as: there is no format "{shown(name)}": {suggestion(name, names)}')
        source.explicit = True
        source.reading = f"read as {found.about}, as --as says"
        return found.read(source)
    for entry in FORMATS:
        if (why := entry.reason(source)) is not None:
            source.reading = f"read as {entry.about}, because {why}"
            return entry.read(source)
    begins = (
        "it is not UTF-8 text"
        if source.binary
        else f'it begins with "{shown(source.head[0])}"'
        if source.head
        else "it is empty"
    )
    raise source.wrong(None, f"this is no format that is read: {begins}; if it is one, say which with --as: {', '.join(names)}")
