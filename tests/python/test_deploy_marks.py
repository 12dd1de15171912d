"""The marks of `flowloom deploy --for linux`, in a kernel that has RED: Debian's user-mode Linux."""

from __future__ import annotations

import json

import pytest

import namespaces
from flowloom import Scenario
from flowloom.deploy import deploy
from flowloom.testbed import machine

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
DEVICES = "for n in 1 2; do ip link add swp$n type veth peer name p$n; ip link set swp$n up; ip link set p$n up; done"


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
    if why := machine.unsuited():
        pytest.skip(why)
    if why := machine.lacking():
        namespaces.skip(why)
    _, *ports, host, parameters = machine.run([DEVICES, *commands])
    by_port, by_queue, dctcp = ([qdisc for qdisc in json.loads(text) if qdisc["kind"] == "red"] for text in ports)
    for qdisc, above in [(by_port[0], 30_000), *((qdisc, 30_000) for qdisc in by_queue), (dctcp[0], 40_000)]:
        options = qdisc["options"]
        assert (options["min"], options["max"], options["limit"]) == (above, above, 150_000)
        assert options["ecn"] and options["nodrop"]
    assert [(qdisc["handle"], qdisc["parent"]) for qdisc in by_port] == [("9:", "1:1")]
    assert sorted(qdisc["parent"] for qdisc in by_queue) == ["1:10", "1:11", "1:12"]
    assert [qdisc["parent"] for qdisc in dctcp] == ["1:10"]
    # RED of the port is above the queues and below HTB, which holds packets back: RED takes what gives it no packet for empty.
    assert [qdisc["parent"] for qdisc in json.loads(ports[0]) if qdisc["kind"] == "prio"] == ["9:1"]
    assert [qdisc["kind"] for qdisc in json.loads(ports[0]) if qdisc.get("root")] == ["htb"]
    assert "initcwnd 12" in host and "rto_min lock 5ms" in host and host.splitlines()[-1] == "dctcp"
    # A gain of 1/8 is a shift of 3; alpha is in parts of 1024.
    assert parameters.split() == ["3", "512"]
