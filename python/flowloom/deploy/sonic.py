"""SONiC: the tables of config_db.json.

Tables and fields are those of the YANG models in sonic-buildimage (src/sonic-yang-models/yang-models: sonic-dscp-tc-map,
sonic-tc-queue-map, sonic-scheduler, sonic-wred-profile, sonic-queue, sonic-buffer-pool, sonic-buffer-profile, sonic-buffer-pg,
sonic-buffer-queue, sonic-port-qos-map, sonic-trimming) and their Configuration.md. JSON has no comments, so a second file says
where each entry comes from.
"""

from __future__ import annotations

import json
import math
from typing import Any

from flowloom.deploy.files import File, head, name_of
from flowloom.deploy.needs import COMMON, HOSTS, YES, Answers, Kind, nearly, no
from flowloom.deploy.plan import Division, Group, Plan, Switch, dscp, file_name

NAME = "sonic"
ABOUT = "SONiC: tables of config_db.json, for `config load`"

_MEMORY = "Thresholds are for queues: each holds as much as the port may, and no limit holds for all of them together."
ANSWERS: Answers = {
    **COMMON,
    **HOSTS,
    Kind.ONE_QUEUE: YES,
    Kind.QUEUES: YES,
    Kind.MARKS_BY_QUEUE: nearly("WRED marks by the queue; above the threshold it also drops packets that are not ECN-capable."),
    Kind.MARKS_BY_PORT: nearly(
        "WRED goes by the queue that a packet joins, so a port marks later: when one queue alone has that much."
    ),
    Kind.MARKS_AT_DEQUEUE: nearly("When packets are marked depends on the switch chip."),
    Kind.MEMORY_OF_QUEUE: YES,
    Kind.MEMORY_OF_PORT: nearly(_MEMORY),
    Kind.PUSH_OUT: nearly("Queues have thresholds of their own, so a later queue takes nothing from an earlier one."),
    Kind.DYNAMIC: nearly("alpha is a power of two from 1/128 to 64; the nearest one is written."),
    Kind.QUEUE_LIMIT: nearly(
        "A static threshold counts in the cells of the switch chip, which are larger than control packets."
    ),
    Kind.FLOW_CONTROL: YES,
    Kind.LIMIT_OF_QUEUE: nearly("The scheduler's peak rate and burst are rounded to what the switch chip has."),
    Kind.LIMIT_OF_QUEUES: no(
        "A scheduler limits one queue. Each queue gets an equal part of the share instead, also while the others are idle."
    ),
    Kind.SPRAYING: no("ECMP chooses a path by a hash of the flow; packet spraying depends on the switch chip."),
    Kind.BY_QUEUE: no("ECMP chooses a path by a hash of the flow; adaptive routing depends on the switch chip."),
    Kind.FLOWLETS: no("ECMP chooses a path by a hash of the flow; adaptive routing depends on the switch chip."),
    Kind.TRIM: nearly(
        "Packet trimming (SWITCH_TRIMMING) needs a release from 2025 on and a switch chip that has it. It sets the DSCP, too."
    ),
}

_PROFILE = "flowloom"
_STRICT = "flowloom_strict"
_LOSSLESS = "flowloom_egress_lossless"
"""The buffer profile of queues whose packets flow control keeps from being dropped: it never drops one."""
Tables = dict[str, dict[str, Any]]


class _Database:
    """The tables, and where their entries come from."""

    def __init__(self) -> None:
        self.tables: Tables = {}
        self.sources: list[str] = []

    def put(self, table: str, key: str, value: dict[str, str], source: str) -> None:
        """Add an entry, or more fields of one."""
        self.tables.setdefault(table, {}).setdefault(key, {}).update(value)
        # What is alike at all ports is listed once.
        port, bar, queue = key.partition("|")
        place = f"{table}.{'Ethernet*' if port.startswith('Ethernet') else port}{bar}{queue}"
        fields = f" ({', '.join(value)})" if len(value) <= 3 else ""
        line = f"{place}{fields}: {source}"
        if line not in self.sources:
            self.sources.append(line)


def files(plan: Plan) -> list[File]:
    """Return the tables for each kind of switch, and the file that explains them."""
    return [file for switch in plan.switches for file in _of_switch(plan, switch)]


def port_name(number: int) -> str:
    """Return the name of port `number`, from 1, of a switch whose ports have four lanes each."""
    return f"Ethernet{4 * (number - 1)}"


