"""`flowloom deploy`: numbers worked out by hand, documented grammars of switches, and what the Linux kernel reads back.

Sources of the grammars, all public:

* SONiC: the YANG models of sonic-buildimage (src/sonic-yang-models/yang-models/sonic-*.yang) and doc/Configuration.md there.
* EOS: the EOS user manual, "Quality of Service", and the models of interfaces and QoS profiles in Arista's AVD collection.
* Cumulus: the Cumulus Linux 5.9 user guide, "Quality of Service", and the NVUE reference, "QoS".
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

import netns
from flowloom import Scenario
from flowloom.cli import app
from flowloom.deploy import TARGETS, deploy
from flowloom.deploy.needs import Kind, Verdict
from flowloom.engine import catalogue

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "papers"
TRANSPORTS = [entry["name"] for entry in catalogue()["transports"] if entry["name"] != "ideal"]

SMALL = """\
[topology]
kind = "leaf_spine"
racks = 2
hosts_per_rack = 3
spines = 2
host_rate = "1Gb/s"
spine_rate = "2Gb/s"
delay = "1us"

[fabric]
buffer = "150kB"
routing = "ecmp_symmetric"

[workload]
kind = "permutation"
sizes = { fixed = "100kB" }

[transport]
name = "dctcp"
"""
VARIANTS = {
    "plain": {},
    "marks by queue": {"transport.dctcp.port.ecn": "queue", "transport.pias.tcp.port.ecn": "queue"},
    "three classes": {"transport.pias.thresholds": ["20kB", "100kB"], "transport.pase.queues": 3},
    "flow control": {"fabric.pfc": {}},
    "shared memory": {"fabric.sharing": "switch", "fabric.alpha": 0.5, "fabric.buffer": "1MB"},
    "lossless, shared": {"fabric.pfc": {}, "fabric.sharing": "switch", "fabric.buffer": "1MB"},
}
"""Changes of the scenario."""
PAUSABLE = {"tcp", "dctcp", "d2tcp", "l2dct", "ecn_star", "hpcc", "dcqcn"}
SHARING = PAUSABLE | {"pias", "pase"}


def variants_of(transport):
    """Return the variants of the scenario that a transport can run."""
    able = {"fabric.pfc": PAUSABLE, "fabric.sharing": SHARING}
    return [name for name, changes in VARIANTS.items() if all(transport in able.get(key, TRANSPORTS) for key in changes)]


@functools.cache
def made(transport, variant, target):
    return deploy(Scenario(SMALL, "small.toml").set({"transport.name": transport, **VARIANTS[variant]}), target)


def kinds_of(deployment):
    """Return the names of the kinds of switches: a leaf with a controller, if there is one, other leaves, and spines."""
    return [switch.name for switch in deployment.plan.switches]


def switches_of(transport, target):
    """Yield the deployments of a transport, with the name of each kind of switch."""
    for variant in variants_of(transport):
        deployment = made(transport, variant, target)
        for switch in kinds_of(deployment):
            yield deployment, switch


def text_of(deployment, name):
    (text,) = (file.text for file in deployment.files if file.name == name)
    return text


# ---- SONiC, from the YANG models

NAME = r"[a-zA-Z0-9][-a-zA-Z0-9_]{0,31}"
NUMBER = r"\d+"
BOOL = "true|false"
COLORS = ("green", "yellow", "red")
YANG = {
    "DSCP_TO_TC_MAP": (NAME, {r"6[0-3]|[1-5][0-9]?|[0-9]": r"1[0-5]|[0-9]"}),
    "TC_TO_QUEUE_MAP": (NAME, {r"1[0-5]|[0-9]": r"[0-9]"}),
    "TC_TO_PRIORITY_GROUP_MAP": (NAME, {r"1[0-5]|[0-9]": r"[0-7]"}),
    "MAP_PFC_PRIORITY_TO_QUEUE": (NAME, {r"[0-7]": r"[0-9]"}),
    "SCHEDULER": (
        r"\S+",
        {"type": "DWRR|WRR|STRICT", "weight": r"[1-9]\d?|100", "meter_type": "packets|bytes", "cir|pir|cbs|pbs": NUMBER},
    ),
    "WRED_PROFILE": (
        NAME,
        {f"{color}_(min|max)_threshold": NUMBER for color in COLORS}
        | {f"wred_{color}_enable": BOOL for color in COLORS}
        | {f"{color}_drop_probability": r"100|\d{1,2}" for color in COLORS}
        | {"ecn": "ecn_(none|green|yellow|red|green_yellow|green_red|yellow_red|all)"},
    ),
    "QUEUE": (r"Ethernet\d+\|\d+(-\d+)?", {"scheduler": r"->SCHEDULER", "wred_profile": "->WRED_PROFILE"}),
    "BUFFER_POOL": (r"\S+", {"type": "ingress|egress", "mode": "static|dynamic", "size|xoff": NUMBER}),
    "BUFFER_PROFILE": (
        r"\S+",
        {
            "pool": "->BUFFER_POOL",
            "size|static_th|xon|xon_offset|xoff": NUMBER,
            "dynamic_th": r"-[1-8]|[0-7]",
            "packet_discard_action": "drop|trim",
        },
    ),
    "BUFFER_PG": (r"Ethernet\d+\|[0-7](-[0-7])?", {"profile": "->BUFFER_PROFILE"}),
    "BUFFER_QUEUE": (r"Ethernet\d+\|(1[0-5]|[0-9])(-(1[0-5]|[0-9]))?", {"profile": "->BUFFER_PROFILE"}),
    "PORT_QOS_MAP": (
        r"global|Ethernet\d+",
        {
            "dscp_to_tc_map": "->DSCP_TO_TC_MAP",
            "tc_to_queue_map": "->TC_TO_QUEUE_MAP",
            "tc_to_pg_map": "->TC_TO_PRIORITY_GROUP_MAP",
            "pfc_to_queue_map": "->MAP_PFC_PRIORITY_TO_QUEUE",
            "pfc_enable": r"([0-7](,[0-7])*)?",
        },
    ),
    "SWITCH_TRIMMING": ("GLOBAL", {"size": NUMBER, "dscp_value": r"6[0-3]|[1-5]?\d|from-tc", "queue_index": r"\d+|dynamic"}),
}
MANDATORY = {"BUFFER_POOL": {"type", "mode"}, "BUFFER_PROFILE": {"pool", "size"}}


def wrong_in_sonic(tables):
    """Return what in some tables breaks the models: unknown tables, keys, fields and values, and references to nothing."""
    found = []
    for table, entries in tables.items():
        if table not in YANG:
            found.append(f"unknown table {table}")
            continue
        pattern, fields = YANG[table]
        for key, entry in entries.items():
            if not re.fullmatch(pattern, key):
                found.append(f"{table}: key {key}")
            found += [f"{table}|{key}: {field} is missing" for field in MANDATORY.get(table, set()) - set(entry)]
            for field, value in entry.items():
                rules = [rule for name, rule in fields.items() if re.fullmatch(name, field)]
                if not rules:
                    found.append(f"{table}|{key}: unknown field {field}")
                elif rules[0].startswith("->"):
                    if value not in tables.get(rules[0][2:], {}):
                        found.append(f"{table}|{key}: {field} refers to {value}, which is not in {rules[0][2:]}")
                elif not isinstance(value, str) or not re.fullmatch(rules[0], value):
                    found.append(f"{table}|{key}: {field} = {value!r}")
    return found + list(_wrong_numbers(tables))


def _wrong_numbers(tables):
    """Yield what breaks the `must` statements of the models."""
    for name, profile in tables.get("WRED_PROFILE", {}).items():
        for color in COLORS:
            if int(profile[f"{color}_max_threshold"]) < int(profile[f"{color}_min_threshold"]):
                yield f"WRED_PROFILE|{name}: {color}_max_threshold is below its minimum"
    for name, scheduler in tables.get("SCHEDULER", {}).items():
        if "pbs" in scheduler and int(scheduler.get("pir", 0)) == 0:
            yield f"SCHEDULER|{name}: pbs without pir"
        if int(scheduler.get("pir", 2**63)) < int(scheduler.get("cir", 0)):
            yield f"SCHEDULER|{name}: pir is below cir"
    for name, profile in tables.get("BUFFER_PROFILE", {}).items():
        mode = tables["BUFFER_POOL"].get(profile["pool"], {}).get("mode")
        if ("static_th" in profile) == ("dynamic_th" in profile) or f"{mode}_th" not in profile:
            yield f"BUFFER_PROFILE|{name}: one threshold, of the mode of its pool"


def sonic_tables(deployment, switch):
    return json.loads(text_of(deployment, f"{switch}.config_db.json"))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_sonic_tables_obey_the_models(transport):
    for deployment, switch in switches_of(transport, "sonic"):
        tables = sonic_tables(deployment, switch)
        assert tables and wrong_in_sonic(tables) == []
        # Each entry has a line that says where it comes from.
        sources = text_of(deployment, f"{switch}.sources.txt")
        places = {f"{table}.{re.sub(r'^Ethernet[0-9]+', 'Ethernet*', key)}" for table in tables for key in tables[table]}
        assert {line.strip().partition(":")[0].partition(" ")[0] for line in sources.splitlines()} >= places


def test_the_models_refuse_what_is_wrong():
    tables = sonic_tables(made("pias", "three classes", "sonic"), "leaf")
    changes = [
        ("QUEUE", "Ethernet0|7", "scheduler", "other", "refers to other"),
        ("WRED_PROFILE", "flowloom_to_host", "green_min_threshold", "99999999", "green_max_threshold is below"),
        ("WRED_PROFILE", "flowloom_to_host", "green_drop_probability", "101", "green_drop_probability"),
        ("DSCP_TO_TC_MAP", "flowloom", "64", "1", "unknown field 64"),
        ("SCHEDULER", "flowloom_strict", "typ", "STRICT", "unknown field typ"),
        ("NOTHING", "x", "y", "z", "unknown table NOTHING"),
    ]
    for table, key, field, value, told in changes:
        broken = json.loads(json.dumps(tables))
        broken.setdefault(table, {}).setdefault(key, {})[field] = value
        assert any(told in wrong for wrong in wrong_in_sonic(broken)), told


# ---- EOS, from the manual

EOS = {
    None: [
        r"qos map dscp (6[0-3]|[1-5]?\d)( (6[0-3]|[1-5]?\d))* to traffic-class [0-7]",
        r"qos map traffic-class [0-6] to tx-queue [0-6]",
        r"(?P<profile>qos profile \S+)",
        r"(?P<interface>interface Ethernet\d+(-\d+)?(,\d+(-\d+)?)*)",
    ],
    "profile": [
        r"qos trust dscp",
        r"priority-flow-control on",
        r"priority-flow-control priority [0-7] no-drop",
        r"(?P<queue>tx-queue [0-7])",
    ],
    "queue": [
        r"priority strict",
        r"shape rate [1-9]\d* kbps",
        r"random-detect ecn minimum-threshold (\d+) bytes maximum-threshold (\d+) bytes "
        r"max-mark-probability (100|[1-9]\d?) weight (1[0-5]|\d)",
    ],
    "interface": [r"mtu ([6-9]\d|\d{3,4})", r"service-profile \S+"],
}
DEPTH = {None: 0, "profile": 1, "interface": 1, "queue": 2}


def wrong_in_eos(text):
    """Return the lines that no rule allows in their mode. A mode is left by a line of less indentation, or by `!`."""
    found, mode, profiles, used = [], None, set(), set()
    for line in text.splitlines():
        depth, words = (len(line) - len(line.lstrip())) // 3, line.strip()
        if words.startswith("!"):
            continue
        while mode is not None and depth < DEPTH[mode]:
            mode = {"queue": "profile"}.get(mode)
        match = next(filter(None, (re.fullmatch(rule, words) for rule in EOS[mode])), None) if depth == DEPTH[mode] else None
        if match is None:
            found.append(line)
            continue
        mode = next((name for name, value in match.groupdict().items() if value), mode)
        if words.startswith("qos profile "):
            profiles.add(words.split()[-1])
        if words.startswith("service-profile "):
            used.add(words.split()[-1])
    return found + sorted(used ^ profiles)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_eos_configurations_obey_the_grammar(transport):
    for deployment, switch in switches_of(transport, "eos"):
        text = text_of(deployment, f"{switch}.eos")
        assert wrong_in_eos(text) == []
        assert "interface Ethernet" in text and "service-profile" in text


def test_the_grammar_of_eos_refuses_what_is_wrong():
    text = text_of(made("pias", "three classes", "eos"), "leaf.eos")
    for right, wrong in [
        ("priority strict", "priority stric"),
        ("qos map dscp 56", "qos map dscp 64"),
        ("service-profile flowloom_to_host", "service-profile other"),
        ("   mtu 1500", "mtu 1500"),
        ("weight 0", "weight 16"),
    ]:
        assert right in text and wrong_in_eos(text.replace(right, wrong, 1)), wrong


# ---- Cumulus, from the user guide

CLASSES = r"[0-7](,[0-7])*"
PORTS = r"swp\d+(-\d+)?(,swp\d+(-\d+)?)*"
ALPHA = r"alpha_(1_(2|4|8|16|32|64|128)|1|2|4|8|16|32|64|infinity)"
NVUE = [
    r"nv set qos mapping default-global trust l3",
    r"nv set qos mapping default-global dscp (6[0-3]|[1-5]?\d) switch-priority [0-7]",
    r"nv set qos egress-queue-mapping default-global switch-priority [0-7] traffic-class [0-7]",
    rf"nv set qos egress-scheduler default-global traffic-class {CLASSES} mode strict",
    rf"nv set qos congestion-control \S+ traffic-class {CLASSES} (min|max)-threshold \d+",
    rf"nv set qos congestion-control \S+ traffic-class {CLASSES} probability (100|[1-9]?\d)",
    rf"nv set qos congestion-control \S+ traffic-class {CLASSES} (ecn|red) (enable|disable)",
    r"nv set qos egress-shaper \S+ traffic-class [0-7] max-rate [1-9]\d*",
    rf"nv set qos pfc \S+ switch-priority {CLASSES}",
    r"nv set qos pfc \S+ (tx|rx) (enable|disable)",
    r"nv set qos pfc \S+ (port-buffer|xoff-threshold|xon-threshold) \d+",
    r"nv set qos traffic-pool default-(lossless|lossy) memory-percent (100|[1-9]\d?)",
    r"nv set qos advance-buffer-config default-global egress-pool 0 mode (static|dynamic)",
    rf"nv set qos advance-buffer-config default-global egress-lossy-buffer (traffic-class|multicast-switch-priority) [0-7] "
    rf"(shared-bytes \d+|shared-alpha {ALPHA})",
    r"nv set qos advance-buffer-config default-global egress-lossy-buffer multicast-port shared-bytes \d+",
    rf"nv set qos advance-buffer-config default-global ingress-lossless-buffer shared-alpha {ALPHA}",
    rf"nv set interface {PORTS} qos (congestion-control|egress-shaper|pfc) profile \S+",
    rf"nv set interface {PORTS} link mtu \d+",
    r"nv config apply",
]


def commands(text):
    """Return the commands of a script: all lines but comments and what shells need."""
    return [line for line in text.splitlines() if line and not line.startswith(("#", "set -"))]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_cumulus_commands_obey_the_grammar(transport):
    for deployment, switch in switches_of(transport, "cumulus"):
        found = commands(text_of(deployment, f"{switch}.nvue.sh"))
        assert [line for line in found if not any(re.fullmatch(rule, line) for rule in NVUE)] == []
        assert found[-1] == "nv config apply"
        # Each profile that an interface uses is defined.
        used = {tuple(re.search(r"qos (\S+) profile (\S+)", line).groups()) for line in found if " profile " in line}
        defined = {tuple(line.split()[3:5]) for line in found if line.startswith("nv set qos ")}
        assert used <= defined


def test_the_grammar_of_nvue_refuses_what_is_wrong():
    for wrong in (
        "nv set qos mapping default-global dscp 64 switch-priority 7",
        "nv set qos egress-scheduler default-global traffic-class 8 mode strict",
        "nv set qos congestion-control x traffic-class 0 probability 101",
    ):
        assert not any(re.fullmatch(rule, wrong) for rule in NVUE)


# ---- Linux: the shell's grammar here, and the kernel in a namespace


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_linux_scripts_are_shell_scripts(transport):
    for variant in variants_of(transport):
        for file in made(transport, variant, "linux").files:
            done = subprocess.run(["bash", "-n"], input=file.text, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, ""), file.name


PORTS = {"swp1": 1_000_000_000, "swp4": 2_000_000_000}
"""A port to a host and one to a spine, and their rates."""
MARKING = {"dctcp", "d2tcp", "l2dct", "ecn_star", "pias", "pase", "dcqcn"}


def applied(deployment):
    """Apply the script of a leaf to two ports in a network namespace; return what the kernel has then."""
    script = text_of(deployment, f"{kinds_of(deployment)[-2]}.sh")
    with netns.Namespace() as space:
        for port in PORTS:
            space.link(port)
        has_red = space.has("red", "limit 100000 min 30000 max 30000 avpkt 1000 burst 30 probability 1 ecn")
        names = {"TO_HOST": "swp1", "TO_SPINE": "swp4", "MARKS": "yes" if has_red else "no"}
        space.script(script, "up", **names)
        seen = {port: space.read(port) for port in PORTS}
        if has_red:
            marks = {qdisc["kind"] for port in seen.values() for qdisc in port.qdiscs} & {"red"}
            assert bool(marks) == (deployment.plan.transport in MARKING)
        space.script(script, "down", **names)
        assert not {qdisc["kind"] for port in PORTS for qdisc in space.read(port).qdiscs} & {"htb", "red", "bfifo"}
    return seen


def test_the_kernel_has_the_queues_of_the_scenario():
    netns.required()
    for port, found in applied(made("pias", "three classes", "linux")).items():
        bits = PORTS[port]
        assert found.classes["1:1"].rate == found.classes["1:1"].ceil == bits
        leaves = [found.classes[name] for name in ("1:10", "1:11", "1:12")]
        assert [(leaf.prio, leaf.ceil, leaf.rate) for leaf in leaves] == [(prio, bits, 8000) for prio in range(3)]
        fifos = [qdisc["options"]["limit"] for qdisc in found.qdiscs if qdisc["kind"] == "bfifo"]
        assert fifos == [150_000] * 3
        # Class 0 is sent as CS7 (0xe0 in the TOS byte), class 1 as CS6; the last one is what no filter chooses.
        assert set(found.filters) == {
            ("ip", 0x00E00000, 0x00FC0000, "1:10"),
            ("ip", 0x00C00000, 0x00FC0000, "1:11"),
            ("ipv6", 0x0E000000, 0x0FC00000, "1:10"),
            ("ipv6", 0x0C000000, 0x0FC00000, "1:11"),
        }
        (tree,) = (qdisc for qdisc in found.qdiscs if qdisc["kind"] == "htb" and qdisc["handle"] == "1:")
        assert tree["options"]["default"] == "0x12"


PACKET = 1514
"""Bytes of a full packet with its Ethernet header."""


@pytest.mark.parametrize("fast", [1, 100])
@pytest.mark.parametrize("transport", ["pias", "expresspass"])
def test_no_queue_of_the_kernel_has_a_burst_before_others(transport, fast):
    """HTB serves a class with tokens of its own before all that borrow. With less than a packet of these, it sends one."""
    netns.required()
    changes = {"topology.host_rate": f"{fast}Gb/s", "topology.spine_rate": f"{2 * fast}Gb/s", "transport.name": transport}
    changes |= VARIANTS["three classes"]
    for port, found in applied(deploy(Scenario(SMALL, "small.toml").set(changes), "linux")).items():
        bits = fast * PORTS[port]
        top = found.classes["1:1"]
        assert (top.rate, top.ceil) == (bits, bits)
        # What the link sends in 100 us, within the microsecond in which `tc` counts, and the kilobyte to which it prints.
        assert top.burst == pytest.approx(bits / 80_000, abs=bits / 8e6 + 1024)
        leaves = [one for one in found.classes.values() if one.is_leaf]
        assert len(leaves) >= 2
        for one in leaves:
            assert one.burst < PACKET
            assert one.cburst == top.cburst or one.ceil < bits
        assert all(one.burst < PACKET for name, one in found.classes.items() if name != "1:1")


def test_the_kernel_limits_credits():
    netns.required()
    found = applied(made("expresspass", "plain", "linux"))["swp1"]
    # 40 of 1540 bytes of 1 Gb/s are 25,974,026 bit/s; `tc` prints thousands.
    assert found.classes["1:2"].ceil == 25_974_000
    assert (found.classes["1:11"].parent, found.classes["1:12"].parent) == ("1:2", "1:1")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_kernel_takes_the_script_of_each_transport(transport):
    netns.required()
    plan = made(transport, "plain", "linux").plan
    (queues,) = {len(port.profile.queues) for switch in plan.switches for port in switch.ports}
    found = applied(made(transport, "plain", "linux"))["swp1"]
    assert len({name for name, one in found.classes.items() if one.is_leaf}) == queues


def test_hosts_have_the_settings_of_the_scenario():
    netns.required()
    deployment = made("ecn_star", "plain", "linux")
    with netns.Namespace() as space:
        space.link("eth0", address="10.9.8.1/24")
        space.script(text_of(deployment, "hosts.sh"), "eth0")
        read = functools.partial(space.run, "sysctl", "-n")
        assert read("net.ipv4.tcp_ecn").strip() == "1"
        assert read("net.ipv4.tcp_congestion_control").strip() == "reno"
        (route,) = space.run("ip", "route", "show", "dev", "eth0").splitlines()
        assert "initcwnd 70" in route and "rto_min lock 2ms" in route
        assert "mtu 1500" in space.run("ip", "link", "show", "dev", "eth0")


def test_the_script_of_hosts_can_be_run_again_and_sets_all_routes():
    netns.required()
    script = text_of(made("ecn_star", "plain", "linux"), "hosts.sh")
    with netns.Namespace() as space:
        space.link("eth0", address="10.9.8.1/24")
        space.run("ip", "address", "add", "fd00::1/64", "dev", "eth0", "nodad")
        space.run("ip", "route", "add", "10.1.0.0/16", "via", "10.9.8.2", "metric", "7", "mtu", "lock", "1400")
        space.run("ip", "-6", "route", "add", "fd01::/64", "via", "fd00::2", "rto_min", "9ms")
        # What a router advertises ends, and the kernel must know it again. Link-local routes of all devices look alike.
        space.run("ip", "-6", "route", "add", "fd02::/64", "dev", "eth0", "proto", "ra", "metric", "1024", "expires", "600")
        routes = {family: space.run("ip", family, "route", "show").splitlines() for family in ("-4", "-6")}
        space.script(script, "eth0")
        for family, before in routes.items():
            assert len(space.run("ip", family, "route", "show").splitlines()) == len(before)
        # Without a carrier, `ip` prints a word that it does not take.
        space.run("ip", "link", "set", "eth0-p", "down")
        assert "linkdown" in space.run("ip", "route", "show", "dev", "eth0")
        space.script(script, "eth0")
        for family, before in routes.items():
            found = space.run("ip", family, "route", "show", "dev", "eth0").splitlines()
            assert len(found) == sum(" dev eth0 " in route for route in before)
            for route in found:
                changed = not route.startswith("fe80:") and "proto ra" not in route
                assert ("initcwnd 70" in route) == ("rto_min lock 2ms" in route) == changed, route
        (kept,) = space.run("ip", "route", "show", "10.1.0.0/16").splitlines()
        assert "metric 7" in kept and "mtu lock 1400" in kept


TAGGER = """\
#!/bin/bash
echo "$*" >> "$0.log"
case $2 in
  set) grep -qs "of this version" "$0.attached" ;;
  attach) test ! -e "$0.attached" && echo "of this version" > "$0.attached" ;;
  detach) rm "$0.attached" ;;
