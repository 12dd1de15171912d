"""Network namespaces that exist as long as a process holds them.

They have no names in the file system. When the process that has made them ends, even by `kill -9`, the kernel removes them with
all that is in them: devices, queues, filters and programs.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from flowloom._native import RunError
from flowloom.words import shown

_CLONE_NEWNET = 0x40000000
PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "sysctl": "procps",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ethtool": "ethtool",
}
"""The programs that are needed, each with its Debian package."""


def lacking() -> str:
    """Return what keeps this machine from having namespaces: a clause; empty if nothing does."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is not installed (package {package})"
    if os.geteuid():
        return "network namespaces need root"
    try:
        Namespace().close()
    except OSError as error:
        return f"the kernel gives no network namespace: {error.strerror}"
    return ""


@dataclasses.dataclass(frozen=True)
class Space:
    """A network namespace that a process holds."""

    path: str
    """The file by which processes enter it."""

    def command(self, *words: str) -> list[str]:
        """Return a command that runs another one in the namespace, and ends it with the thread that has started it.

        It goes before other programs of this machine, which would delay what hosts do at the right time.
        """
        return ["nsenter", f"--net={self.path}", "nice", "--adjustment=-20", "setpriv", "--pdeathsig", "KILL", *words]

    def run(self, *words: str, given: str = "", environment: Mapping[str, str] | None = None) -> str:
        """Run a command and return what it prints.

        Args:
            words: The command.
            given: Its standard input.
            environment: Variables besides those of this process.

        Raises:
            RunError: It fails.
        """
        done = subprocess.run(
            self.command(*words),
            input=given,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            why = done.stderr.strip() or done.stdout.strip() or f"it ended with {done.returncode}"
            raise RunError(f"`{shown(' '.join(words), 200)}` failed: {shown(why, 400)}")
        return done.stdout

    def start(self, *words: str, log: Path) -> subprocess.Popen[str]:
        """Start a program. Its input is a pipe, and what it prints goes to a file."""
        with log.open("w") as output:
            return subprocess.Popen(
                self.command(*words), stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True
            )


class Namespace:
    """A namespace of this process."""

    def __init__(self) -> None:
        """Make a namespace.

        Raises:
            OSError: The kernel refuses.
        """
        made: list[int | OSError] = []

        def make() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(_CLONE_NEWNET):
                made.append(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))
            else:
                made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))

        # Only this thread leaves the namespace of the process.
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if isinstance(made[0], OSError):
            raise made[0]
        self._number = made[0]
        self.space = Space(f"/proc/{os.getpid()}/fd/{self._number}")

    def close(self) -> None:
        """Let go of the namespace. It vanishes when no program runs in it."""
        os.close(self._number)