def _of_switch(plan: Plan, switch: Switch) -> list[File]:
    database = _Database()
    groups = switch.groups()
    for group in groups:
        _port(database, plan, group)
    _pools(database, plan, switch)
    name = file_name(switch.name)
    ports = " ".join(port_name(number) for number in range(1, len(switch.ports) + 1))
    lines = [
        *head(plan, switch),
        "Names of ports assume four lanes a port; rename them where yours are others. Load the tables with:",
        f"  sudo config load {name}.config_db.json && sudo config save",
        f"The MTU comes from {plan.mtu_source}:",
        f"  for port in {ports}; do sudo config interface mtu $port {plan.wire.mtu}; done",
        "Where entries come from:",
        *(f"  {line}" for line in database.sources),
    ]
    tables = json.dumps(database.tables, indent=4, ensure_ascii=True)
    return [File(f"{name}.config_db.json", f"{tables}\n"), File(f"{name}.sources.txt", "".join(f"{line}\n" for line in lines))]


def _port(database: _Database, plan: Plan, group: Group) -> None:
    profile = group.port.profile
    maps: dict[str, str] = {}
    if len(profile.queues) > 1:
        classes = range(len(profile.queues))
        source = f"class c is sent as DSCP 8 (7 - c); {plan.source(profile.queues_key)}"
        to_class = {str(dscp(class_)): str(profile.number(class_)) for class_ in classes}
        to_queue = {str(profile.number(class_)): str(profile.number(class_)) for class_ in classes}
        database.put("DSCP_TO_TC_MAP", _PROFILE, to_class, source)
        database.put("TC_TO_QUEUE_MAP", _PROFILE, to_queue, source)
        maps = {"dscp_to_tc_map": _PROFILE, "tc_to_queue_map": _PROFILE}
    if plan.pfc:
        lossless = [str(profile.number(class_)) for class_ in range(plan.pfc.classes)]
        same = {number: number for number in sorted(lossless)}
        pfc = plan.source("fabric.pfc")
        database.put("TC_TO_PRIORITY_GROUP_MAP", _PROFILE, same, pfc)
        database.put("MAP_PFC_PRIORITY_TO_QUEUE", _PROFILE, same, pfc)
        maps |= {"tc_to_pg_map": _PROFILE, "pfc_to_queue_map": _PROFILE, "pfc_enable": ",".join(sorted(lossless))}
    for number in group.numbers:
        name = port_name(number)
        if maps:
            database.put("PORT_QOS_MAP", name, maps, plan.source("fabric.pfc") if plan.pfc else plan.source(profile.queues_key))
        for class_ in range(len(profile.queues)):
            _queue(database, plan, group, name, class_)
        if plan.pfc:
            _ingress(database, plan, group, name)


def _queue(database: _Database, plan: Plan, group: Group, port: str, class_: int) -> None:
    profile = group.port.profile
    key = f"{port}|{profile.number(class_)}"
    if len(profile.queues) > 1:
        database.put("QUEUE", key, {"scheduler": _scheduler(database, plan, group, class_)}, f"{profile.queues[class_].holds}")
    if profile.marks and plan.host.ecn and not profile.is_limited(class_):
        marks = profile.marks
        ends = {"min": str(marks.begins), "max": str(marks.all_above)}
        source = plan.source(*marks.keys)
        colors = ("green", "yellow", "red")
        fields = {f"wred_{color}_enable": "true" for color in colors}
        fields |= {f"{color}_{end}_threshold": bytes_ for color in colors for end, bytes_ in ends.items()}
        fields |= {f"{color}_drop_probability": str(marks.percent) for color in colors}
        database.put("WRED_PROFILE", name_of(group), {"ecn": "ecn_all", **fields}, source)
        database.put("QUEUE", key, {"wred_profile": name_of(group)}, source)
    if plan.pfc is None and (profile.memory or profile.queues[class_].limit):
        database.put(
            "BUFFER_QUEUE", key, {"profile": _egress(database, plan, group, class_)}, plan.source(*profile.room_keys(class_))
        )