esac
"""
"""A `flowloom` whose tagger refuses to be set before it is attached or if it is another version, and to be attached twice."""


def test_the_script_of_hosts_changes_a_tagger_that_is_attached(tmp_path):
    netns.required()
    program = tmp_path / "flowloom"
    program.write_text(TAGGER)
    program.chmod(0o755)
    script = text_of(made("pias", "three classes", "linux"), "hosts.sh")
    # The kernel may lack DCTCP, which is not what this is about.
    script = "".join(line for line in script.splitlines(True) if "tcp_congestion_control=" not in line)
    with netns.Namespace() as space:
        space.link("eth0", address="10.9.8.1/24")
        for attached in (None, None, "of another version"):
            if attached:
                (tmp_path / "flowloom.attached").write_text(attached)
            warned = space.script(script, "eth0", PATH=f"{tmp_path}:{os.environ['PATH']}")
            assert ("eth0: a tagger of another version gave way" in warned) == bool(attached), warned
    said = (tmp_path / "flowloom.log").read_text().splitlines()
    change, attach = (f"pias {verb} eth0 --thresholds 20kB,100kB" for verb in ("set", "attach"))
    anew = [change, "pias detach eth0", attach]
    assert said == [*anew, change, *anew]


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


# ---- Numbers by hand


def test_pias_on_each_target():
    """The published thresholds, marks above 65 packets, eight classes from DSCP 56 to 0; a leaf has 16 hosts and 4 spines."""
    scenario = Scenario.of(PAPERS / "pias/default.toml")
    thresholds = "1.32714MB,1.94034MB,2.40608MB,2.8616MB,3.12878MB,3.41202MB,3.62664MB"
    for name in TARGETS:
        hosts = text_of(deploy(scenario, name), "hosts.sh")
        assert f'pias attach "$dev" --thresholds {thresholds}' in hosts
        assert "net.ipv4.tcp_congestion_control=dctcp" in hosts and "net.ipv4.tcp_ecn=1" in hosts
    tables = sonic_tables(deploy(scenario, "sonic"), "leaf")
    assert tables["DSCP_TO_TC_MAP"]["flowloom"] == {str(8 * n): str(n) for n in reversed(range(8))}
    assert tables["WRED_PROFILE"]["flowloom_to_spine"]["green_min_threshold"] == "97500"
    assert {key.partition("|")[0] for key in tables["QUEUE"]} == {f"Ethernet{4 * n}" for n in range(20)}
    eos = text_of(deploy(scenario, "eos"), "leaf.eos")
    assert "interface Ethernet1-16\n" in eos and "interface Ethernet17-20\n" in eos
    assert eos.count("random-detect ecn minimum-threshold 97500 bytes maximum-threshold 97500 bytes") == 16
    shell = text_of(deploy(scenario, "linux"), "leaf.sh")
    assert '"$dev" 10000000000bit 125000;' in shell and '"$dev" 40000000000bit 500000;' in shell
    assert shell.count("parent 1:1 handle 9: red limit 360000 min 97500 max 97500 avpkt 995 burst 98 ") == 1


def red_of(**port):
    """Return the parameters of RED, by their names, of a leaf with these settings of DCTCP's ports."""
    changes = {f"transport.dctcp.port.{key}": value for key, value in port.items()}
    shell = text_of(deploy(Scenario(SMALL, "small.toml").set(changes), "linux"), "leaf.sh")
    (words,) = {line.partition(" red ")[2] for line in shell.splitlines() if " red limit " in line}
    found = words.removesuffix(" ecn nodrop").split()
    return dict(zip(found[::2], found[1::2], strict=True))


