"""Network namespaces for tests that apply configurations to the Linux kernel."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import namespaces


@functools.cache
def _missing() -> str:
    """Return why namespaces cannot be used here; empty if they can."""
    for program in ("ip", "tc", "sysctl"):
        if shutil.which(program) is None:
            return f"{program} is not installed (packages iproute2 and procps)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Namespace() as space:
            space.link("probe0")
            if not space.has("htb", "default 1"):
                return "this kernel has no HTB (sch_htb)"
    except subprocess.CalledProcessError as error:
        return f"no network namespace can be made: {error.stderr.strip()}"
    return ""


def required() -> None:
    """Skip the test, with the reason, where namespaces cannot be used; under TESTBED=require, this is a failure."""
    if reason := _missing():
        namespaces.skip(reason)


class Namespace:
    """A network namespace, which is deleted at the end of the block."""

    def __init__(self) -> None:
        self.name = f"flowloom-test-{uuid.uuid4().hex[:8]}"

    def __enter__(self) -> Namespace:
        namespaces.run("ip", "netns", "add", self.name)
        return self

    def __exit__(self, *_: object) -> None:
        namespaces.run("ip", "netns", "delete", self.name)

    def run(self, *words: str) -> str:
        """Run a command in the namespace and return its output."""
        return namespaces.run("ip", "netns", "exec", self.name, *words)

    def script(self, text: str, *words: str, **environment: str) -> str:
        """Run a script with these arguments and return what it says on stderr."""
        command = ["ip", "netns", "exec", self.name, "bash", "-s", "--", *words]
        done = subprocess.run(command, input=text, env={**os.environ, **environment}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def link(self, name: str, address: str | None = None) -> None:
        """Add a device with this name, which leads to another one."""
        self.run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-p")
        self.run("ip", "link", "set", name, "up")
        self.run("ip", "link", "set", f"{name}-p", "up")
        if address:
            self.run("ip", "address", "add", address, "dev", name)

    def has(self, kind: str, options: str) -> bool:
        """Return whether the kernel has a queueing discipline: whether a device takes it."""
        device = next(link["ifname"] for link in json.loads(self.run("ip", "-j", "link", "show", "type", "veth")))
        try:
            self.run("tc", "qdisc", "add", "dev", device, "root", kind, *options.split())
            self.run("tc", "qdisc", "del", "dev", device, "root")
        except subprocess.CalledProcessError:
            return False
        return True

    def read(self, device: str) -> Found:
        """Return what the kernel has at a device."""
        qdiscs = json.loads(self.run("tc", "-j", "qdisc", "show", "dev", device) or "[]")
        filters = [
            rule
            for qdisc in qdiscs
            if qdisc["kind"] == "htb"
            for rule in json.loads(self.run("tc", "-j", "filter", "show", "dev", device, "parent", qdisc["handle"]) or "[]")
        ]
        return Found(qdiscs, dict(_classes(self.run("tc", "class", "show", "dev", device))), [*_u32(filters)])


class HtbClass(NamedTuple):
    """A class of HTB; rates are in bits per second, bursts in bytes, both as exact as `tc` prints them."""

    parent: str
    is_leaf: bool
    prio: int
    rate: int
    ceil: int
    burst: int
    cburst: int


class Found(NamedTuple):
    """What the kernel has at a device."""

    qdiscs: list[dict]
    classes: dict[str, HtbClass]
    filters: list[tuple[str, int, int, str]]
    """The u32 filters that choose a class: the protocol, the value and the mask that they match, and the class."""


_CLASS = re.compile(
    r"class htb (\S+) (?:root|parent (\S+)) (leaf \S+ )?(?:prio (\d+) )?.*?rate (\d+)(\w?)bit ceil (\d+)(\w?)bit "
    r"burst (\d+)([KM]?)b.*? cburst (\d+)([KM]?)b"
)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_SIZES = {"": 1, "K": 1024, "M": 1024**2}


def _classes(text: str) -> Iterator[tuple[str, HtbClass]]:
    # Older versions of tc print no JSON for HTB.
    for name, parent, leaf, prio, *numbers in _CLASS.findall(text):
        rate, ceil = (int(number) * _UNITS[unit] for number, unit in (numbers[:2], numbers[2:4]))
        burst, cburst = (int(number) * _SIZES[unit] for number, unit in (numbers[4:6], numbers[6:]))
        yield name, HtbClass(parent, bool(leaf), int(prio or 0), rate, ceil, burst, cburst)


def _u32(filters: list[dict]) -> Iterator[tuple[str, int, int, str]]:
    for found in filters:
        options = found.get("options", {})
        if "match" in options:
            match = options["match"]
            yield found["protocol"], int(match["value"], 16), int(match["mask"], 16), options["flowid"]
