"""Runs a scenario on a testbed: a process of `flowloom-node` on each host, and one for each control endpoint."""

from __future__ import annotations

import contextlib
import functools
import platform
import re
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx

from flowloom import axes, toml, transports
from flowloom._native import RunError, ScenarioError
from flowloom.deploy.plan import plan_of, rate
from flowloom.engine import simulate
from flowloom.progress import Reporter
from flowloom.results import Results
from flowloom.scenario import Scenario
from flowloom.tagging import command
from flowloom.testbed import network as networks
from flowloom.testbed import results
from flowloom.testbed.network import Network, Node
from flowloom.words import shown

_WORLDS = ("simulated", "testbed")
PROFILES = ("loopback", "batched")
_PORT = 7000
_START_S = 2.0
"""How long processes have to start and to greet each other, and as much again for each eight hosts."""
_AFTER_S = 30.0
"""How long after the start of the last flow all must have ended, unless the scenario has a time limit."""
_POLL_S = 0.1
_END_S = 20.0


def scenarios(scenario: Scenario, names: Sequence[str]) -> dict[str, Scenario]:
    """Return a scenario with each of these transports, by their names; without any, that of the scenario.

    Raises:
        ScenarioError: One of them is not valid.
    """
    return {plan_of(one).transport: one for one in [scenario.set({"transport.name": name}) for name in names] or [scenario]}


def keys(scenario: Scenario) -> dict[str, str]:
    """Return the keys of the results of a scenario, by the world.

    Raises:
        ScenarioError: It is not valid.
    """
    plan = scenario.plan()
    return dict(zip(_WORLDS, (plan.key, results.key_of(plan)), strict=True))


def compare(under: Mapping[str, Scenario], profile: str, reporter: Reporter) -> Iterator[tuple[tuple[str, str], Results]]:
    """Run a scenario in the simulator and on a testbed.

    Args:
        under: The scenario with each transport (`scenarios`).
        profile: See `run`.
        reporter: Is told of the progress.

    Yields:
        The transport's name and the world, `simulated` or `testbed`, and the result there.

    Raises:
        ScenarioError: As `run`.
        RunError: As `run`, or the simulation failed.
    """
    for one in under.values():
        _until(one, results.planned(one))  # what is no scenario for a testbed is named before anything is simulated
        networks.deployment(one)
    for name, one in under.items():
        simulated, testbed = ((name, world) for world in _WORLDS)
        reporter.begin(1, kept=0)
        found = simulate(one, functools.partial(reporter.progress, name, title(*simulated)))
        reporter.finished(name, title(*simulated))
        yield simulated, found
        yield testbed, run(one, profile, reporter)


def title(transport: str, world: str) -> str:
    """Return the name of a result for people."""
    return f"{transports.transport(transport).label}, {world}"


def run(scenario: Scenario, profile: str, reporter: Reporter) -> Results:
    """Run a scenario on a testbed, which is removed afterwards.

    Args:
        scenario: The scenario. Its network must fit on this machine, and its flows must not wait for others.
        profile: How `flowloom-node` keeps time: one of `PROFILES`.
        reporter: Is told of the progress.

    Raises:
        ScenarioError: The scenario is not valid, or not one for a testbed.
        RunError: This machine cannot have a testbed, or a process failed.
    """
    if profile not in PROFILES:
        raise ScenarioError(f"a profile {shown(profile)} does not exist; there are {' and '.join(PROFILES)}")
    began = time.monotonic()
    node = command.path(command.NODE)
    flows = results.planned(scenario)
    until = _until(scenario, flows)
    with Network(scenario) as network, tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        work = Path(folder)
        (work / "cluster.toml").write_text(toml.document(cluster(network)))
        names = [host.name for host in network.view.hosts]
        # A host may have any name, also one that is no name of a file.
        ends = [work / f"{number}.records" for number in range(len(names))]
        for file, text in zip(ends, results.lists(flows, names), strict=True):
            file.with_suffix(".flows").write_text(text)
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(1e9 * _START_S * (1 + len(names) / 8))
        common = [node, "--cluster", str(work / "cluster.toml"), *settings(network)]
        common += ["--profile", profile, "--start-at", str(start)]
        before = {(one.switch, one.to): one for one in network.view.counters()}
        with contextlib.ExitStack() as stack:
            started = {}
            for me, place in _places(network):
                log = work / f"{network.view.nodes.index(place)}.log"
                words = [*common, f"--me={me}", *_words(log, until)]
                started[log] = stack.enter_context(_process(place, words, log))
            name = title(network.plan.transport, _WORLDS[1])
            reporter.begin(1, kept=0)
            for ended, now in _ended_flows(ends, len(flows), started, start + until):
                reporter.progress(name, name, ended / len(flows), max(now - start, 0) / 1e9, 0)
            for one in started.values():
                _end(one)
            reporter.finished(name, name)
        after = network.view.counters()
        marks = sum(one.marked - before[one.switch, one.to].marked for one in after)
        drops = sum(one.dropped - before[one.switch, one.to].dropped for one in after)
        hosts = {"kernel": platform.release(), "marks": network.view.marks, "profile": profile}
        records = results.read(ends)
        is_open = any(record["event"] == "open" for record in records)
        return results.result(
            scenario,
            records,
            wall_s=time.monotonic() - began,
            hosts=hosts,
            end_ns=until if is_open else 0,
            marks=marks,
            drops=drops,
            findings=_findings(network, is_open),
        )


