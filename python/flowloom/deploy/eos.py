"""Arista EOS: commands of the configuration mode.

The grammar is that of the EOS user manual, chapter "Quality of Service" (qos map dscp, qos map traffic-class, qos profile,
tx-queue, priority strict, random-detect ecn, shape rate, priority-flow-control, service-profile), and of the models of EOS in
Arista's AVD collection.
"""

from __future__ import annotations

from flowloom.deploy.files import Block, File, head, name_of, ports_of, runs
from flowloom.deploy.needs import COMMON, HOSTS, YES, Answers, Kind, nearly, no
from flowloom.deploy.plan import CLASSES, Group, Plan, Port, Switch, dscp, file_name

NAME = "eos"
ABOUT = "Arista EOS: a configuration to paste into `configure`"

_PLATFORM = (
    "EOS sets buffers by commands of each platform (`platform trident mmu queue profile` and others); nothing is written for "
    "them."
)
ANSWERS: Answers = {
    **COMMON,
    **HOSTS,
    Kind.ONE_QUEUE: YES,
    Kind.QUEUES: nearly("EOS keeps tx-queue 7 for control traffic, too, so class 0 shares it."),
    Kind.MARKS_BY_QUEUE: YES,
    Kind.MARKS_BY_PORT: nearly(
        "`random-detect ecn` goes by the queue that a packet joins, so a port marks later: when one queue alone has that much."
    ),
    Kind.MARKS_AT_DEQUEUE: nearly("When packets are marked depends on the switch chip."),
    Kind.MEMORY_OF_QUEUE: no(_PLATFORM),
    Kind.MEMORY_OF_PORT: no(_PLATFORM),
    Kind.PUSH_OUT: no(_PLATFORM),
    Kind.DYNAMIC: nearly("Switch chips share their memory in this way, and the factor has a default. " + _PLATFORM),
    Kind.QUEUE_LIMIT: no(_PLATFORM),
    Kind.FLOW_CONTROL: nearly(
        "EOS works out XOFF and headroom itself, and which traffic class a priority pauses is the platform's "
        "(`show priority-flow-control`). " + _PLATFORM
    ),
    Kind.LIMIT_OF_QUEUE: nearly("`shape rate` counts in kbps, and its burst is the platform's."),
    Kind.LIMIT_OF_QUEUES: no(
        "`shape rate` limits one queue. Each queue gets an equal part of the share instead, also while the others are idle."
    ),
    Kind.SPRAYING: no("ECMP chooses a path by a hash of the flow; packet spraying depends on the platform."),
    Kind.BY_QUEUE: no("ECMP chooses a path by a hash of the flow; dynamic load balancing depends on the platform."),
    Kind.FLOWLETS: no("ECMP chooses a path by a hash of the flow; dynamic load balancing depends on the platform."),
}


def files(plan: Plan) -> list[File]:
    """Return a configuration for each kind of switch."""
    return [_of_switch(plan, switch) for switch in plan.switches]


def _tx_queue(plan: Plan, profile: Port, class_: int) -> int:
    # EOS puts DSCP 0 into traffic class 1. Where that is lossless, it has the priority that neighbours pause: 0.
    return profile.number(class_, alone=0 if plan.pfc else 1)


def _of_switch(plan: Plan, switch: Switch) -> File:
    block = Block("!")
    block.note(*head(plan, switch))
    groups = switch.groups()
    profile = groups[0].port.profile
    if len(profile.queues) > 1:
        for class_ in range(len(profile.queues)):
            number = _tx_queue(plan, profile, class_)
            holds = profile.queues[class_].holds
            block.note(f"Class {class_}, {holds}, is sent as DSCP {dscp(class_)}. {plan.source(profile.queues_key)}")
            block.plain(f"qos map dscp {dscp(class_)} to traffic-class {number}")
            if number < CLASSES - 1:  # traffic class 7 always has queue 7
                block.plain(f"qos map traffic-class {number} to tx-queue {number}")
        block.plain("!")
    elif plan.pfc:
        block.note(f"Hosts and other switches have DSCP 0 in priority 0. {plan.source('fabric.pfc')}")
        block.plain("qos map dscp 0 to traffic-class 0", "qos map traffic-class 0 to tx-queue 0", "!")
    for group in groups:
        _profile(block, plan, group)
    for group in groups:
        _interfaces(block, plan, group)
    return File(f"{file_name(switch.name)}.eos", block.text)


def _profile(block: Block, plan: Plan, group: Group) -> None:
    profile = group.port.profile
    block.note(f"{plan.rate_source(group.port.rate_bps)}, to {group.port.to}")
    block.plain(f"qos profile {name_of(group)}")
    inner = Block("!", "   ")
    if len(profile.queues) > 1:
        inner.add(plan.source(profile.queues_key), "qos trust dscp")
    elif plan.pfc:
        inner.add(plan.source("fabric.pfc"), "qos trust dscp")
    if plan.pfc:
        numbers = [_tx_queue(plan, profile, class_) for class_ in range(plan.pfc.classes)]
        xon = f"XON {plan.pfc.hysteresis}B below it"
        inner.note(f"In the scenario, the headroom is {group.port.headroom}B, XOFF at {_xoff(group)}, and {xon}.")
        inner.add(
            plan.source("fabric.pfc"),
            "priority-flow-control on",
            *(f"priority-flow-control priority {number} no-drop" for number in numbers),
        )
    block.plain(*inner.text.splitlines())
    for class_ in range(len(profile.queues)):
        lines = _queue(plan, group, class_)
        if lines:
            block.plain("   !", f"   tx-queue {_tx_queue(plan, profile, class_)}", *lines)
    block.plain("!")


def _xoff(group: Group) -> str:
    return "a dynamic threshold" if group.port.xoff is None else f"{group.port.xoff}B"


def _queue(plan: Plan, group: Group, class_: int) -> list[str]:
    profile = group.port.profile
    block = Block("!", "      ")
    if len(profile.queues) > 1:
        block.add(plan.source(profile.queues_key), "priority strict")
    limited = profile.is_limited(class_)
    if profile.limiter and limited:
        kbps = max(1, profile.limiter.rate(group.port.rate_bps) // 1000 // profile.limiter.queues)
        block.add(plan.source(profile.limiter.share_key, profile.limiter.burst_key), f"shape rate {kbps} kbps")
    if profile.marks and plan.host.ecn and not limited:
        marks = profile.marks
        block.add(
            plan.source(*marks.keys),
            f"random-detect ecn minimum-threshold {marks.begins} bytes maximum-threshold {marks.all_above} bytes "
            f"max-mark-probability {marks.percent} weight 0",
        )
    return block.text.splitlines()


def _interfaces(block: Block, plan: Plan, group: Group) -> None:
    names = ",".join(f"{a}-{b}" if b > a else str(a) for a, b in runs(group.numbers))
    block.note(f"{ports_of(group.numbers)}, to {group.port.to}. {plan.mtu_source}")
    block.plain(f"interface Ethernet{names}", f"   mtu {plan.wire.mtu}", f"   service-profile {name_of(group)}", "!")
