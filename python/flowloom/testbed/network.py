"""A scenario's network on this machine: hosts and switches are network namespaces, and links are pairs of virtual devices.

A switch forwards IPv4 packets, and its ports have the queues that `flowloom deploy --for linux` prints for the scenario. Where
the kernel lacks RED, `flowloom-port` of crates/tagger marks packets in its place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import networkx

from flowloom import deploy
from flowloom._native import RunError, ScenarioError
from flowloom.deploy import Deployment, linux
from flowloom.deploy.plan import Member, Plan, Port, Switch, file_name
from flowloom.scenario import Scenario
from flowloom.tagging import command
from flowloom.testbed import namespaces
from flowloom.testbed.namespaces import Namespace, Space
from flowloom.words import listed, shown, suggestion

NODES_MAX = 64
"""The most hosts and switches of a testbed."""
_BASE = ipaddress.IPv4Address("10.77.0.0")
_SETTINGS = ["net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1", "net.ipv4.conf.all.send_redirects=0"]
"""What makes a namespace a switch. Flows choose among paths by a hash of addresses and ports."""
_NOTHING, _RED = "nothing", "RED"
_TAGGERS = Path("/sys/fs/bpf/flowloom")
"""Each tagger has a folder here, which is named by the numbers of its network namespace and its device."""
_UNCUT = ["tx", "tso", "gso", "gro", "tx-udp-segmentation"]
"""What hosts must not leave to the network: a burst would be one packet for a switch, and packets would have no checksums."""


@dataclasses.dataclass(frozen=True)
class Cable:
    """One direction of a link: the device of a node, and the node and the device that it leads to."""

    device: str
    to: str
    to_device: str


@dataclasses.dataclass(frozen=True)
class Node:
    """A host or a switch."""

    name: str
    address: str
    space: Space
    cables: tuple[Cable, ...]
    """Those of its devices. A host has one."""

    @property
    def device(self) -> str:
        """Return its first device."""
        return self.cables[0].device


@dataclasses.dataclass(frozen=True)
class View:
    """A network as other processes see it."""

    title: str
    """What it runs, in a few words."""
    hosts: tuple[Node, ...]
    switches: tuple[Node, ...]
    marks: str
    """What marks packets: `RED`, `flowloom-port`, or `nothing`."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes, hosts first."""
        return (*self.hosts, *self.switches)

    def find(self, name: str) -> Node:
        """Return a node.

        Raises:
            ScenarioError: There is none of this name.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        names = [node.name for node in self.nodes]
        raise ScenarioError(f"there is no node {shown(name)} in the testbed: {suggestion(name, names)}")

    def counters(self) -> list[Count]:
        """Return what each port of each switch has done."""
        return [self._count(node, cable) for node in self.switches for cable in node.cables]

    def _count(self, node: Node, cable: Cable) -> Count:
        queues = json.loads(node.space.run("tc", "-s", "-j", "qdisc", "show", "dev", cable.device))
        root = next(queue for queue in queues if queue.get("root"))
        marked = sum(queue.get("marked", 0) for queue in queues)
        if self.marks == command.PORT:
            marked += _marked(node, cable.device)
        return Count(node.name, cable.to, root["packets"], root["bytes"], root["drops"], marked, root["backlog"])


@dataclasses.dataclass(frozen=True)
class Count:
    """What a port of a switch has done."""

    switch: str
    to: str
    """The node that it leads to."""
    packets: int
    bytes: int
    dropped: int
    """Packets that found a full queue."""
    marked: int
    queued_bytes: int
    """What waits now."""


class Network:
    """The network of a scenario. It exists until it is closed, or until the process ends."""

    def __init__(self, scenario: Scenario) -> None:
        """Make the network.

        Raises:
            ScenarioError: The scenario is not valid, or too large for one machine.
            RunError: This machine lacks something, or the kernel refuses.
        """
        self.deployment = deployment(scenario)
        plan = self.plan = self.deployment.plan
        self._spaces: list[Namespace] = []
        try:
            nodes = []
            for number, (name, cables) in enumerate(_cables(plan).items()):
                self._spaces.append(Namespace())
                nodes.append(Node(name, str(_BASE + 1 + number), self._spaces[-1].space, cables))
            self._nodes = {node.name: node for node in nodes}
            self._join()
            for node in nodes:
                self._configure(node)
            marks = {self._set_up_ports(kind, self._nodes[one.name]) for kind in plan.switches for one in kind.members}
            hosts = len(plan.hosts)
            title = f"{plan.name} in {plan.title}"
            self.view = View(title, tuple(nodes[:hosts]), tuple(nodes[hosts:]), max(marks - {_NOTHING}, default=_NOTHING))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Network:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Remove the network."""
        # All before the first namespace goes: the other ends of its links go with it.
        with contextlib.suppress(RunError, OSError):  # the network goes all the same
            for one in self._spaces:
                _detach_taggers(one.space)
        while self._spaces:
            self._spaces.pop().close()

    def _join(self) -> None:
        """Add the links: each once, from the end that comes first."""
        done: set[tuple[str, str]] = set()
        for node in self._nodes.values():
            lines = []
            for cable in node.cables:
                if (node.name, cable.device) in done:
                    continue
                done.add((cable.to, cable.to_device))
                peer = f"peer name {cable.to_device} netns {self._nodes[cable.to].space.path}"
                lines.append(f"link add {cable.device} type veth {peer}")
            if lines:
                node.space.run("ip", "-batch", "-", given="\n".join(lines))

    def _configure(self, node: Node) -> None:
        lines = ["link set lo up", f"address add {node.address}/32 dev lo"]
        lines += [f"link set {cable.device} up mtu {self.plan.wire.mtu}" for cable in node.cables]
        lines += self._routes(node)
        node.space.run("ip", "-batch", "-", given="\n".join(lines))
        if node.name not in self.plan.hosts:
            node.space.run("sysctl", "-qw", *_SETTINGS)
        else:
            node.space.run("ethtool", "-K", node.device, *(word for name in _UNCUT for word in (name, "off")))

    def _routes(self, node: Node) -> Iterator[str]:
        """Yield commands that give the node a route to each other one, over all shortest paths to it."""
        graph = networkx.Graph((one.name, cable.to) for one in self._nodes.values() for cable in one.cables)
        for other in self._nodes.values():
            if other is node:
                continue
            away = networkx.single_source_shortest_path_length(graph, other.name)
            hops = [
                f"via {self._nodes[cable.to].address} dev {cable.device} onlink"
                for cable in node.cables
                if away[cable.to] < away[node.name]
            ]
            ways = hops[0] if len(hops) == 1 else " ".join(f"nexthop {hop}" for hop in hops)
            yield f"route add {other.address}/32 src {node.address} {ways}"

    def _set_up_ports(self, kind: Switch, node: Node) -> str:
        """Configure the ports of a switch; return what marks packets there."""
        wanted = f"{file_name(kind.name)}.sh"
        script = next(file.text for file in self.deployment.files if file.name == wanted)
        marking = [(cable, port.profile) for cable, port in zip(node.cables, kind.ports, strict=True) if port.profile.marks]
        if not marking or not self.plan.host.ecn:
            node.space.run("bash", "-s", "--", "up", given=script)
            return _NOTHING
        red = _has_red(node)
        node.space.run("bash", "-s", "--", "up", given=script, environment={"MARKS": "yes" if red else "no"})
        if red:
            return _RED
        for cable, profile in marking:
            if profile.marks is not None and profile.marks.is_random:
                raise ScenarioError(
                    f"mark_all_above: {command.PORT}, which marks because the kernel lacks RED, has one threshold; "
                    "leave it out, or use a kernel with sch_red"
                )
            node.space.run(command.path(command.PORT), "attach", cable.device, *_marks(profile))
        return command.PORT


