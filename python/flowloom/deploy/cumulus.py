"""NVIDIA Cumulus Linux: NVUE commands.

The grammar is that of the Cumulus Linux 5.9 user guide, "Quality of Service" (mapping, egress-queue-mapping,
egress-scheduler, egress-shaper, congestion-control, pfc, traffic-pool, advance-buffer-config), and of the NVUE reference.
"""

from __future__ import annotations

import math

from flowloom.deploy.files import Block, File, head, name_of, ports_of, runs
from flowloom.deploy.needs import COMMON, HOSTS, YES, Answers, Kind, nearly, no
from flowloom.deploy.plan import CLASSES, Division, Group, Plan, Port, Switch, dscp, file_name

NAME = "cumulus"
ABOUT = "NVIDIA Cumulus Linux: NVUE commands"

ANSWERS: Answers = {
    **COMMON,
    **HOSTS,
    Kind.ONE_QUEUE: YES,
    Kind.QUEUES: YES,
    Kind.MARKS_BY_QUEUE: YES,
    Kind.MARKS_BY_PORT: nearly(
        "The thresholds are for queues (traffic classes), so a port marks later: when one queue alone has that much."
    ),
    Kind.MARKS_AT_DEQUEUE: nearly("When packets are marked depends on the switch chip."),
    Kind.MEMORY_OF_QUEUE: nearly(
        "All ports have the same settings of advanced buffers, and the pool is a share of the switch's memory."
    ),
    Kind.MEMORY_OF_PORT: nearly(
        "Limits are for queues: each holds as much as the port may, and no limit holds for all of them together."
    ),
    Kind.PUSH_OUT: nearly("Queues have limits of their own, so a later queue takes nothing from an earlier one."),
    Kind.DYNAMIC: nearly(
        "alpha is a power of two from 1/128 to 64; the nearest one is written. The pool is all of the switch's memory."
    ),
    Kind.QUEUE_LIMIT: nearly("A static limit counts in the cells of the switch chip, which are larger than control packets."),
    Kind.FLOW_CONTROL: nearly(
        "XOFF, XON and headroom are those of the scenario, or what the switch derives if ports share memory; pools are shares "
        "of the switch's memory."
    ),
    Kind.LIMIT_OF_QUEUE: nearly("The shaper counts in kbps, and its burst is the switch chip's."),
    Kind.LIMIT_OF_QUEUES: no(
        "A shaper limits one queue. Each queue gets an equal part of the share instead, also while the others are idle."
    ),
    Kind.SPRAYING: no("ECMP chooses a path by a hash of the flow; adaptive routing depends on the switch chip."),
    Kind.BY_QUEUE: no("ECMP chooses a path by a hash of the flow; adaptive routing depends on the switch chip."),
    Kind.FLOWLETS: no("ECMP chooses a path by a hash of the flow; adaptive routing depends on the switch chip."),
}

_ALL = "default-global"
"""The profile of all ports."""


def files(plan: Plan) -> list[File]:
    """Return the commands for each kind of switch."""
    return [_of_switch(plan, switch) for switch in plan.switches]


def _of_switch(plan: Plan, switch: Switch) -> File:
    block = Block("#")
    block.plain("#!/bin/bash")
    block.note(*head(plan, switch))
    block.plain("set -euo pipefail", "")
    groups = switch.groups()
    profile = groups[0].port.profile
    if len(profile.queues) > 1:
        _classes(block, plan, profile)
    if plan.pfc:
        block.add(
            plan.source("fabric.pfc"),
            "nv set qos traffic-pool default-lossless memory-percent 50",
            "nv set qos traffic-pool default-lossy memory-percent 50",
        )
        if plan.memory.alpha:
            set_ = f"nv set qos advance-buffer-config {_ALL} ingress-lossless-buffer shared-alpha {_alpha(plan.memory.alpha)}"
            block.add(plan.source("fabric.alpha", "fabric.sharing"), set_)
    else:
        _buffers(block, plan, profile)
    for group in groups:
        _group(block, plan, group)
    block.plain("nv config apply")
    return File(f"{file_name(switch.name)}.nvue.sh", block.text, executable=True)


def _classes(block: Block, plan: Plan, profile: Port) -> None:
    source = plan.source(profile.queues_key)
    block.add(source, f"nv set qos mapping {_ALL} trust l3")
    for class_ in range(len(profile.queues)):
        number = profile.number(class_)
        block.note(f"Class {class_}, {profile.queues[class_].holds}, is sent as DSCP {dscp(class_)}.")
        block.plain(
            f"nv set qos mapping {_ALL} dscp {dscp(class_)} switch-priority {number}",
            f"nv set qos egress-queue-mapping {_ALL} switch-priority {number} traffic-class {number}",
        )
    numbers = ",".join(str(profile.number(class_)) for class_ in reversed(range(len(profile.queues))))
    block.add(source, f"nv set qos egress-scheduler {_ALL} traffic-class {numbers} mode strict")