@pytest.mark.parametrize("above", [1, 64, 900, 999, 1000, 1001, 1500, 30_000, 97_500, 123_457])
def test_the_average_of_red_follows_the_queue_at_once(above):
    """`tc` computes the weight of the average from a burst (tc_red_eval_ewma): 1/2, the largest, if this holds."""
    red = red_of(mark_above=f"{above}B")
    burst, size = int(red["burst"]), int(red["avpkt"])
    assert red["min"] == red["max"] == str(above)
    assert 1 <= burst + 1 - above / size <= 2 * (1 - 2.0**-burst)


@pytest.mark.parametrize("rate", ["100Mb/s", "40Gb/s", "400Gb/s"])
@pytest.mark.parametrize(
    "port",
    [
        {"mark_above": "1B"},
        {"mark_above": "900B"},
        {"mark_above": "1001B"},
        {"mark_above": "149kB"},
        {"mark_above": "1B", "mark_all_above": "149kB", "mark_share": 1.0},
        {"mark_above": "5kB", "mark_all_above": "100kB", "mark_share": 1e-9},
    ],
)
def test_tc_takes_the_parameters_of_red(rate, port):
    netns.required()
    changes = {f"transport.dctcp.port.{key}": value for key, value in port.items()} | {"topology.host_rate": rate}
    shell = text_of(deploy(Scenario(SMALL, "small.toml").set(changes), "linux"), "leaf.sh")
    (words,) = {line.partition(" red ")[2] for line in shell.splitlines() if " red limit " in line}
    with netns.Namespace() as space:
        space.link("swp1")
        command = ["ip", "netns", "exec", space.name, "tc", "qdisc", "add", "dev", "swp1", "root", "red"]
        words = words.replace('"$rate"', rate.replace("b/s", "bit"))
        done = subprocess.run([*command, *words.split()], capture_output=True, text=True)
    # A kernel without RED says so when `tc` has understood everything.
    assert done.returncode == 0 or "qdisc kind is unknown" in done.stderr, done.stderr


