"""Two hosts for tests, as network namespaces joined by a cable, and the packets on the cable. It needs root and iproute2."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import itertools
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17
_ETH_P_ALL, _SO_RCVBUFFORCE = 3, 33
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 2, 0x1000
_NUMBERS = itertools.count()
ADDRESSES = {4: ("10.77.0.1", "10.77.0.2"), 6: ("fd77::1", "fd77::2")}
"""The addresses of the two hosts, by version of IP."""


def skip(reason: str) -> None:
    """Skip the test, or fail where `TESTBED=require` says that it can run."""
    import pytest

    if os.environ.get("TESTBED") == "require":
        pytest.fail(f"TESTBED=require, but {reason}")
    pytest.skip(reason)


def run(*command: str) -> str:
    """Run a command; return what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Let this thread create sockets in a network namespace, which has a name or a path. They stay there afterwards."""
    with Path("/proc/thread-self/ns/net").open() as home, Path("/run/netns", name).open() as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(number: int) -> None:
    if _LIBC.setns(number, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@dataclass
class Packet:
    """What a test looks at in a captured TCP or UDP packet."""

    source: str
    protocol: int
    dscp: int
    ecn: int
    sequence: int
    flags: int
    payload: int
    checksums: bool
    """Whether the checksums of the IP header and of the packet are right."""
    ports: tuple[int, int]
    data: bytes
    """What follows the header of TCP or UDP."""
    at: float = 0.0
    """When it was captured, in seconds of the monotonic clock."""


def parse(frame: bytes) -> Packet | None:
    """Read an Ethernet frame; None if it is neither TCP nor UDP over IP."""
    kind, data = int.from_bytes(frame[12:14], "big"), frame[14:]
    if kind == 0x0800:
        header = 4 * (data[0] & 15)
        tos, protocol, length = data[1], data[9], int.from_bytes(data[2:4], "big")
        addresses, family, right = data[12:20], socket.AF_INET, ones_sum(data[:header]) == 0xFFFF
    elif kind == 0x86DD:
        header, tos, protocol = 40, int.from_bytes(data[:2], "big") >> 4 & 255, data[6]
        length = 40 + int.from_bytes(data[4:6], "big")
        addresses, family, right = data[8:40], socket.AF_INET6, True
    else:
        return None
    if protocol not in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
        return None
    body = data[header:length]
    right &= ones_sum(addresses + struct.pack(">II", len(body), protocol) + body) == 0xFFFF
    tcp = protocol == socket.IPPROTO_TCP
    return Packet(
        source=socket.inet_ntop(family, addresses[: len(addresses) // 2]),
        protocol=protocol,
        dscp=tos >> 2,
        ecn=tos & 3,
        sequence=int.from_bytes(body[4:8], "big") if tcp else 0,
        flags=body[13] if tcp else 0,
        payload=len(body) - (4 * (body[12] >> 4) if tcp else 8),
        checksums=right,
        ports=struct.unpack(">HH", body[:4]),
        data=body[4 * (body[12] >> 4) if tcp else 8 :],
    )


def ones_sum(data: bytes) -> int:
    """Return the sum of 16-bit words in one's complement (RFC 1071): 0xFFFF, if a right checksum is among them."""
    words = struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@contextlib.contextmanager
def captured(namespace: str, device: str) -> Iterator[list[Packet]]:
    """Capture the packets that come in at a device; the list is complete when the block has ended."""
    with inside(namespace):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
    tap.bind((device, 0))
    tap.settimeout(0.2)
    frames: list[tuple[float, bytes]] = []
    ended = threading.Event()

    def read() -> None:
        while True:
            try:
                frame, (_, _, kind, *_) = tap.recvfrom(1 << 17)
            except TimeoutError:
                if ended.is_set():
                    return
            else:
                if kind != socket.PACKET_OUTGOING:
                    frames.append((time.monotonic(), frame))

    thread = threading.Thread(target=read)
    thread.start()
    packets: list[Packet] = []
    try:
        yield packets
    finally:
        ended.set()
        thread.join()
        tap.close()
        packets += [dataclasses.replace(packet, at=at) for at, frame in frames if (packet := parse(frame))]


