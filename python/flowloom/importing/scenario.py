"""Puts what files give together, and writes the scenario."""

from __future__ import annotations

import dataclasses
import hashlib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flowloom import outputs, storage, toml, transports
from flowloom._native import ScenarioError
from flowloom.importing import joining
from flowloom.importing.parts import (
    HOSTS_MAX,
    Coflows,
    Fabric,
    Link,
    Network,
    Part,
    Sizes,
    Topology,
    Trace,
    Workload,
    duration,
    rate,
    size,
)
from flowloom.importing.source import Source, is_whole
from flowloom.scenario import Scenario
from flowloom.words import listed, printable, shown

_SCENARIO = "scenario.toml"
_RATE_BPS, _RACK_RATE_BPS, _DELAY_PS = 100 * 10**9, 10**9, 10**6
"""What links have where no file says it. Coflows are those of racks of a slower time."""
_HOSTS = 16
_WORKLOAD = {"kind": "poisson", "sizes": "web_search", "load": 0.5, "flows": 1000}
"""The workload where no file has flows."""
_FAULTS_MAX = 1000
_LONG_BYTES = 10**11
"""With more bytes than this, a run takes minutes or more."""


class Read(NamedTuple):
    """What a file gives."""

    source: Source
    part: Topology | Workload

    @property
    def name(self) -> str:
        return shown(self.source.name)


@dataclasses.dataclass
class _Random:
    """Random flows, where no file has flows."""

    section: str = "workload"
    notes: list[str] = dataclasses.field(default_factory=list)

    def table(self) -> Mapping[str, Any]:
        return _WORKLOAD

    def files(self) -> Mapping[str, Iterator[str]]:
        return {}

    def about(self) -> str:
        return "random flows"


class Made(NamedTuple):
    """A scenario that was made from files."""

    path: Path
    about: list[str]
    """A sentence for each file: what it was read as, and what it gives."""
    notes: list[str]
    """A sentence for each thing that the scenario has otherwise than the files, or that they do not say."""


def write(files: Sequence[Read], out: Path, key: str, command: str, *, force: bool) -> Made:
    """Write a scenario, and the files that it names.

    Args:
        files: What there is to import.
        out: The folder to write. It may have an earlier import of the same files.
        key: Identifies the content of the files.
        command: The command of the import, for the scenario's first line.
        force: Replace an import of other files, and one whose scenario was changed.

    Raises:
        ScenarioError: The files do not fit together, the simulator cannot run them, or the folder may not be replaced.
    """
    about = [f"{read.name}: {read.part.about()}, {read.source.reading}." for read in files]
    notes = [f"{read.name}: {note}" for read in files for note in read.part.notes]
    topology, workload = _halves(files, notes)
    with outputs.claim(out, outputs.IMPORT, key, force=force) as output:
        if not force:
            _check_unchanged(output)
        marker = {"command": command}
        with output.replace(marker) as folder:
            parts: tuple[Part, Part] = (topology, workload)
            for part in parts:
                for name, lines in part.files().items():
                    storage.write_lines(folder / name, lines)
            tables = _tables(topology, workload, notes)
            text = _comments(command, about, notes) + tables
            _check(text, folder, files)
            storage.write_text(folder / _SCENARIO, text)
            marker["scenario"] = _digest(text)
    return Made(out / _SCENARIO, about, notes)


def _halves(files: Sequence[Read], notes: list[str]) -> tuple[Topology, Workload | _Random]:
    """Return the network and the flows. Where no file gives one of them, it is a usual one, with a note."""
    found: dict[str, Read] = {}
    for read in files:
        if (other := found.get(read.part.section)) is not None:
            what = "a network" if read.part.section == "topology" else "flows or their sizes"
            raise ScenarioError(
                f"{other.name} and {read.name} both give {what}, and a scenario has one of each: {other.name} is "
                f"{other.source.reading}, and {read.name} is {read.source.reading}"
            )
        found[read.part.section] = read
    topology = next((read.part for read in files if isinstance(read.part, Network | Fabric)), None)
    workload = next((read.part for read in files if isinstance(read.part, Trace | Coflows | Sizes)), None)
    if topology is None:
        topology = _usual_network(found["workload"])
        notes += topology.notes
    if workload is None:
        notes.append("No file has flows: [workload] has random ones, which load the links of hosts to a half.")
        return topology, _Random()
    if isinstance(workload, Trace):
        missing = workload.place(topology.known)
        if missing is not None:
            name = found["workload"].name
            of = found["topology"].name if "topology" in found else "it"
            hosts = f"the hosts of {of} are {_few(topology)}"
            if ids := topology.several.get(missing):
                hosts = f"{len(ids)} hosts of {of} have this name; give their ids, {listed([shown(each) for each in ids], 4)}"
            raise ScenarioError(f'{name}: a flow ends or begins at "{shown(missing)}", but {hosts}')
    if isinstance(workload, Trace | Coflows) and workload.bytes > _LONG_BYTES:
        notes.append(f"The flows have {size(workload.bytes)}, so a run may take long; run.time_limit ends it earlier.")
    return topology, workload