def test_marks_at_random_have_their_share():
    random = {"mark_above": "5kB", "mark_all_above": "100kB"}
    for share, told in ((0.002, "0.002"), (0.125, "0.125"), (1.0, "0.999999")):
        red = red_of(**random, mark_share=share)
        assert (red["min"], red["max"], red["probability"]) == ("5000", "100000", told)
        # The kernel gets 32 bits of it.
        assert 0 < int(float(red["probability"]) * 2**32) < 2**32
    # `tc` needs a power of two below 2^32 that makes a share of each byte of the range more than 1 (tc_red_eval_P).
    assert float(red_of(**random, mark_share=1e-9)["probability"]) / 95_000 * 2**31 > 1
    # With a share of 0, marks begin at the upper threshold.
    assert red_of(**random, mark_share=0.0)["min"] == "100000"


def test_a_share_that_switches_round_is_named():
    changes = {"mark_above": "5kB", "mark_all_above": "100kB"}
    for share, whole in ((0.002, False), (0.0, True), (0.29, True), (1.0, True), (0.295, False)):
        keys = {f"transport.dctcp.port.{key}": value for key, value in {**changes, "mark_share": share}.items()}
        for target in TARGETS:
            deployment = deploy(Scenario(SMALL, "small.toml").set(keys), target)
            found = [answer.verdict for need, answer in deployment.answers if need.kind is Kind.MARK_SHARE]
            assert found == ([] if whole else [Verdict.YES if target == "linux" else Verdict.NEARLY]), (share, target)
    keys["transport.dctcp.port.mark_share"] = 0.0
    eos = text_of(deploy(Scenario(SMALL, "small.toml").set(keys), "eos"), "leaf.eos")
    assert "minimum-threshold 100000 bytes maximum-threshold 100000 bytes max-mark-probability 100 " in eos


