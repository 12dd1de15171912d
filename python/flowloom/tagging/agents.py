"""Taggers as the controller sees them: those of this host's devices, and those behind an agent (`flowloom pias serve`).

A session with an agent is lines of text over TCP; `crates/tagger/src/agent.rs` describes them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from flowloom._native import RunError, ScenarioError
from flowloom.demotion.snippet import quantities
from flowloom.tagging import command
from flowloom.words import shown

_GREETING = ["flowloom-tag", "1"]
_TIMEOUT_S = 10.0
_LINE_MAX = 1 << 20
_KEY_BYTES_MIN = 16


@dataclasses.dataclass(frozen=True)
class Bin:
    """Messages of about one size that have ended."""

    above: int
    """The largest size of the bin before, bytes."""
    bytes: int
    """The largest size of this bin, bytes."""
    count: int


@dataclasses.dataclass(frozen=True)
class Status:
    """What the controller needs to know of a tagger."""

    thresholds: tuple[int, ...]
    """Bytes, ascending."""
    sizes: tuple[Bin, ...]
    """Messages since the tagger was attached; bins without messages are left out."""

    @classmethod
    def of(cls, answer: Any) -> Status:
        """Read the status that `flowloom-tag` gives as JSON.

        Raises:
            RunError: It is something else.
        """
        try:
            sizes = tuple(Bin(int(bin_["above"]), int(bin_["bytes"]), int(bin_["count"])) for bin_ in answer["sizes"])
            return cls(tuple(int(value) for value in answer["thresholds_bytes"]), sizes)
        except (KeyError, TypeError, ValueError):
            raise RunError(f"the answer is no status of a tagger: {shown(answer)}") from None


class Tagger(Protocol):
    """A tagger; both methods raise RunError or ScenarioError."""

    @property
    def name(self) -> str:
        """The name for messages."""

    def status(self) -> Status:
        """Return its thresholds and counts."""

    def set(self, thresholds: Sequence[int]) -> Status:
        """Change its thresholds (bytes, ascending); return its status afterwards."""


@dataclasses.dataclass(frozen=True)
class Local:
    """The tagger of a device of this host."""

    name: str
    netns: str | None = None

    def status(self) -> Status:
        return Status.of(json.loads(self._run("status", "--json")))

    def set(self, thresholds: Sequence[int]) -> Status:
        self._run("set", "--thresholds", ",".join(quantities(thresholds)))
        return self.status()

    def _run(self, what: str, *options: str) -> str:
        return command.run([what, self.name, *options, *(["--netns", self.netns] if self.netns else [])])


@dataclasses.dataclass(frozen=True)
class Remote:
    """The tagger behind an agent."""

    host: str
    port: int
    key: bytes | None = dataclasses.field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def status(self) -> Status:
        return Status.of(self._ask({"do": "status"}))

    def set(self, thresholds: Sequence[int]) -> Status:
        return Status.of(self._ask({"do": "set", "thresholds_bytes": list(thresholds)}))

    def _ask(self, request: dict[str, Any]) -> Any:
        try:
            with socket.create_connection((self.host, self.port), _TIMEOUT_S) as connection:
                return self._session(connection, json.dumps(request))
        except OSError as error:
            raise RunError(f"{self.name}: {error.strerror or error}") from None

    def _session(self, connection: socket.socket, request: str) -> Any:
        stream = connection.makefile("rwb")
        *greeting, nonce = self._line(stream.readline(_LINE_MAX)).split(" ")
        if greeting != _GREETING:
            raise RunError(f"{self.name} is no agent of this version")
        stream.write(f"{self._seal(nonce, 0, request)} {request}\n".encode())
        stream.flush()
        seal, _, answer = self._line(stream.readline(_LINE_MAX)).partition(" ")
        if not hmac.compare_digest(seal, self._seal(nonce, 1, answer)):
            raise RunError(f"{self.name} has another key")
        try:
            found = json.loads(answer)
        except ValueError:
            raise RunError(f"{self.name}: the answer is no JSON") from None
        if isinstance(found, dict) and "error" in found:
            raise RunError(f"{self.name}: {found['error']}")
        return found

    def _line(self, line: bytes) -> str:
        if not line.endswith(b"\n"):
            why = "it has another key, or one of the two has none" if not line else "the line is too long"
            raise RunError(f"{self.name} ended the session: {why}")
        return line[:-1].decode("ascii", "replace")

    def _seal(self, nonce: str, number: int, text: str) -> str:
        if self.key is None:
            return "-"
        return hmac.new(self.key, f"{nonce} {number} {text}".encode(), hashlib.sha256).hexdigest()


def read_key(path: Path) -> bytes:
    """Read the key that agents and their controller share.

    Raises:
        ScenarioError: The file cannot be read, or the key is short.
    """
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise ScenarioError(f"--key-file {path}: {error.strerror}") from None
    if len(key) < _KEY_BYTES_MIN:
        raise ScenarioError(f"--key-file {path}: the key has {len(key)} bytes; it needs {_KEY_BYTES_MIN}")
    return key


def parse(where: str, key: bytes | None, netns: str | None) -> Tagger:
    """Return the tagger with this name: a device, or the address of an agent, such as `10.0.0.1:7171` or `[fd00::1]:7171`.

    Raises:
        ScenarioError: It is neither.
    """
    host, colon, port = where.rpartition(":")
    if not colon:
        return Local(where, netns)
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 0xFFFF:
        raise ScenarioError(f"{shown(where)}: give a device, such as eth0, or an agent's address, such as 10.0.0.1:7171")
    return Remote(host.removeprefix("[").removesuffix("]"), int(port), key)