def deployment(scenario: Scenario) -> Deployment:
    """Return what a scenario means for the hosts and switches of a testbed. Nothing is set up.

    Raises:
        ScenarioError: The scenario is not valid, or not one for a testbed.
        RunError: This machine lacks something.
    """
    if why := namespaces.lacking():
        raise RunError(f"there is no testbed here: {why}")
    found = deploy.deploy(scenario, linux.NAME, for_datagrams=True)
    _check(found.plan)
    return found


def _check(plan: Plan) -> None:
    count = len(plan.hosts) + sum(switch.count for switch in plan.switches)
    if count > NODES_MAX:
        raise ScenarioError(
            f"the scenario has {count} hosts and switches, and a testbed on one machine has at most {NODES_MAX}; "
            "take a smaller one, such as examples/testbed/port.toml"
        )
    if plan.pfc:
        raise ScenarioError("fabric.pfc: queues of the Linux kernel pause nobody, so a testbed has no flow control")
    if faults := plan.scenario.get("fault"):
        kinds = listed(sorted({fault["kind"] for fault in faults}))
        raise ScenarioError(f"fault: nothing goes wrong in a testbed on purpose ({kinds}); leave faults out, or --set fault=[]")


def _detach_taggers(space: Space) -> None:
    """Detach the taggers that users have attached (`flowloom pias`). A file system keeps them when their devices go."""
    tagged = [int(folder.name.partition("-")[2]) for folder in _TAGGERS.glob(f"{Path(space.path).stat().st_ino}-*")]
    if not tagged:
        return
    for link in json.loads(space.run("ip", "-j", "link")):
        if link["ifindex"] in tagged:
            space.run(command.path(command.TAG), "detach", link["ifname"])