def _few(topology: Topology) -> str:
    first = {number: name for name, number in reversed(topology.known.items())}
    hosts = [first[number] for number in sorted(first)]
    return ", ".join(map(shown, hosts)) if len(hosts) <= 4 else f"{shown(hosts[0])}, {shown(hosts[1])} … {shown(hosts[-1])}"


def _usual_network(read: Read) -> Topology:
    """Return a switch with as many hosts as the flows of a file need."""
    workload, bps, names = read.part, _RATE_BPS, None
    hosts = _HOSTS
    if isinstance(workload, Coflows):
        hosts, bps = workload.racks, _RACK_RATE_BPS
    if isinstance(workload, Trace):
        numbers = all(is_whole(name) and len(name) < 6 and str(int(name)) == name for name in workload.names)
        if workload.hosts is not None or numbers:
            hosts = workload.hosts or 1 + max(map(int, workload.names))
            if hosts > HOSTS_MAX:
                raise read.source.wrong(None, f"there is a host {hosts - 1:,}; the simulator has at most {HOSTS_MAX:,} hosts")
        else:
            names = list(workload.names)
            hosts = len(names)
    note = (
        f"No file says the network: all hosts are on one switch, with links of {rate(bps)} and a delay of "
        f"{duration(_DELAY_PS)}. Change [topology], or import a file with the network, too."
    )
    if names is None:
        kind = {"kind": "single_switch", "hosts": hosts, "host_rate": rate(bps), "delay": duration(_DELAY_PS)}
        return Fabric(kind, hosts, hosts, [note])
    nodes = [*(joining.Node(name, name, host=True) for name in names), joining.Node("", "switch", host=False)]
    made = joining.network(read.source, nodes, [Link(at, hosts, bps, _DELAY_PS) for at in range(hosts)])
    made.notes.append(note)
    return made


def _tables(topology: Topology, workload: Workload | _Random, notes: list[str]) -> str:
    # Without a word about the transport, the simulator's first one is as good as any.
    transport = next(iter(transports.transports()))
    halves = {"topology": topology.table(), "workload": workload.table()}
    tables = toml.document({**halves, "transport": {"name": transport}})
    notes.append(
        "No file says the memory of switches: a port has what the transport needs. Set fabric.buffer to what was used."
    )
    notes.append(f"No file says the transport: it is {transport}. `flowloom list transports` names all.")
    faults = topology.faults()
    if len(faults) > _FAULTS_MAX:
        notes.append(f"Error rates of {len(faults) // 2:,} links: left out, since {len(faults):,} faults would be too many.")
        return tables
    return tables + "".join("\n[[fault]]\n" + "".join(f"{k} = {toml.value(v)}\n" for k, v in fault.items()) for fault in faults)


def _comments(command: str, about: Sequence[str], notes: Sequence[str]) -> str:
    lines = [f"Made by `{command}`.", *about, "", "What the scenario has otherwise than the files, or what they do not say:"]
    lines += [f"* {note}" for note in notes]
    wrapped = [part for line in lines for part in _wrapped(line)]
    return "".join(f"# {line}".rstrip() + "\n" for line in wrapped) + "\n"


def _wrapped(line: str) -> list[str]:
    later = "  " if line.startswith("* ") else ""
    return textwrap.wrap(printable(line, keep=""), 110, subsequent_indent=later, break_on_hyphens=False) or [""]


def _check(text: str, folder: Path, files: Sequence[Read]) -> None:
    """Raise ScenarioError if the simulator cannot run the scenario."""
    try:
        Scenario(text, str(folder / _SCENARIO)).plan()
    except ScenarioError as error:
        # The lines after the first one show a file that will not exist.
        why = str(error).replace(f"{folder}/", "").partition("\n")[0]
        names = " and ".join(read.name for read in files)
        raise ScenarioError(f"the simulator cannot run what is in {names}: {why}") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _check_unchanged(output: outputs.Output) -> None:
    """Raise ScenarioError if the scenario that is to be replaced was changed since it was made."""
    marker, path = output.marker(), output.path / _SCENARIO
    if marker is None or not path.is_file():
        return
    if hashlib.sha256(path.read_bytes()).hexdigest() != marker.get("scenario"):
        raise outputs.refusal(output.shown, f"its {_SCENARIO} was changed", "give another directory, or --force to replace it")