def _buffers(block: Block, plan: Plan, profile: Port) -> None:
    """Add the memory of queues, which is the same for all ports."""
    begin = f"nv set qos advance-buffer-config {_ALL}"
    memory = profile.memory
    dynamic = memory is not None and memory.division is Division.DYNAMIC
    block.add(plan.source("fabric.sharing"), f"{begin} egress-pool 0 mode {'dynamic' if dynamic else 'static'}")
    for class_, queue in enumerate(profile.queues):
        place = f"{begin} egress-lossy-buffer traffic-class {profile.number(class_)}"
        if queue.limit:
            block.add(plan.source(queue.limit.key), f"{place} shared-bytes {queue.limit.bytes}")
        elif memory and dynamic and memory.alpha:
            block.add(plan.source("fabric.alpha", "fabric.sharing"), f"{place} shared-alpha {_alpha(memory.alpha)}")
        elif memory:
            block.add(
                plan.source(memory.bytes_key or "fabric.buffer", memory.division_key), f"{place} shared-bytes {memory.bytes}"
            )
    if not dynamic:
        _rest_of_the_pool(block, profile)


def _rest_of_the_pool(block: Block, profile: Port) -> None:
    """Give a size to what is in the static pool beside the transport's queues: the guide asks for one in each region."""
    last, memory = profile.queues[-1], profile.memory
    held = last.limit or memory
    if held is None:
        raise ValueError("a queue without a limit has a memory")
    begin = f"nv set qos advance-buffer-config {_ALL} egress-lossy-buffer"
    used = {profile.number(class_) for class_ in range(len(profile.queues))}
    block.note("Other traffic in the static pool needs sizes, too. Each is that of the transport's last queue.")
    block.plain(
        *(f"{begin} traffic-class {number} shared-bytes {held.bytes}" for number in range(CLASSES) if number not in used),
        *(f"{begin} multicast-switch-priority {number} shared-bytes {held.bytes}" for number in range(CLASSES)),
        f"{begin} multicast-port shared-bytes {held.bytes}",
    )


def _alpha(alpha: float) -> str:
    """Return the name of the power of two that is nearest to alpha: `alpha_2`, `alpha_1_4`."""
    power = max(-7, min(6, round(math.log2(alpha))))
    return f"alpha_{2**power}" if power >= 0 else f"alpha_1_{2**-power}"


def _group(block: Block, plan: Plan, group: Group) -> None:
    profile, name = group.port.profile, name_of(group)
    ports = ",".join(f"swp{a}-{b}" if b > a else f"swp{a}" for a, b in runs(group.numbers))
    block.note(f"{ports_of(group.numbers)}, to {group.port.to}. {plan.rate_source(group.port.rate_bps)}")
    block.add(plan.mtu_source, f"nv set interface {ports} link mtu {plan.wire.mtu}")
    if profile.marks and plan.host.ecn:
        marked = [class_ for class_ in range(len(profile.queues)) if not profile.is_limited(class_)]
        numbers = ",".join(str(profile.number(class_)) for class_ in reversed(marked))
        begin = f"nv set qos congestion-control {name} traffic-class {numbers}"
        block.add(
            plan.source(*profile.marks.keys),
            f"{begin} min-threshold {profile.marks.begins}",
            f"{begin} max-threshold {profile.marks.all_above}",
            f"{begin} probability {profile.marks.percent}",
            f"{begin} ecn enable",
            f"{begin} red disable",
            f"nv set interface {ports} qos congestion-control profile {name}",
        )
    if profile.limiter:
        limiter = profile.limiter
        kbps = max(1, limiter.rate(group.port.rate_bps) // 1000 // limiter.queues)
        limited = [profile.number(class_) for class_ in range(limiter.first, limiter.first + limiter.queues)]
        block.add(
            plan.source(limiter.share_key, limiter.burst_key),
            *(f"nv set qos egress-shaper {name} traffic-class {number} max-rate {kbps}" for number in sorted(limited)),
            f"nv set interface {ports} qos egress-shaper profile {name}",
        )
    if plan.pfc and group.port.headroom is not None:
        _flow_control(block, plan, group, ports)
    block.plain("")


def _flow_control(block: Block, plan: Plan, group: Group, ports: str) -> None:
    port, name, pfc = group.port, name_of(group), plan.pfc
    if pfc is None or port.headroom is None:
        raise ValueError("the ports of switches have a headroom")
    begin = f"nv set qos pfc {name}"
    numbers = ",".join(str(port.profile.number(class_)) for class_ in reversed(range(pfc.classes)))
    lines = [f"{begin} switch-priority {numbers}", f"{begin} tx enable", f"{begin} rx enable"]
    block.note(f"The headroom is {port.headroom}B, and a class may go on {pfc.hysteresis}B below XOFF.")
    if port.xoff is None:
        # Thresholds are parts of a buffer that the port reserves, and XOFF in shared memory is none.
        block.note("XOFF follows from the shared memory, so the switch derives its buffer and thresholds itself.")
    else:
        lines += [
            f"{begin} port-buffer {port.xoff + port.headroom}",
            f"{begin} xoff-threshold {port.xoff}",
            f"{begin} xon-threshold {pfc.hysteresis}",
        ]
    block.add(plan.source("fabric.pfc", "fabric.buffer"), *lines, f"nv set interface {ports} qos pfc profile {name}")
