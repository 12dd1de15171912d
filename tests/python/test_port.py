"""`flowloom-port` at a real port: what it marks, and what is left after it is detached."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import namespaces
from namespaces import ADDRESSES, Cable, Packet, inside, ones_sum, run, skip

NOT_ECT, ECT_1, ECT_0, CE = range(4)
FRAME = 1000
"""Bytes of each Ethernet frame that the tests send."""
NOBODY = bytes([2, 0, 0, 0, 0, 99])
"""No host's address, so that nobody answers and nothing else is in the queues."""
_UDP_SEGMENT = 103


@pytest.fixture
def tools(kernel, monkeypatch) -> None:
    """Put the programs that `cargo test` has built on the PATH; skip the test where it cannot run."""
    namespaces.available()
    namespaces.built(monkeypatch, "flowloom-port", "flowloom-tag", "bpftool")


class Port:
    """A cable, and a port at the device `a0` of host `a`.

    Three queues are in strict priority, and hold what comes until `open` is called: each has a byte per second of its own, for
    which it sends one frame at once. All others need what the queues share, and the first frames use that up for 6 seconds.
    """

    def __init__(self) -> None:
        self.cable = Cable()
        self.sent = 0
        # The kernel's own packets would wait in the queues too.
        with inside(self.cable.a):
            Path("/proc/sys/net/ipv6/conf/a0/disable_ipv6").write_text("1")
        script = [
            "qdisc add dev a0 root handle 1: htb default 12",
            "class add dev a0 parent 1: classid 1:1 htb rate 4kbit burst 1",
        ]
        for queue in range(3):
            rates = f"rate 8bit burst 1 ceil 10gbit cburst 1m prio {queue} quantum 1514"
            script.append(f"class add dev a0 parent 1:1 classid 1:{10 + queue} htb {rates}")
            script.append(f"qdisc add dev a0 parent 1:{10 + queue} handle {10 + queue}: bfifo limit 1m")
        for queue, tos in ((0, "0xe0"), (1, "0xc0")):
            for words in (f"ip prio 1 u32 match ip dsfield {tos}", f"ipv6 prio 2 u32 match ip6 priority {tos}"):
                script.append(f"filter add dev a0 parent 1: protocol {words} 0xfc flowid 1:{10 + queue}")
        self.tc(*script)

    def tc(self, *commands: str) -> None:
        """Run commands of tc."""
        text = "\n".join(commands)
        subprocess.run(["tc", "-n", self.cable.a, "-batch", "-"], input=text, check=True, capture_output=True, text=True)

    def port(self, what: str, *options: str) -> str:
        """Run `flowloom-port`."""
        return run("flowloom-port", what, "a0", "--netns", self.cable.a, *options)

    def status(self) -> dict:
        return json.loads(self.port("status", "--json"))

    def send(self, *packets: tuple[int, int, int]) -> None:
        """Send datagrams in frames of 1000 bytes: IP's version, the DSCP and the ECN field of each.

        The n-th goes to port n, so that a capture tells them apart.
        """
        with inside(self.cable.a), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            for version, dscp, ecn in packets:
                kind, frame = datagram(version, dscp << 2 | ecn, self.sent)
                raw.sendto(frame, ("a0", kind))
                self.sent += 1

    def open(self) -> None:
        """Let the port send at 10 Gb/s, and wait until it is empty."""
        self.tc("class change dev a0 parent 1: classid 1:1 htb rate 10gbit burst 1m")
        while self.queues()["1:"]["qlen"]:
            time.sleep(0.01)

    def queues(self) -> dict[str, dict]:
        """Read the kernel's counters of the queues, by handle."""
        found = json.loads(run("tc", "-n", self.cable.a, "-json", "-s", "qdisc", "show", "dev", "a0"))
        return {queue["handle"]: queue for queue in found}


