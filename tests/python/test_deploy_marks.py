"""The marks of `flowloom deploy --for linux`, in a kernel that has RED: Debian's user-mode Linux."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import namespaces
from flowloom import Scenario
from flowloom.deploy import deploy

SCENARIO = """\
[topology]
kind = "single_switch"
hosts = 2
host_rate = "200Mb/s"
delay = "1us"

[fabric]
buffer = "150kB"

[workload]
kind = "permutation"
sizes = { fixed = "100kB" }

[transport]
name = "pias"
[transport.pias]
thresholds = ["20kB", "100kB"]
[transport.pias.tcp.port]
mark_above = "30kB"
[transport.dctcp]
initial_window = 12
rto_min = "5ms"
rto_initial = "5ms"
initial_alpha = 0.5
gain = 0.125
"""
KERNEL = "linux.uml"
MODULES = ["drivers/net/veth", "net/sched/sch_htb", "net/sched/sch_red", "net/sched/cls_u32", "net/ipv4/tcp_dctcp"]
LOAD = """\
import ctypes, os, sys
for path in sys.argv[1:]:
    ctypes.CDLL(None).syscall(313, os.open(path, os.O_RDONLY), b"", 0)
"""
"""A program that loads modules, as `insmod` does, which may not be installed (313 is finit_module on x86-64)."""


def kernel() -> tuple[str, Path]:
    """Return the program and the folder of its modules; skip the test, with the reason, where there is none."""
    program = shutil.which(KERNEL)
    modules = sorted(Path("/usr/lib/uml/modules").glob("*/kernel"))
    reason = "" if program and modules else f"{KERNEL} is not installed (package user-mode-linux)"
    reason = reason or ("" if os.uname().machine == "x86_64" else "user-mode Linux needs x86-64")
    if reason:
        namespaces.skip(reason)
    if "amx_tile" in Path("/proc/cpuinfo").read_text().split():
        # The kernel sets the registers of its processes by ptrace, which takes all 11,008 B of them or none (EFAULT). It has
        # room for fewer, and ends when it starts the first process. No package mends that, so TESTBED=require does not ask it.
        pytest.skip("this processor has AMX, whose registers user-mode Linux 6.1 has no room for")
    return program, modules[-1]


def booted(folder: Path, commands: list[str]) -> list[str]:
    """Boot the kernel with the host's files, run commands as root, and return what each printed."""
    program, modules = kernel()
    (folder / "load.py").write_text(LOAD)
    lines = ["#!/bin/bash", "export PATH=/usr/sbin:/usr/bin:/sbin:/bin", "mount -t proc proc /proc", "mount -t sysfs sys /sys"]
    lines += [f"/usr/bin/python3 {folder}/load.py {' '.join(f'{modules}/{name}.ko' for name in MODULES)}"]
    lines += [f"ip link add swp{n} type veth peer name p{n}; ip link set swp{n} up; ip link set p{n} up" for n in (1, 2)]
    lines += [f"echo BEGIN; {command}; echo; echo END" for command in commands]
    lines += ["echo o > /proc/sysrq-trigger", "sleep 60"]
    init = folder / "init.sh"
    init.write_text("\n".join(lines) + "\n")
    init.chmod(0o755)
    boot = [
        "mem=256M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"init={init}",
        "con=null",
        "con0=fd:0,fd:1",
        "quiet",
    ]
    done = subprocess.run([program, *boot], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    found = [part.partition("END")[0].strip() for part in done.stdout.replace("\r", "").split("BEGIN")[1:]]
    assert len(found) == len(commands), done.stdout + done.stderr
    return found


def test_red_marks_by_the_port_or_by_the_queue(tmp_path):
    variants = {
        "port": {},
        "queue": {"transport.pias.tcp.port.ecn": "queue"},
        "dctcp": {"transport.name": "dctcp", "transport.dctcp.port.mark_above": "40kB"},
    }
    commands = []
    for name, changes in variants.items():
        for file in deploy(Scenario(SCENARIO, "small.toml").set(changes), "linux").files:
            (tmp_path / f"{name}-{file.name}").write_text(file.text)
        commands += [f"bash {tmp_path}/{name}-switch.sh up && tc -j qdisc show dev swp1"]
    host = f"bash {tmp_path}/dctcp-hosts.sh p1 2> /dev/null"
    commands += [
        f"ip address add 10.1.1.1/24 dev p1 && {host} && ip route show dev p1 && sysctl -n net.ipv4.tcp_congestion_control"
    ]
    commands += ["cat /sys/module/tcp_dctcp/parameters/dctcp_shift_g /sys/module/tcp_dctcp/parameters/dctcp_alpha_on_init"]
    *ports, host, parameters = booted(tmp_path, commands)
    by_port, by_queue, dctcp = ([qdisc for qdisc in json.loads(text) if qdisc["kind"] == "red"] for text in ports)
    for qdisc, above in [(by_port[0], 30_000), *((qdisc, 30_000) for qdisc in by_queue), (dctcp[0], 40_000)]:
        options = qdisc["options"]
        assert (options["min"], options["max"], options["limit"]) == (above, above, 150_000)
        assert options["ecn"] and options["nodrop"]
    assert [(qdisc["handle"], qdisc.get("root", False)) for qdisc in by_port] == [("9:", True)]
    assert sorted(qdisc["parent"] for qdisc in by_queue) == ["1:10", "1:11", "1:12"]
    assert [qdisc["parent"] for qdisc in dctcp] == ["1:10"]
    # Below RED of the port, there is the tree of queues.
    assert any(qdisc["kind"] == "htb" and qdisc.get("parent") == "9:1" for qdisc in json.loads(ports[0]))
    assert "initcwnd 12" in host and "rto_min lock 5ms" in host and host.splitlines()[-1] == "dctcp"
    # A gain of 1/8 is a shift of 3; alpha is in parts of 1024.
    assert parameters.split() == ["3", "512"]