@pytest.mark.parametrize("target", TARGETS)
def test_an_mtu_without_ipv6_is_noted(target):
    note = "IPv6 needs an MTU of 1280"
    for wire, noted in (("ip_1500", False), ("ns2_1000", True)):
        deployment = deploy(Scenario(SMALL, "small.toml").set({"fabric.wire": wire}), target)
        switch = {"sonic": "leaf.sources.txt", "eos": "leaf.eos", "cumulus": "leaf.nvue.sh", "linux": "leaf.sh"}[target]
        for name in (switch, "hosts.sh"):
            assert (note in text_of(deployment, name)) == noted, (name, wire)


def test_flow_control_in_shared_memory_leaves_thresholds_to_cumulus():
    """The guide's thresholds are parts of the buffer that a port reserves. XOFF in shared memory is none of these."""
    found = commands(text_of(made("dctcp", "lossless, shared", "cumulus"), "leaf.nvue.sh"))
    pfc = {line.split()[5] for line in found if line.startswith("nv set qos pfc flowloom_to_host ")}
    assert pfc == {"switch-priority", "tx", "rx"}


def test_all_regions_of_a_static_pool_of_cumulus_have_a_size():
    """The guide: configure shared-bytes for buffer regions that are mapped to static pools. By default, pool 0 has them all."""
    found = commands(text_of(made("pias", "three classes", "cumulus"), "leaf.nvue.sh"))
    begin = "nv set qos advance-buffer-config default-global egress-lossy-buffer "
    regions = sorted(line.removeprefix(begin).partition(" shared-bytes ")[::2] for line in found if line.startswith(begin))
    names = [f"{kind} {n}" for kind in ("traffic-class", "multicast-switch-priority") for n in range(8)]
    assert regions == sorted((name, "150000") for name in [*names, "multicast-port"])


