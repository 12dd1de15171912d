"""User-mode Linux: a kernel as a program, with queueing disciplines that the kernel of this machine may lack.

It sees the files of this machine, read-only but for some that it is given, and needs neither root nor virtualisation.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from flowloom._native import RunError
from flowloom.words import shown

PROGRAM, PACKAGE = "linux.uml", "user-mode-linux"
_MODULES = Path("/usr/lib/uml/modules")
_LOADED = [
    "drivers/net/veth",
    "net/sched/sch_htb",
    "net/sched/sch_prio",
    "net/sched/sch_red",
    "net/sched/cls_u32",
    "net/ipv4/tcp_dctcp",
]
_LOAD = """\
import ctypes, os, sys
for path in sys.argv[1:]:
    ctypes.CDLL(None).syscall(313, os.open(path, os.O_RDONLY), b"", 0)
"""
"""A program that loads modules, as `insmod` does, which may not be installed (313 is finit_module on x86-64)."""
_BEGIN, _END = "=====BEGIN", "=====END"


def unsuited() -> str:
    """Return why user-mode Linux cannot run on this processor: a clause; empty if it can."""
    if os.uname().machine != "x86_64":
        return "user-mode Linux needs x86-64"
    if "amx_tile" in Path("/proc/cpuinfo").read_text().split():
        # The state of its registers has 11 kB, and the kernel has room for less: it ends when it starts the first process.
        return "this processor has AMX, whose registers user-mode Linux 6.1 has no room for"
    return ""


def lacking() -> str:
    """Return what else keeps this machine from user-mode Linux: a clause; empty if nothing does."""
    if shutil.which(PROGRAM) is None or not any(_MODULES.glob("*/kernel")):
        return f"{PROGRAM} is not installed (package {PACKAGE})"
    return ""


def run(commands: Sequence[str], *, memory_mb: int = 256, seconds: float = 300.0) -> list[str]:
    """Boot, run commands as root, and return what each prints.

    Args:
        commands: Shell commands.
        memory_mb: The memory of the machine.
        seconds: After how long it is ended.

    Raises:
        RunError: This machine cannot run it, or it ended before its commands did.
    """
    if why := unsuited() or lacking():
        raise RunError(f"there is no user-mode Linux here: {why}")
    modules = max(_MODULES.glob("*/kernel"))
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        load, init = Path(folder, "load.py"), Path(folder, "init.sh")
        load.write_text(_LOAD)
        lines = [
            "#!/bin/bash",
            f"export PATH={shlex.quote(os.environ.get('PATH', os.defpath))}:/usr/sbin:/usr/bin:/sbin:/bin",
            "mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs run /run",
            "ip link set lo up",
            shlex.join(["/usr/bin/python3", str(load), *(f"{modules}/{name}.ko" for name in _LOADED)]),
            *(f"echo {_BEGIN}; {command}; echo; echo {_END}" for command in commands),
            "echo o > /proc/sysrq-trigger",
            "sleep 60",
        ]
        init.write_text("\n".join(lines) + "\n")
        init.chmod(0o755)
        boot = [f"mem={memory_mb}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"]
        boot += ["con=null", "con0=fd:0,fd:1", "quiet"]
        try:
            done = subprocess.run(
                [PROGRAM, *boot],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"user-mode Linux had not ended after {seconds:g} s") from None
    text = done.stdout.replace("\r", "")
    found = [part.partition(_END)[0].strip() for part in text.split(_BEGIN)[1:]]
    if len(found) != len(commands) or text.count(_END) != len(commands):
        raise RunError(f"user-mode Linux ended before its commands did: {shown(text[-1000:] + done.stderr[-1000:], 1500)}")
    return found