def _cables(plan: Plan) -> dict[str, tuple[Cable, ...]]:
    """Return the devices of all nodes, hosts first.

    Among parallel links, the k-th port of one end leads to the k-th of the other.
    """
    ports: dict[str, list[tuple[str, str]]] = {name: [] for name in plan.hosts}
    for member in _members(plan):
        ports[member.name] = [(f"swp{number}", to) for number, to in enumerate(member.neighbours, 1)]
        for to in member.neighbours:
            if to in plan.hosts:
                ports[to].append((f"eth{len(ports[to])}", member.name))
    cables: dict[str, tuple[Cable, ...]] = {}
    for name, devices in ports.items():
        seen: dict[str, int] = {}
        made = []
        for device, to in devices:
            back = [other for other, home in ports[to] if home == name]
            made.append(Cable(device, to, back[seen.get(to, 0)]))
            seen[to] = seen.get(to, 0) + 1
        cables[name] = tuple(made)
    return cables


def _members(plan: Plan) -> list[Member]:
    return [member for switch in plan.switches for member in switch.members]


def _has_red(node: Node) -> bool:
    """Return whether the kernel has RED: whether a device takes it."""
    red = "red limit 100000 min 10000 max 10000 avpkt 1000 burst 10 bandwidth 100mbit ecn nodrop"
    try:
        node.space.run("tc", "qdisc", "add", "dev", node.device, "root", *red.split())
    except RunError:
        return False
    node.space.run("tc", "qdisc", "del", "dev", node.device, "root")
    return True


def _marks(profile: Port) -> list[str]:
    if profile.marks is None:
        raise ValueError("the port marks")
    by = ["--by", "queue"] if profile.marks.by_queue and len(profile.queues) > 1 else []
    return ["--above", f"{profile.marks.begins}B", "--queues", str(len(profile.queues)), *by]


def _marked(node: Node, device: str) -> int:
    status = json.loads(node.space.run(command.path(command.PORT), "status", device, "--json"))
    return sum(queue["marked"] for queue in status["queues"])