def test_eos_pauses_the_priority_of_dscp_0():
    """Without a map, DSCP 0 is in traffic class 1 of EOS, and neighbours do not pause priority 1."""
    text = text_of(made("dctcp", "flow control", "eos"), "leaf.eos")
    assert "qos map dscp 0 to traffic-class 0\nqos map traffic-class 0 to tx-queue 0\n" in text
    assert text.count("   qos trust dscp\n") == text.count("   priority-flow-control priority 0 no-drop\n") == 2
    assert set(re.findall(r"tx-queue \d", text)) == {"tx-queue 0"}
    assert "qos map" not in text_of(made("dctcp", "plain", "eos"), "leaf.eos")


@pytest.mark.parametrize("variant", ["flow control", "lossless, shared"])
def test_sonic_drops_no_lossless_packet_at_egress(variant):
    tables = sonic_tables(made("dctcp", variant, "sonic"), "leaf")
    queues = {tables["BUFFER_QUEUE"][f"Ethernet{4 * port}|0"]["profile"] for port in range(5)}
    assert queues == {"flowloom_egress_lossless"}
    # All that ports may take in: 1 MB for the switch, or 150 kB for each of its five ports.
    whole = "1000000" if "shared" in variant else "750000"
    assert tables["BUFFER_POOL"]["egress_lossless_pool"] == {"type": "egress", "mode": "static", "size": whole}
    assert tables["BUFFER_PROFILE"]["flowloom_egress_lossless"]["static_th"] == whole