class Cable:
    """Two namespaces, `a` and `b`, joined by the devices `a0` and `b0`."""

    def __init__(self) -> None:
        """Make the namespaces; `close` removes them."""
        number = f"{os.getpid()}x{next(_NUMBERS)}"
        self.a, self.b = f"fl-a{number}", f"fl-b{number}"
        for name in (self.a, self.b):
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "a0", "netns", self.a, "type", "veth", "peer", "name", "b0", "netns", self.b)
        for name, device, at in ((self.a, "a0", 0), (self.b, "b0", 1)):
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", device, "up")
            run("ip", "-n", name, "address", "add", f"{ADDRESSES[4][at]}/24", "dev", device)
            run("ip", "-n", name, "address", "add", f"{ADDRESSES[6][at]}/64", "dev", device, "nodad")

    def close(self) -> None:
        """Remove the namespaces."""
        for name in (self.a, self.b):
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def without_checksum_offload(self) -> None:
        """Let host `a` compute the checksums of its packets, so that a capture has them."""
        value = ctypes.create_string_buffer(struct.pack("II", _ETHTOOL_STXCSUM, 0))
        request = struct.pack("16sP", b"a0", ctypes.addressof(value)).ljust(40, b"\0")
        with inside(self.a), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, _SIOCETHTOOL, request)

    def set_ecn(self, ecn: int, control: str | None = None) -> None:
        """Set `net.ipv4.tcp_ecn` of host `a`, and the congestion control of both hosts."""
        run("ip", "netns", "exec", self.a, "sysctl", "-qw", f"net.ipv4.tcp_ecn={ecn}")
        for name in (self.a, self.b) if control else ():
            run("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={control}")

    def captured(self) -> contextlib.AbstractContextManager[list[Packet]]:
        """Capture the packets that come to host `b`; the list is complete when the block has ended."""
        return captured(self.b, "b0")

    def connect(self, version: int = 4, *, buffer: int | None = None) -> tuple[socket.socket, socket.socket]:
        """Return the two ends of a TCP connection, that of `a` first.

        Args:
            version: The version of IP.
            buffer: The size of the receiver's buffer in bytes.
        """
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        with inside(self.b):
            listener = socket.socket(family, socket.SOCK_STREAM)
        if buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        listener.bind((ADDRESSES[version][1], 0))
        listener.listen()
        with inside(self.a):
            client = socket.socket(family, socket.SOCK_STREAM)
        client.connect(listener.getsockname()[:2])
        server, _ = listener.accept()
        listener.close()
        return client, server


class LongCable(Cable):
    """A cable on which a round trip takes 10 to 20 ms, and that loses all acknowledgements of a round trip but the last.

    Every 10 ms, a thread carries the packets that wait from one TAP device to the other.
    """

    def __init__(self) -> None:
        super().__init__()
        run("ip", "-n", self.a, "link", "delete", "a0")
        self._taps = [self._tap(self.a, "a0", 0), self._tap(self.b, "b0", 1)]
        self.carried: list[Packet] = []
        """The packets of host `a` that the other has got."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._carry)
        self._thread.start()

    def _tap(self, namespace: str, device: str, at: int) -> int:
        with inside(namespace):
            number = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(number, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TAP | _IFF_NO_PI))
        run("ip", "-n", namespace, "address", "add", f"{ADDRESSES[4][at]}/24", "dev", device)
        run("ip", "-n", namespace, "link", "set", device, "up")
        return number

    def _carry(self) -> None:
        there, back = self._taps
        while not self._ended.wait(0.01):
            for frame in _waiting(there):
                os.write(back, frame)
                self.carried += [packet for packet in [parse(frame)] if packet]
            frames = _waiting(back)
            last = next((frame for frame in reversed(frames) if parse(frame)), None)
            for frame in frames:
                if frame is last or not parse(frame):
                    os.write(there, frame)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for number in self._taps:
            os.close(number)
        super().close()


def _waiting(tap: int) -> list[bytes]:
    """Read the frames that wait at a TAP device."""
    frames = []
    with contextlib.suppress(BlockingIOError):
        while True:
            frames.append(os.read(tap, 1 << 16))
    return frames


def available() -> None:
    """Skip a test where there are no namespaces."""
    if os.geteuid():
        skip("network namespaces need root")
    if shutil.which("ip") is None:
        skip("the command `ip` is missing (iproute2)")
    try:
        Cable().close()
    except (OSError, subprocess.CalledProcessError) as error:
        skip(f"this machine gives no network namespaces: {error}")


def built(monkeypatch: pytest.MonkeyPatch, *commands: str) -> None:
    """Put the commands that `cargo test` has built on the PATH; skip the test where one of these is missing."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[2] / "target"))
    folders = [str(target / profile) for profile in ("debug", "release")]
    monkeypatch.setenv("PATH", os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)]))
    for command in commands:
        if shutil.which(command) is None:
            package = "`cargo build`" if command.startswith("flowloom-") else command
            skip(f"the command {command} is missing ({package})")
