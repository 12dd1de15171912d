"""What the tagger of `flowloom pias` does on real packets: `python benches/pias_hosts.py web bursts cost`.

It needs root, iproute2 and `flowloom-tag` on the PATH (`make node`). Hosts are network namespaces of this machine.

* `web`: the time that a client needs for short files from Python's web server, beside a bulk transfer through the same port, with
  and without the tagger. The port has eight strict classes (HTB). Neither program knows of any of this.
* `bursts`: how many bytes leave in a class that is too high, because a burst of the kernel's segmentation offload has one tag.
* `cost`: the processor time of the program in the kernel, for each packet or burst.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/python"))

from namespaces import ADDRESSES, Cable, inside, run

THRESHOLDS = (20_000, 100_000, 1_000_000)
OPTION = ("--thresholds", "20kB,100kB,1MB")
PORT_RATE, PORT_BUFFER = "200mbit", 150_000
SHORT, WEB_PORT, BULK_PORT = 10_000, 8000, 8001

RECEIVE = """\
import socket, threading
def read(end):
    while end.recv(1 << 20):
        pass
listener = socket.create_server(("", {port}))
while True:
    threading.Thread(target=read, args=(listener.accept()[0],), daemon=True).start()
"""
SEND = """\
import socket
end = socket.create_connection(("{host}", {port}))
while True:
    end.sendall(bytes(1 << 20))
"""


class Port(Cable):
    """A cable with a switch in it, `s`. Its port to host `b` has a rate, and a queue for each class selector of DSCP."""

    def __init__(self) -> None:
        super().__init__()
        self.s = self.a.replace("fl-a", "fl-s")
        run("ip", "netns", "add", self.s)
        run("ip", "-n", self.b, "link", "delete", "b0")
        run("ip", "-n", self.s, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self.s, "link", "set", "bridge", "up")
        for name, device, at in ((self.a, "a0", 0), (self.b, "b0", 1)):
            port = f"s{device}"
            run("ip", "link", "add", device, "netns", name, "type", "veth", "peer", "name", port, "netns", self.s)
            run("ip", "-n", self.s, "link", "set", port, "master", "bridge", "up")
            run("ip", "-n", name, "link", "set", device, "up")
            run("ip", "-n", name, "address", "add", f"{ADDRESSES[4][at]}/24", "dev", device)
        tc = ["tc", "-n", self.s]
        run(*tc, "qdisc", "add", "dev", "sb0", "root", "handle", "1:", "htb", "default", "17")
        rate = ["rate", PORT_RATE, "ceil", PORT_RATE, "burst", "4k", "cburst", "4k"]
        run(*tc, "class", "add", "dev", "sb0", "parent", "1:", "classid", "1:1", "htb", *rate)
        for class_ in range(8):
            own = ["rate", "8kbit", "ceil", PORT_RATE, "prio", str(class_), "burst", "4k", "cburst", "4k", "quantum", "3000"]
            run(*tc, "class", "add", "dev", "sb0", "parent", "1:1", "classid", f"1:1{class_}", "htb", *own)
            run(*tc, "qdisc", "add", "dev", "sb0", "parent", f"1:1{class_}", "bfifo", "limit", str(PORT_BUFFER))
            field = ["match", "ip", "dsfield", hex((7 - class_) << 5), "0xe0"]
            filter_ = ["filter", "add", "dev", "sb0", "parent", "1:", "protocol", "ip", "prio", "1", "u32"]
            run(*tc, *filter_, *field, "flowid", f"1:1{class_}")

    def close(self) -> None:
        subprocess.run(["ip", "netns", "delete", self.s], check=False)
        super().close()

    @contextlib.contextmanager
    def program(self, where: str, *words: str) -> Iterator[None]:
        """Run a program in a namespace until the block ends."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(["ip", "netns", "exec", where, *words], **quiet) as started:
            try:
                yield
            finally:
                started.kill()


def fetch(cable: Cable) -> float:
    """Return the seconds that a client in host `b` needs for a short file."""
    begin = time.perf_counter()
    with inside(cable.b):
        connection = http.client.HTTPConnection(ADDRESSES[4][0], WEB_PORT, timeout=10)
        connection.connect()
    connection.request("GET", "/short")
    body = connection.getresponse().read()
    connection.close()
    assert len(body) == SHORT
    return time.perf_counter() - begin


@contextlib.contextmanager
def tagged(cable: Cable, *options: str) -> Iterator[None]:
    """Attach a tagger to host `a`."""
    run("flowloom-tag", "attach", "a0", "--netns", cable.a, *OPTION, *options)
    try:
        yield
    finally:
        run("flowloom-tag", "detach", "a0", "--netns", cable.a)