def _scheduler(database: _Database, plan: Plan, group: Group, class_: int) -> str:
    """Return the name of a queue's scheduler."""
    limiter = group.port.profile.limiter
    if limiter is None or not group.port.profile.is_limited(class_):
        database.put("SCHEDULER", _STRICT, {"type": "STRICT"}, plan.source(group.port.profile.queues_key))
        return _STRICT
    name = f"{name_of(group)}_limited"
    each = str(limiter.rate(group.port.rate_bps) // 8 // limiter.queues)
    fields = {"type": "STRICT", "meter_type": "bytes", "pir": each, "pbs": str(limiter.burst)}
    database.put("SCHEDULER", name, fields, plan.source(limiter.share_key, limiter.burst_key))
    return name


def _egress(database: _Database, plan: Plan, group: Group, class_: int) -> str:
    """Return the name of a queue's buffer profile."""
    profile = group.port.profile
    limit, memory = profile.queues[class_].limit, profile.memory
    pool = {"pool": "egress_lossy_pool", "size": "0"}
    if limit:
        name = f"{_PROFILE}_{limit.bytes}B"
        pool["static_th"] = str(limit.bytes)
        if (
            memory is None
            and any(feature.ability == "trim" for feature in profile.features)
            and class_ == len(profile.queues) - 1
        ):
            name, pool["packet_discard_action"] = f"{name}_trimmed", "trim"
            trim = {"size": str(plan.wire.control), "dscp_value": str(dscp(0)), "queue_index": str(profile.number(0))}
            database.put(
                "SWITCH_TRIMMING",
                "GLOBAL",
                trim,
                f"trimmed packets leave with the control packets; {plan.source('fabric.wire')}",
            )
    elif memory and memory.division is Division.DYNAMIC and memory.alpha:
        name, pool["dynamic_th"] = f"{_PROFILE}_alpha", str(_power(memory.alpha))
    elif memory:
        name, pool["static_th"] = f"{_PROFILE}_{memory.bytes}B", str(memory.bytes)
    else:
        raise ValueError("a queue has a limit or a memory")
    database.put("BUFFER_PROFILE", name, pool, plan.source(*profile.room_keys(class_)))
    return name


def _power(alpha: float) -> int:
    """Return the power of two that is nearest to alpha, within the range of the YANG model."""
    return max(-7, min(6, round(math.log2(alpha))))


def _ingress(database: _Database, plan: Plan, group: Group, port: str) -> None:
    """Add the buffers of a port with flow control."""
    pfc, link = plan.pfc, group.port
    if pfc is None or link.headroom is None:
        raise ValueError("the ports of switches have a headroom")
    source = plan.source("fabric.buffer", "fabric.sharing", "fabric.pfc")
    fields = {
        "pool": "ingress_lossless_pool",
        "size": "0",
        "xon": "0",
        "xon_offset": str(pfc.hysteresis),
        "xoff": str(link.headroom),
    }
    if link.xoff is None:
        fields["dynamic_th"] = str(_power(plan.memory.alpha or 1.0))
    else:
        fields["static_th"] = str(link.xoff)
    database.put("BUFFER_PROFILE", f"{name_of(group)}_lossless", fields, source)
    numbers = [link.profile.number(class_) for class_ in range(pfc.classes)]
    for number in numbers:
        database.put("BUFFER_PG", f"{port}|{number}", {"profile": f"{name_of(group)}_lossless"}, source)
        # What came in must not be dropped on its way out.
        database.put("BUFFER_QUEUE", f"{port}|{number}", {"profile": _LOSSLESS}, source)


def _pools(database: _Database, plan: Plan, switch: Switch) -> None:
    """Add the pools of memory that profiles refer to."""
    used = {profile["pool"] for profile in database.tables.get("BUFFER_PROFILE", {}).values()}
    source = plan.source("fabric.buffer", "fabric.sharing")
    ports = len(switch.ports)
    if "egress_lossy_pool" in used:
        static = any("static_th" in profile for profile in database.tables["BUFFER_PROFILE"].values())
        size = plan.memory.bytes if plan.memory.alpha else _all(switch)
        database.put(
            "BUFFER_POOL",
            "egress_lossy_pool",
            {"type": "egress", "mode": "static" if static else "dynamic", "size": str(size)},
            source,
        )
    if "ingress_lossless_pool" in used and plan.pfc:
        headrooms = sum(port.headroom or 0 for port in switch.ports) * plan.pfc.classes
        shared = switch.shared is not None
        size = switch.shared if switch.shared is not None else plan.memory.bytes * ports - headrooms
        fields = {"type": "ingress", "mode": "dynamic" if shared else "static", "size": str(size), "xoff": str(headrooms)}
        source = plan.source("fabric.buffer", "fabric.sharing", "fabric.pfc")
        database.put("BUFFER_POOL", "ingress_lossless_pool", fields, source)
        whole = str(size + headrooms)
        database.put("BUFFER_POOL", "egress_lossless_pool", {"type": "egress", "mode": "static", "size": whole}, source)
        database.put("BUFFER_PROFILE", _LOSSLESS, {"pool": "egress_lossless_pool", "size": "0", "static_th": whole}, source)


def _all(switch: Switch) -> int:
    """Return what all queues of a switch may hold together, where its ports do not share memory."""
    total = 0
    for port in switch.ports:
        profile = port.profile
        limits = sum(queue.limit.bytes for queue in profile.queues if queue.limit)
        free = sum(queue.limit is None for queue in profile.queues)
        if profile.memory:
            limits += profile.memory.bytes * (free if profile.memory.division is Division.PER_QUEUE else min(free, 1))
        total += limits
    return total
