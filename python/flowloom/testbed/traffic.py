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
_TCP_INFO, _INFO_BYTES = 11, 104
_OPTIONS, _TOTAL_RETRANSMITTED = 5, 100
"""Offsets in the kernel's struct tcp_info: a byte of flags, and a 32-bit count of packets."""
_ECN_OPTION = 8


def serve() -> dict[str, float]:
    """Take what bulk senders send, and echo single bytes, until standard input has a line; then count for a while.

    Each further line ends a span. Returns how many bytes of bulk came in the last span, and its seconds.
    """
    counts: list[int] = []

    def accept(port: int, handle: Callable[[socket.socket], None]) -> None:
        listener = socket.create_server(("", port), backlog=16)
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
    return {"bytes": sum(counts) - before, "seconds": time.monotonic() - began}


def bulk(address: str, tos: int) -> dict[str, int]:
    """Send as much as goes until standard input ends. Return what the kernel's TCP has counted."""
    with _connected(address, SINK, tos) as peer:
        ended = threading.Event()

        def send() -> None:
            data = bytes(1 << 16)
            while not ended.is_set():
                peer.sendall(data)

        sender = threading.Thread(target=send)
        sender.start()
        sys.stdin.read()
        ended.set()
        sender.join()
        info = peer.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _INFO_BYTES)
        (retransmitted,) = struct.unpack_from("=I", info, _TOTAL_RETRANSMITTED)
        return {"retransmitted": retransmitted, "ecn": int(bool(info[_OPTIONS] & _ECN_OPTION))}


def echoes(address: str, tos: int, count: int) -> list[float]:
    """Return the times of echoes, one after the other, in microseconds."""
    times = []
    with _connected(address, ECHO, tos) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            began = time.perf_counter_ns()
            peer.sendall(b"x")
            peer.recv(1)
            times.append((time.perf_counter_ns() - began) / 1000)
    return times


def _connected(address: str, port: int, tos: int) -> socket.socket:
    """Connect to the receiver, which may just be starting. All packets have this TOS byte, but for the ECN field."""
    while True:
        peer = socket.socket()
        peer.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
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
        answer = serve()
    elif role == "bulk":
        answer = bulk(words[0], int(words[1]))
    else:
        answer = echoes(words[0], int(words[1]), int(words[2]))
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