def web(rounds: int = 4, files: int = 40) -> dict[str, list[float]]:
    """Return the times of short files in seconds, with and without the tagger, in turns of one run."""
    times: dict[str, list[float]] = {"without tags": [], "with tags": []}
    cable = Port()
    python = sys.executable
    try:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "short").write_bytes(bytes(SHORT))
            server = cable.program(cable.a, python, "-m", "http.server", "-d", folder, str(WEB_PORT))
            sink = cable.program(cable.b, python, "-c", RECEIVE.format(port=BULK_PORT))
            source = SEND.format(host=ADDRESSES[4][1], port=BULK_PORT)
            with server, sink:
                time.sleep(1.5)
                with cable.program(cable.a, python, "-c", source), cable.program(cable.a, python, "-c", source):
                    for name in [*times] * rounds:
                        with tagged(cable) if name == "with tags" else contextlib.nullcontext():
                            time.sleep(0.5)
                            times[name] += [fetch(cable) for _ in range(files)]
    finally:
        cable.close()
    return times


def transfer(cable: Cable, size: int) -> None:
    """Send bytes from host `a` to host `b`."""
    client, server = cable.connect()

    def drain() -> None:
        while server.recv(1 << 20):
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    client.sendall(bytes(size))
    client.close()
    reader.join()
    server.close()


def bursts(segments: int, flows: int = 20) -> dict[int, list[int]]:
    """Return for each threshold how many bytes of each flow beyond it left in the class before it."""
    late: dict[int, list[int]] = {threshold: [] for threshold in THRESHOLDS}
    cable = Cable()
    try:
        run("ip", "-n", cable.a, "link", "set", "a0", "gso_max_segs", str(segments))
        with tagged(cable):
            for _ in range(flows):
                with cable.captured() as packets:
                    transfer(cable, 2_000_000)
                sent = [p for p in packets if p.source == ADDRESSES[4][0] and p.payload]
                first = min(p.sequence for p in sent)
                for threshold, found in late.items():
                    across = [p.sequence - first + p.payload - threshold for p in sent if p.sequence - first <= threshold]
                    found.append(max(0, max(across)))
    finally:
        cable.close()
    return late


def cost(segments: int, repeats: int = 7) -> list[tuple[float, float]]:
    """Return for each repeat the nanoseconds of a run of the program, and those for each packet on the wire."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text(encoding="ascii")
    found = []
    cable = Cable()
    try:
        switch.write_text("1", encoding="ascii")
        run("ip", "-n", cable.a, "link", "set", "a0", "gso_max_segs", str(segments))
        for _ in range(repeats):
            with tagged(cable):
                transfer(cable, 20_000_000)
                packets = json.loads(run("flowloom-tag", "status", "a0", "--netns", cable.a, "--json"))["classes"]
                programs = [each for each in json.loads(run("bpftool", "-j", "prog")) if each.get("name") == "flowloom_tag"]
                ran = max(programs, key=lambda each: each["id"])
                total = sum(each["packets"] for each in packets)
                found.append((ran["run_time_ns"] / ran["run_cnt"], ran["run_time_ns"] / total))
    finally:
        switch.write_text(before, encoding="ascii")
        cable.close()
    return found


def main(wanted: list[str]) -> None:
    """Run the experiments with these names, all of them by default."""
    if not wanted or "web" in wanted:
        times = web()
        for name, seconds in times.items():
            ordered = sorted(seconds)
            p90 = ordered[int(0.9 * len(ordered))]
            print(f"web, {name}: median {statistics.median(seconds) * 1e3:.2f} ms, 90th percentile {p90 * 1e3:.2f} ms")
        without, with_ = (statistics.median(seconds) for seconds in times.values())
        print(f"web: short files of {SHORT:,} B take {with_ / without:.2f} times as long with tags")
    for segments in (1, 4, 65_535):
        if not wanted or "bursts" in wanted:
            for threshold, late in bursts(segments).items():
                about = f"{statistics.mean(late):,.0f} B on average, {max(late):,} B at most"
                print(f"bursts, gso_max_segs {segments}: beyond {threshold:,} B, still in the class before: {about}")
        if not wanted or "cost" in wanted:
            runs, packets = zip(*cost(segments), strict=True)
            per_run, per_packet = statistics.median(runs), statistics.median(packets)
            print(f"cost, gso_max_segs {segments}: {per_run:.0f} ns for each run, {per_packet:.0f} ns for each packet")


if __name__ == "__main__":
    main(sys.argv[1:])