def datagram(version: int, tos: int, port: int) -> tuple[int, bytes]:
    """Return the type and the bytes of a frame with a UDP datagram."""
    size = FRAME - 14 - (20 if version == 4 else 40)
    source, destination = (
        socket.inet_pton(socket.AF_INET if version == 4 else socket.AF_INET6, address) for address in ADDRESSES[version]
    )
    udp = struct.pack(">HHHH", 1, port, size, 0) + bytes(size - 8)
    right = ~ones_sum(source + destination + struct.pack(">II", size, socket.IPPROTO_UDP) + udp) & 0xFFFF
    udp = udp[:6] + struct.pack(">H", right) + udp[8:]
    if version == 4:
        kind = 0x0800
        ip = struct.pack(">BBHHHBBH", 0x45, tos, 20 + size, 0, 0, 64, socket.IPPROTO_UDP, 0) + source + destination
        ip = ip[:10] + struct.pack(">H", ~ones_sum(ip) & 0xFFFF) + ip[12:]
    else:
        kind = 0x86DD
        ip = struct.pack(">IHBB", 6 << 28 | tos << 20 | 0xABCDE, size, socket.IPPROTO_UDP, 64) + source + destination
    return kind, NOBODY + bytes([2, 0, 0, 0, 0, 1]) + struct.pack(">H", kind) + ip + udp


@pytest.fixture
def port(tools) -> Iterator[Port]:
    made = Port()
    yield made
    made.cable.close()


class Sent(NamedTuple):
    """A datagram, and the ECN field that it must leave with, if marks go by the port or by the queue."""

    version: int
    dscp: int
    ecn: int
    by_port: int
    by_queue: int
    queue: int


FIRST = [(4, 56, NOT_ECT), (4, 48, NOT_ECT), (4, 40, NOT_ECT)]
"""One datagram for each queue, which leaves at once."""
BURST = [
    # What waits with the packet, at the port and in its queue: bytes
    Sent(4, 56, ECT_0, ECT_0, ECT_0, 0),  # 1000, 1000
    Sent(6, 48, ECT_0, ECT_0, ECT_0, 1),  # 2000, 1000
    Sent(4, 40, ECT_1, ECT_1, ECT_1, 2),  # 3000, 1000
    Sent(6, 40, ECT_0, ECT_0, ECT_0, 2),  # 4000, 2000: the threshold itself is not above it
    Sent(4, 0, ECT_0, CE, ECT_0, 2),  # 5000, 3000: class 7 is in the last queue
    Sent(6, 46, ECT_1, CE, ECT_1, 2),  # 6000, 4000: so is what is no class
    Sent(4, 8, ECT_0, CE, CE, 2),  # 7000, 5000
    Sent(6, 0, NOT_ECT, NOT_ECT, NOT_ECT, 2),  # 8000, 6000
    Sent(4, 56, ECT_0, CE, ECT_0, 0),  # 9000, 2000
    Sent(6, 56, ECT_1, CE, ECT_1, 0),  # 10,000, 3000
    Sent(4, 56, NOT_ECT, NOT_ECT, NOT_ECT, 0),  # 11,000, 4000
    Sent(6, 56, ECT_0, CE, CE, 0),  # 12,000, 5000
    Sent(4, 48, CE, CE, CE, 1),  # 13,000, 2000: it came marked
    Sent(6, 48, ECT_1, CE, ECT_1, 1),  # 14,000, 3000
    Sent(6, 40, ECT_1, CE, CE, 2),  # 15,000, 7000
    Sent(4, 40, ECT_0, CE, CE, 2),  # 16,000, 8000
]


@pytest.mark.parametrize("by", ["port", "queue"])
def test_exactly_those_are_marked_that_find_more_than_the_threshold(port, by):
    port.port("attach", "--above", "4kB", "--by", by, "--queues", "3")
    with port.cable.captured() as packets:
        port.send(*FIRST, *(each[:3] for each in BURST))
        waiting = port.queues()
        port.open()
    # What the test says of the queues is what the kernel says, which the program has read.
    assert [waiting[handle]["backlog"] for handle in ("1:", "10:", "11:", "12:")] == [16_000, 5000, 3000, 8000]
    assert [p for p in packets if not p.checksums] == []
    numbers = [p.ports[1] - 3 for p in packets[3:]]
    # Strict priority, and in each queue the order in which they came.
    assert numbers == sorted(range(len(BURST)), key=lambda number: BURST[number].queue)
    arrived = sorted(packets[3:], key=lambda p: p.ports[1])
    assert [p.dscp for p in arrived] == [each.dscp for each in BURST]
    assert [p.ecn for p in arrived] == [each.by_port if by == "port" else each.by_queue for each in BURST]
    status = port.status()
    assert (status["above_bytes"], status["by"], status["queueless"]) == (4000, by, 0)
    assert status["queues"] == [counted(queue, packets[:3], arrived) for queue in range(3)]
    assert sum(each["packets"] for each in status["queues"]) == port.queues()["1:"]["packets"]