def _until(scenario: Scenario, flows: Sequence[Mapping[str, Any]]) -> int:
    """Return when a run of these flows is over although some are open, in nanoseconds after the common start.

    Raises:
        ScenarioError: Some flows start after the time limit.
    """
    last = max(flow["start_ns"] for flow in flows)
    limit = axes.quantity(tomllib.loads(scenario.resolve())["run"].get("time_limit"))
    limit_ns = limit.into("ns") if limit else None
    if limit_ns is None:
        return int(last + 1e9 * _AFTER_S)
    until = round(limit_ns)
    if last >= until:
        raise ScenarioError(
            f"run.time_limit: the last flow starts after {last / 1e6:g} ms, and a testbed does not end before that; "
            "raise or remove it, or let fewer flows start"
        )
    return until


def _findings(network: Network, is_open: bool) -> list[dict[str, str]]:
    """Return what makes the numbers of a run on this network misleading."""
    found = [
        {"flag": "missing in ports", "text": f"ports of the Linux kernel lack what {network.plan.name} needs: {need.what}"}
        for need in network.deployment.impossible
    ]
    if is_open and "time_limit" not in network.plan.scenario["run"]:
        text = f"the testbed ended {_AFTER_S:g} s after the start of the last flow, and flows were open"
        found.append({"flag": "time is up", "text": text})
    return found


def cluster(network: Network) -> dict[str, Any]:
    """Return the network as a cluster file describes it: each host with its switch, and each switch with those above it."""
    plan, view = network.plan, network.view
    links = {(switch, to): {"rate": rate(port.rate_bps), "delay": f"{port.delay_ps}ps"} for switch, port, to in plan.ports()}
    graph = networkx.Graph(list(links))
    hosts = [host.name for host in view.hosts]
    level = networkx.multi_source_dijkstra_path_length(graph, set(hosts), weight=lambda *_: 1)
    control = _control(network)
    entries = []
    for host in view.hosts:
        if host is not control:
            at = host.cables[0].to
            entries.append({"name": host.name, "address": f"{host.address}:{_PORT}", "switch": at, **links[at, host.name]})
    order = {node.name: (level[node.name], number) for number, node in enumerate(view.switches)}
    switches = []
    for node in view.switches:
        above = [cable.to for cable in node.cables if cable.to in order and order[cable.to] > order[node.name]]
        entry: dict[str, Any] = {"name": node.name, "above": above}
        if plan.placement == "switches":
            entry["address"] = f"{node.address}:{_PORT}"
        kinds = [links[node.name, to] for to in above]
        if kinds and any(kind != kinds[0] for kind in kinds):
            raise ScenarioError(
                f"the links of {node.name} to the switches above differ, which a cluster of hosts does not know"
            )
        switches.append(entry | (kinds[0] if kinds else {}))
    found: dict[str, Any] = {"host": entries, "switch": switches}
    return found | ({"controller": {"address": f"{control.address}:{_PORT}"}} if control else {})


def _control(network: Network) -> Node | None:
    """Return the extra host that has a control endpoint, if there is one: the last."""
    return network.view.hosts[-1] if network.plan.placement == "extra_host" else None


def _places(network: Network) -> Iterator[tuple[str, Node]]:
    """Yield the nodes that run a process, each with its name in the cluster: control endpoints first."""
    control = _control(network)
    if control is not None:
        yield "controller", control
    if network.plan.placement == "switches":
        yield from ((node.name, node) for node in network.view.switches)
    yield from ((host.name, host) for host in network.view.hosts if host is not control)


def _words(log: Path, until: int) -> list[str]:
    flows, records = (log.with_suffix(suffix) for suffix in (".flows", ".records"))
    if not flows.exists():
        return []
    return ["--flows", str(flows), "--records", str(records), "--discard", "--until", str(until)]


def settings(network: Network) -> list[str]:
    """Return the options of `flowloom-node` that follow from the network, and are the same for all its processes."""
    plan = network.plan
    line_rate = rate(min(nic.rate_bps for nic in plan.nics))
    return ["--transport", plan.transport, "--config", config(network), "--line-rate", line_rate, "--mtu", f"{plan.wire.mtu}B"]


def config(network: Network) -> str:
    """Return the transport's parameters, as they are in a run of the simulator."""
    return toml.document({key: value for key, value in network.plan.parameters.items() if value is not None})


@contextlib.contextmanager
def _process(node: Node, words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process on a node. It is killed if it has not ended with the block."""
    with node.space.start(*words, log=log) as process:
        try:
            yield process
        finally:
            process.kill()


def _ended_flows(
    records: Sequence[Path], flows: int, started: Mapping[Path, subprocess.Popen[str]], until: int
) -> Iterator[tuple[int, int]]:
    """Yield how many flows have ended, and the time, until all have ended or time is up.

    Raises:
        RunError: A process failed.
    """
    ended, now = 0, 0
    while ended < flows and now <= until:
        time.sleep(_POLL_S)
        log, gone = next(((log, one) for log, one in started.items() if one.poll() is not None), (None, None))
        ended, now = sum(map(_ended, records)), time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        # No process ends before it is told to or time is up, and then with 0 or 1.
        if log and gone and (now <= until or gone.returncode not in (0, 1)):
            raise RunError(f"a process of the testbed ended with {gone.returncode}: {_last_words(log)}")
        yield ended, now


_AN_END = re.compile(rb'"event": ?"(?:acknowledged|aborted|open)"')


def _ended(records: Path) -> int:
    """Return how many flows of a sender have ended."""
    try:
        return len(_AN_END.findall(records.read_bytes()))
    except FileNotFoundError:
        return 0  # the process is starting


def _last_words(log: Path) -> str:
    return shown(log.read_text(errors="replace")[-600:].strip(), 600)


def _end(process: subprocess.Popen[str]) -> None:
    """Let a process end by itself."""
    if process.stdin:
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