def test_flow_control_has_the_headroom_of_the_formula():
    """At 1 Gb/s and 1 us: 3 × 1500 + 84 + (2 × 1000 + 614.4) ns × 1 Gb/s / 8 = 4584 + 327 B; at 2 Gb/s 4584 + 654 B."""
    tables = sonic_tables(made("dctcp", "flow control", "sonic"), "leaf")
    profiles = tables["BUFFER_PROFILE"]
    assert profiles["flowloom_to_host_lossless"] == {
        "pool": "ingress_lossless_pool", "size": "0", "xon": "0", "xon_offset": "3000", "xoff": "4911",
        "static_th": str(150_000 - 4911),
    }  # fmt: skip
    assert profiles["flowloom_to_spine_lossless"]["xoff"] == "5238"
    assert tables["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] == "0"
    assert tables["BUFFER_POOL"]["ingress_lossless_pool"]["xoff"] == str(3 * 4911 + 2 * 5238)
    nvue = text_of(made("dctcp", "flow control", "cumulus"), "leaf.nvue.sh")
    assert "nv set qos pfc flowloom_to_host xoff-threshold 145089\n" in nvue
    assert "nv set qos pfc flowloom_to_host port-buffer 150000\n" in nvue
    assert "nv set qos pfc flowloom_to_host xon-threshold 3000\n" in nvue
    two = sonic_tables(made("hpcc", "lossless, shared", "sonic"), "leaf")
    assert two["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] == "6,7"
    # alpha is 1: 2 to the power of 0.
    assert two["BUFFER_PROFILE"]["flowloom_to_host_lossless"]["dynamic_th"] == "0"


def test_a_run_prints_the_headroom_that_it_used(scenario):
    """The same numbers as above, and none without flow control."""
    printed = call("run", scenario, "--set", "fabric.pfc={}").stdout
    line = "headroom of each class at the end of host-leaf: 4.911 kB beyond XOFF at 145.1 kB; it goes on 3 kB below XOFF\n"
    assert line in printed
    shared = call(
        "run", scenario, "--set", "fabric.pfc={}", "--set", "fabric.sharing=switch", "--set", "fabric.buffer=1MB"
    ).stdout
    assert "host-leaf: 4.911 kB beyond XOFF at fabric.alpha times what is free; it goes on" in shared
    assert "headroom" not in call("run", scenario).stdout


def test_shared_memory_has_its_alpha():
    tables = sonic_tables(made("dctcp", "shared memory", "sonic"), "leaf")
    assert tables["BUFFER_POOL"]["egress_lossy_pool"] == {"type": "egress", "mode": "dynamic", "size": "1000000"}
    assert tables["BUFFER_PROFILE"]["flowloom_alpha"]["dynamic_th"] == "-1"
    assert "traffic-class 0 shared-alpha alpha_1_2\n" in text_of(made("dctcp", "shared memory", "cumulus"), "leaf.nvue.sh")
    # An otherwise empty memory gives a queue a third of 1 MB.
    assert "limit 333333 " in text_of(made("dctcp", "shared memory", "linux"), "leaf.sh")


def test_credits_are_limited_to_their_share():
    """On `ip_1500`, 40 of 1540 bytes: at 1 Gb/s 25,974 kb/s or 3,246,753 B/s, with a burst of two credits."""
    tables = sonic_tables(made("expresspass", "plain", "sonic"), "leaf")
    assert tables["SCHEDULER"]["flowloom_to_host_limited"] == {
        "type": "STRICT",
        "meter_type": "bytes",
        "pir": "3246753",
        "pbs": "80",
    }
    assert tables["QUEUE"]["Ethernet0|6"]["scheduler"] == "flowloom_to_host_limited"
    assert "shape rate 25974 kbps" in text_of(made("expresspass", "plain", "eos"), "leaf.eos")


# ---- What is missing


def test_what_a_transport_lacks_is_named():
    """What each transport cannot do without, and which target has it."""
    missing = {
        (transport, target): {need.kind for need in made(transport, "plain", target).impossible}
        for transport in TRANSPORTS
        for target in TARGETS
    }
    everywhere = {
        "pfabric": {Kind.ORDER_BY_NUMBER}, "las": {Kind.ORDER_BY_NUMBER}, "pdq": {Kind.COMPUTE_RATES},
        "d3": {Kind.COMPUTE_RATES}, "hpcc": {Kind.TELEMETRY},
    }  # fmt: skip
    for transport, target in missing:
        expected = set(everywhere.get(transport, set()))
        if transport == "top":
            expected |= {Kind.EXPIRE} | ({Kind.LIMIT_OF_QUEUES} if target != "linux" else set())
        if transport == "ndp" and target != "sonic":
            expected.add(Kind.TRIM)
        assert missing[transport, target] == expected, (transport, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_need_has_an_answer_with_its_key(transport, target):
    deployment = made(transport, "plain", target)
    assert {need.kind for need, _ in deployment.answers} & {Kind.ONE_QUEUE, Kind.QUEUES}
    for need, answer in deployment.answers:
        assert need.source and (answer.verdict is Verdict.YES or answer.why.endswith("."))
        assert need.source.startswith(("transport.", "fabric.", "topology.", "by design of "))
    assert set(TARGETS[target].ANSWERS) == set(Kind)


@pytest.mark.parametrize("target", TARGETS)
def test_settings_have_comments_with_keys_and_values(target):
    changes = {"transport.name": "pias", **VARIANTS["marks by queue"], **VARIANTS["three classes"]}
    files = deploy(Scenario(SMALL, "small.toml").set(changes), target).files
    text = files[1 if target == "sonic" else 0].text
    for source in (
        'transport.pias.tcp.port.mark_above = "30kB"',
        'transport.pias.tcp.port.ecn = "queue"',
        "transport.pias.thresholds = [",
        'fabric.wire = "ip_1500"',
    ):
        assert source in text
    if target == "linux":
        assert 'topology.host_rate = "1Gb/s"' in text and 'fabric.buffer = "150kB"' in text


# ---- The command line


def test_files_are_printed_or_written(scenario, tmp_path):
    printed = call("deploy", scenario, "--for", "eos")
    assert printed.exit_code == 0
    assert (
        "# ==== leaf.eos\n" in printed.stdout and "# ==== hosts.sh\n" in printed.stdout and "# ==== summary\n" in printed.stdout
    )
    out = tmp_path / "out"
    written = call("deploy", scenario, "--for", "eos", "--out", out)
    assert written.exit_code == 0
    names = {path.name for path in out.iterdir()}
    assert names == {"leaf.eos", "spine.eos", "hosts.sh", "summary.txt", "deployment.json"}
    assert (out / "leaf.eos").read_text() in printed.stdout
    assert (out / "hosts.sh").stat().st_mode & 0o111
    assert call("deploy", scenario, "--for", "eos", "--out", out).exit_code == 0
    other = call("deploy", scenario, "--for", "linux", "--out", out)
    assert other.exit_code == 2 and "a deployment of another scenario or target" in other.stderr
    assert call("deploy", scenario, "--for", "linux", "--out", out, "--force").exit_code == 0
    assert not (out / "leaf.eos").exists() and (out / "leaf.sh").exists()


def test_wrong_input_is_named(scenario):
    for words, told in [
        (("--for", "cumulos"), '--for cumulos: there is no such target; did you mean "cumulus"?'),
        (("--for", "junos"), "there are linux, sonic, eos, cumulus"),
        (("--for", "eos", "--set", "transport.name=dctpc"), 'did you mean "dctcp"?'),
        (("--for", "eos", "--set", "transport.name=ideal"), "ideal is a bound and no transport"),
        (("--for", "eos", "--set", "fabric.bufer=3kB"), "fabric.bufer: unknown key"),
        (("--for", "eos", "--set", "fabric.pfc={}", "--set", "fabric.buffer=4kB"), "fabric.buffer"),
    ]:
        done = call("deploy", scenario, *words)
        assert done.exit_code == 2 and told in done.stderr, done.stderr
    assert call("deploy", scenario).exit_code == 2
    assert call("deploy", "nothing.toml", "--for", "eos").exit_code == 2


def test_a_transport_that_cannot_work_is_answered_with_a_warning(scenario):
    done = call("deploy", scenario, "--for", "eos", "--set", "transport.name=pfabric")
    assert done.exit_code == 0
    assert (
        "warning: pFabric does not work on eos: a port sends the packet with the smallest of four billion priorities"
        in done.stderr
    )
    assert "Without it, long flows delay and displace short ones." in done.stdout


def test_names_from_files_become_no_commands(tmp_path):
    """Nodes of a custom network have any names; they are in comments and file names only, and made harmless there."""
    network = tmp_path / "net.toml"
    lines = ['[[node]]\nname = "a;$(reboot)\\n"\nkind = "switch"\ntier = "x`y`/../z"\n']
    lines += [f'[[node]]\nname = "h{n}"\nkind = "host"\n' for n in range(2)]
    link = '[[link]]\na = "h{n}"\nb = "a;$(reboot)\\n"\nrate = "{n}Gb/s"\ndelay = "1us"\n'
    lines += [link.replace("{n}Gb", f"{n + 1}Gb").replace("{n}", str(n)) for n in range(2)]
    network.write_text("\n".join(lines))
    path = tmp_path / "own.toml"
    text = re.sub(r"\[topology\].*?\n\n", '[topology]\nkind = "custom"\nfile = "net.toml"\n\n', SMALL, flags=re.S)
    path.write_text(text)
    for target in TARGETS:
        for file in deploy(Scenario.of(path), target).files:
            assert re.fullmatch(r"[\w.]+", file.name)
            if file.name.endswith(".sh"):
                active = [line for line in file.text.splitlines() if not line.lstrip().startswith("#")]
                assert not any("reboot" in line or "`" in line for line in active)