def counted(queue: int, first: list[Packet], burst: list[Packet]) -> dict[str, int]:
    """What the port must have counted of a queue, from a capture."""
    came = [(p, sent) for p, sent in zip(burst, BURST, strict=True) if sent.queue == queue]
    packets = len(came) + sum(p.dscp == 56 - 8 * queue for p in first)
    return {
        "packets": packets,
        "bytes": FRAME * packets,
        "capable": sum(sent.ecn != NOT_ECT for _, sent in came),
        "marked": sum(p.ecn == CE != sent.ecn for p, sent in came),
    }


def test_a_burst_that_the_device_cuts_up_is_marked_as_a_whole(port):
    cable = port.cable
    cable.without_checksum_offload()
    run("ip", "-n", cable.a, "neighbour", "add", ADDRESSES[4][1], "lladdr", NOBODY.hex(":"), "dev", "a0", "nud", "permanent")
    port.port("attach", "--above", "15kB", "--queues", "3")
    with inside(cable.a):
        via = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    payload = FRAME - 14 - 20 - 8
    via.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 40 << 2 | ECT_0)
    with via, cable.captured() as packets:
        port.send(*FIRST)
        via.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, payload)
        try:
            for number in range(2):
                via.sendto(bytes(10 * payload), (ADDRESSES[4][1], 8000 + number))
        except OSError as error:
            skip(f"this kernel cuts up no datagrams without checksums of the device: {error}")
        assert port.queues()["1:"]["backlog"] == 20_000
        port.open()
    assert [p for p in packets if not p.checksums] == []
    # Packet by packet, only what is behind the first 15 would be marked.
    assert [(p.ports[1], p.ecn) for p in packets[3:]] == [(8000, ECT_0)] * 10 + [(8001, CE)] * 10
    last = port.status()["queues"][2]
    assert last == {"packets": 21, "bytes": 21_000, "capable": 20, "marked": 10}
    assert port.queues()["1:"]["packets"] == 23


def kernel_has(kind: str, number: int) -> bool:
    """Whether the kernel has a program or a map."""
    return not subprocess.run(["bpftool", kind, "show", "id", str(number)], capture_output=True, check=False).returncode


class Attached(NamedTuple):
    """The numbers of a program and its maps."""

    program: int
    maps: tuple[int, ...]

    @staticmethod
    def at(namespace: str) -> Attached:
        """Find the one at the device `a0` of a namespace."""
        filters = json.loads(run("tc", "-n", namespace, "-json", "filter", "show", "dev", "a0", "egress"))
        (program,) = (each["options"]["prog"] for each in filters if "options" in each)
        assert program["name"] == "flowloom_port"
        shown = json.loads(run("bpftool", "--json", "prog", "show", "id", str(program["id"])))
        assert "pinned" not in shown
        return Attached(program["id"], tuple(shown["map_ids"]))

    def is_gone(self) -> bool:
        """Wait until the kernel has freed all of it, which it does some time after the last use."""
        for _ in range(300):
            if not (kernel_has("prog", self.program) or any(kernel_has("map", number) for number in self.maps)):
                return True
            time.sleep(0.02)
        return False


def qdiscs(namespace: str) -> list[tuple[str, str]]:
    found = json.loads(run("tc", "-n", namespace, "-json", "qdisc", "show", "dev", "a0"))
    return sorted((qdisc["kind"], qdisc["handle"]) for qdisc in found)


def test_nothing_is_left_after_detach(port):
    before = qdiscs(port.cable.a)
    port.port("attach", "--above", "30kB", "--queues", "3")
    attached = Attached.at(port.cable.a)
    assert len(attached.maps) == 2
    assert qdiscs(port.cable.a) == sorted([*before, ("clsact", "ffff:")])
    port.port("detach")
    assert qdiscs(port.cable.a) == before
    assert attached.is_gone()


@pytest.mark.parametrize("what", ["the namespace", "the device"])
def test_the_program_goes_with_its_device(port, what):
    a = port.cable.a
    port.port("attach", "--above", "30kB", "--queues", "3")
    attached = Attached.at(a)
    if what == "the device":
        run("ip", "-n", a, "link", "delete", "a0")
    else:
        run("ip", "netns", "delete", a)
    assert attached.is_gone()


