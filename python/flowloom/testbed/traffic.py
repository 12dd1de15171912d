"""The programs of a check, each a process in a namespace: they end with a line of JSON.

It imports nothing but the standard library, so that it starts fast.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

SINK, ECHO = 5001, 5002
"""The ports of the receiver."""
CONNECTIONS = 4
"""The bulk flows of a sender. If the machine is busy, one alone does not always fill a port."""
_TCP_INFO, _INFO_BYTES = 11, 104
_OPTIONS, _TOTAL_RETRANSMITTED = 5, 100
"""Offsets in the kernel's struct tcp_info: a byte of flags, and a 32-bit count of packets."""
_ECN_OPTION = 8


def serve(control: str) -> dict[str, float]:
    """Take what bulk senders send, and echo single bytes, until standard input ends.

    `control` is the congestion control of bulk senders. DCTCP's first packet may be marked, and only a receiver that runs
    DCTCP, too, then agrees to ECN.

    Returns how many bytes of bulk came between its first line and its second, and how many seconds passed.
    """
    counts: list[int] = []

    def accept(port: int, handle: Callable[[socket.socket], None]) -> None:
        listener = socket.create_server(("", port), backlog=16)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=handle, args=(peer,), daemon=True).start()

    def take(peer: socket.socket) -> None:
        mine = len(counts)
        counts.append(0)
        buffer = bytearray(1 << 18)
        while got := peer.recv_into(buffer):
            counts[mine] += got

    def echo(peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while byte := peer.recv(1):
            peer.sendall(byte)

    for port, handle in ((SINK, take), (ECHO, echo)):
        threading.Thread(target=accept, args=(port, handle), daemon=True).start()
    sys.stdin.readline()
    began, before = time.monotonic(), sum(counts)
    sys.stdin.readline()
    found = {"bytes": sum(counts) - before, "seconds": time.monotonic() - began}
    sys.stdin.read()
    return found


def bulk(address: str, tos: int, control: str) -> dict[str, int]:
    """Send as much as goes over several connections until standard input ends. Return what the kernel's TCP has counted."""
    peers = [_connected(address, SINK, tos, control) for _ in range(CONNECTIONS)]
    ended = threading.Event()

    def send(peer: socket.socket) -> None:
        data = bytes(1 << 14)
        while not ended.is_set():
            peer.sendall(data)

    senders = [threading.Thread(target=send, args=(peer,)) for peer in peers]
    for sender in senders:
        sender.start()
    sys.stdin.read()
    ended.set()
    for sender in senders:
        sender.join()
    infos = [peer.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _INFO_BYTES) for peer in peers]
    return {
        "retransmitted": sum(struct.unpack_from("=I", info, _TOTAL_RETRANSMITTED)[0] for info in infos),
        "ecn": int(all(info[_OPTIONS] & _ECN_OPTION for info in infos)),
    }


def echoes(address: str, tos: int, count: int) -> list[float]:
    """Return the times of echoes, one after the other, in microseconds."""
    times = []
    with _connected(address, ECHO, tos) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            began = time.perf_counter_ns()
            peer.sendall(b"x")
            if not peer.recv(1):
                raise ConnectionError("the receiver has closed the connection")
            times.append((time.perf_counter_ns() - began) / 1000)
    return times


def _connected(address: str, port: int, tos: int, control: str = "") -> socket.socket:
    """Connect to the receiver, which may just be starting.

    Args:
        address: The receiver.
        port: Its port.
        tos: The TOS byte of all packets, but for the ECN field.
        control: The congestion control; by default the kernel's.
    """
    while True:
        peer = socket.socket()
        peer.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        if control:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        try:
            peer.connect((address, port))
        except ConnectionRefusedError:
            peer.close()
            time.sleep(0.02)
        else:
            return peer


def main(role: str, *words: str) -> None:
    """Run a program."""
    answer: object
    if role == "serve":
        answer = serve(words[0])
    elif role == "bulk":
        answer = bulk(words[0], int(words[1]), words[2])
    else:
        answer = echoes(words[0], int(words[1]), int(words[2]))
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