def test_other_rules_replace_those_that_the_port_has(port):
    port.port("attach", "--above", "30kB", "--queues", "3")
    first = Attached.at(port.cable.a)
    port.send((4, 56, ECT_0))
    assert port.status()["queues"][0]["packets"] == 1
    port.port("attach", "--above", "4kB", "--by", "queue", "--queues", "2")
    second = Attached.at(port.cable.a)
    assert second.program != first.program
    assert first.is_gone()
    nothing = {"packets": 0, "bytes": 0, "capable": 0, "marked": 0}
    assert port.status() == {"device": "a0", "above_bytes": 4000, "by": "queue", "queues": [nothing] * 2, "queueless": 0}
    port.port("detach")
    assert second.is_gone()


def test_devices_with_one_name_in_two_namespaces_have_ports_of_their_own(port):
    other = Port()
    try:
        for each, above in ((port, "30kB"), (other, "4kB")):
            each.port("attach", "--above", above, "--queues", "3")
        other.send((6, 48, ECT_0))
        assert [each.status()["above_bytes"] for each in (port, other)] == [30_000, 4000]
        assert [each.status()["queues"][1]["packets"] for each in (port, other)] == [0, 1]
        # A process that is in the namespace needs no file system for this.
        run("ip", "netns", "exec", port.cable.a, "flowloom-port", "detach", "a0")
        assert "does not mark" in refused(port, "status")
        assert other.status()["queues"][1]["capable"] == 1
    finally:
        other.cable.close()


def test_programs_of_others_stay_and_come_first(port):
    a = port.cable.a
    port.port("attach", "--above", "500B", "--queues", "3")
    run("flowloom-tag", "attach", "a0", "--netns", a, "--thresholds", "20kB", "--clsact")
    with port.cable.captured() as packets:
        port.send((4, 0, ECT_0))
        port.open()
    # The tagger put it in class 0, so it is counted and marked there.
    assert [(p.dscp, p.ecn, p.checksums) for p in packets] == [(56, CE, True)]
    assert [each["marked"] for each in port.status()["queues"]] == [1, 0, 0]
    port.port("detach")
    assert json.loads(run("flowloom-tag", "status", "a0", "--netns", a, "--json"))["classes"][0]["packets"] == 1
    run("flowloom-tag", "detach", "a0", "--netns", a)


def refused(port: Port, what: str, *options: str) -> str:
    """Run a command that the user should not have given; return what it says."""
    command = ["flowloom-port", what, "a0", "--netns", port.cable.a, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_a_port_that_could_not_mark_is_refused(port):
    before = qdiscs(port.cable.a)
    assert "a0 has no queue 13:; first make queues" in refused(
        port, "attach", "--above", "1kB", "--by", "queue", "--queues", "4"
    )
    assert "--above" in refused(port, "attach", "--above", "1", "--queues", "3")
    assert "1..=8" in refused(port, "attach", "--above", "1kB", "--queues", "9")
    assert "a0 does not mark" in refused(port, "detach")
    assert qdiscs(port.cable.a) == before
    port.tc("qdisc delete dev a0 root")
    assert "the queue of a0 is noqueue" in refused(port, "attach", "--above", "1kB", "--queues", "3")


def test_the_queues_are_those_that_a_scenario_means(port):
    from flowloom import Scenario
    from flowloom.deploy import deploy

    text = """\
[topology]
kind = "single_switch"
hosts = 2
host_rate = "200Mb/s"
[workload]
kind = "permutation"
sizes = { fixed = "100kB" }
[transport]
name = "pias"
[transport.pias]
thresholds = ["20kB", "100kB"]
"""
    (script,) = (file.text for file in deploy(Scenario(text, "small.toml"), "linux").files if file.name == "switch.sh")
    command = ["ip", "netns", "exec", port.cable.a, "bash", "-s", "up"]
    names = {**os.environ, "TO_HOST": "a0", "MARKS": "no"}
    subprocess.run(command, input=script, env=names, check=True, capture_output=True, text=True)
    port.port("attach", "--above", "500B", "--by", "queue", "--queues", "3")
    port.send(*((4, dscp, ECT_0) for dscp in (56, 48, 40)))
    queues = port.queues()
    for number, each in enumerate(port.status()["queues"]):
        assert each == {"packets": 1, "bytes": FRAME, "capable": 1, "marked": 1}
        assert queues[f"{10 + number}:"]["packets"] == 1
