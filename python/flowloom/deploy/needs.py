"""What a scenario needs of switches and hosts, one by one, so that a target can say of each whether it has it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping

from flowloom.deploy.plan import Division, Limiter, Marks, Plan, Port, size


class Kind(enum.Enum):
    """Kinds of needs. Targets have an answer to each."""

    ONE_QUEUE = "one queue"
    QUEUES = "queues"
    MARKS_BY_QUEUE = "marks by queue"
    MARKS_BY_PORT = "marks by port"
    MARK_SHARE = "share of marks"
    MARKS_AT_DEQUEUE = "marks at dequeue"
    MEMORY_OF_QUEUE = "memory of a queue"
    MEMORY_OF_PORT = "memory of a port"
    PUSH_OUT = "push-out"
    DYNAMIC = "dynamic thresholds"
    QUEUE_LIMIT = "limit of a queue"
    FLOW_CONTROL = "priority flow control"
    LIMIT_OF_QUEUE = "rate limit of a queue"
    LIMIT_OF_QUEUES = "rate limit of several queues"
    SPRAYING = "spraying"
    BY_QUEUE = "paths by queue"
    FLOWLETS = "flowlets"
    SYMMETRIC = "symmetric paths"
    TRIM = "trim"
    ORDER_BY_NUMBER = "order_by_number"
    COMPUTE_RATES = "compute_rates"
    TELEMETRY = "telemetry"
    EXPIRE = "expire"
    DROP_AT_RANDOM = "drop_at_random"
    INTERLEAVE = "interleave"
    RETURN_TO_SENDER = "return_to_sender"
    TWO_PASSES = "two_passes"
    CONTROL_AT_SWITCHES = "control at switches"
    CONTROL_HOST = "control host"
    HOST_PROGRAM = "host program"
    HOST_NIC = "host NIC"
    HOST_KERNEL = "host kernel"
    HOST_CLOSEST = "closest host kernel"
    HOST_TAGGER = "host tagger"
    NIC_QUEUES = "NIC queues"


class Verdict(enum.Enum):
    """Whether a target has what is needed."""

    YES = "yes"
    NEARLY = "nearly"
    NO = "no"


@dataclasses.dataclass(frozen=True)
class Need:
    """Something that the scenario needs."""

    kind: Kind
    what: str
    """What is needed: a noun phrase, or what a port does."""
    source: str
    """The scenario keys that it comes from."""
    essential: bool = False
    """Whether the transport does not work at all without it."""
    without: str = ""
    """What follows without it: a clause."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a target makes of a need."""

    verdict: Verdict
    why: str = ""
    """What it has instead, or why it has nothing: a sentence."""


Answers = Mapping[Kind, Answer]
YES = Answer(Verdict.YES)


def nearly(why: str) -> Answer:
    """Return the answer of a target that has something like it."""
    return Answer(Verdict.NEARLY, why)


def no(why: str) -> Answer:
    """Return the answer of a target that does not have it."""
    return Answer(Verdict.NO, why)


_NO_SWITCH = no("No setting of a switch does this; it takes a programmable switch chip.")
COMMON: Answers = {
    Kind.MARK_SHARE: nearly("Shares are in whole percents, and not 0; the nearest one is written."),
    Kind.SYMMETRIC: nearly(
        "The two directions of a flow share links only if all switches have the same symmetric hash, and their next hops in "
        "the same order."
    ),
    Kind.ORDER_BY_NUMBER: _NO_SWITCH,
    Kind.COMPUTE_RATES: _NO_SWITCH,
    Kind.TELEMETRY: no(
        "Telemetry in packets (INT) depends on the switch chip, and its format is another one; nothing is written for it."
    ),
    Kind.TRIM: _NO_SWITCH,
    Kind.EXPIRE: _NO_SWITCH,
    Kind.DROP_AT_RANDOM: no("A full queue drops the arriving packet."),
    Kind.INTERLEAVE: nearly("The queues are in strict priority."),
    Kind.RETURN_TO_SENDER: no("A packet that does not fit is dropped."),
    Kind.TWO_PASSES: no(
        "The cables and the assistant switch are up to you; the queues and the limiter below are those of one pass."
    ),
}
"""What no setting of any target does, and what is set up beside the queues of ports."""

HOSTS: Answers = {
    Kind.HOST_PROGRAM: no(
        "No kernel has it. `flowloom-node` runs it over UDP, if it has no control endpoints, and sets the DSCP of each packet."
    ),
    Kind.HOST_NIC: nearly("Its parameters are set with the tools of the NIC's vendor, for which nothing is written."),
    Kind.HOST_KERNEL: YES,
    Kind.HOST_CLOSEST: nearly("The congestion control of the kernel that is closest to it is used."),
    Kind.HOST_TAGGER: YES,
    Kind.NIC_QUEUES: nearly("The hosts' NICs keep the queueing discipline that they have."),
    Kind.CONTROL_AT_SWITCHES: no("Switches run no arbitrators; they would be processes on servers beside the switches."),
    Kind.CONTROL_HOST: no("It is a process on a server of its own; nothing is written for it."),
}
"""Answers about hosts and control endpoints, which are the same for all switches."""
BESIDE_SWITCHES = frozenset(HOSTS)
"""What is no matter of switches."""


_SHARE_ERROR = 1e-6
"""What a share in percent may be off because it is a binary number."""


def needs_of(plan: Plan) -> list[Need]:
    """Return all that a scenario needs, each once."""
    profiles = [port.profile for switch in plan.switches for port in switch.ports]
    found = [need for profile in profiles for need in _of_port(plan, profile)]
    return list(dict.fromkeys([*found, *_of_network(plan), *_of_hosts(plan)]))


def _of_port(plan: Plan, port: Port) -> Iterator[Need]:
    kind = Kind.ONE_QUEUE if len(port.queues) == 1 else Kind.QUEUES
    yield Need(kind, _count(len(port.queues)), plan.source(port.queues_key))
    if port.marks and plan.host.ecn:
        yield from _of_marks(plan, port, port.marks)
    if plan.pfc is None:
        yield from _of_memory(plan, port)
    for limit in dict.fromkeys(queue.limit for queue in port.queues if queue.limit):
        yield Need(Kind.QUEUE_LIMIT, f"at most {size(limit.bytes)} in a queue", plan.source(limit.key))
    if port.limiter:
        yield _of_limiter(plan, port.limiter)
    for feature in port.features:
        what = feature.what.removeprefix("it ")
        yield Need(Kind(feature.ability), f"a port {what}", plan.source(feature.key), feature.essential, feature.without)


def _count(queues: int) -> str:
    return "one queue" if queues == 1 else f"{queues} queues in strict priority"


def _of_marks(plan: Plan, port: Port, marks: Marks) -> Iterator[Need]:
    by_queue = marks.by_queue or len(port.queues) == 1
    of = "a queue" if by_queue else "a port"
    if port.memory and plan.pfc is None and marks.begins >= port.memory.bytes:
        of += ", which never holds as much"
    source = plan.source(*marks.keys)
    kind = Kind.MARKS_BY_QUEUE if by_queue else Kind.MARKS_BY_PORT
    if marks.is_random:
        random = f"at random from {size(marks.above)} to {size(marks.all_above)} of {of}, up to {100 * marks.share:g} %"
        what = f"ECN marks {random}, and of all beyond"
    else:
        what = f"ECN marks above {size(marks.begins)} of {of}"
    yield Need(kind, what, source)
    if marks.is_random and abs(100 * marks.share - marks.percent) > _SHARE_ERROR:
        yield Need(Kind.MARK_SHARE, f"marks of {100 * marks.share:g} % of packets", plan.source(marks.key("mark_share")))
    if marks.at_dequeue:
        yield Need(Kind.MARKS_AT_DEQUEUE, "marks when packets leave", plan.source(marks.key("mark_at")))


def _of_memory(plan: Plan, port: Port) -> Iterator[Need]:
    memory = port.memory
    if memory is None:
        return
    held = plan.source(memory.bytes_key or "fabric.buffer")
    alone = len(port.queues) == 1
    match memory.division:
        case Division.DYNAMIC:
            source = plan.source("fabric.buffer", "fabric.sharing")
            what = f"{size(memory.bytes)} for all ports of a switch, and queues of up to {memory.alpha:g} times what is free"
            yield Need(Kind.DYNAMIC, what, source)
        case Division.PER_QUEUE | Division.WHOLE | Division.PUSH_OUT if alone or memory.division is Division.PER_QUEUE:
            yield Need(Kind.MEMORY_OF_QUEUE, f"{size(memory.bytes)} for each queue", held)
        case Division.WHOLE:
            yield Need(Kind.MEMORY_OF_PORT, f"{size(memory.bytes)} for all queues of a port", held)
        case Division.PUSH_OUT:
            yield Need(Kind.MEMORY_OF_PORT, f"{size(memory.bytes)} for all queues of a port", held)
            without = "a burst of a later queue can take the memory from an earlier one"
            yield Need(
                Kind.PUSH_OUT,
                "full ports that drop packets of later queues first",
                plan.source(memory.division_key),
                without=without,
            )


def _of_limiter(plan: Plan, limiter: Limiter) -> Need:
    share = f"{limiter.part / limiter.whole:.2%} of each link's rate"
    source = plan.source(limiter.share_key, limiter.burst_key)
    if limiter.queues == 1:
        return Need(
            Kind.LIMIT_OF_QUEUE, f"a queue that gets at most {share}", source, True, "data is sent faster than links carry it"
        )
    what = f"{limiter.queues} queues that together get at most {share}"
    return Need(Kind.LIMIT_OF_QUEUES, what, source, True, "all queues together ask for more data than links carry")


_CHOICES = {
    "packet": (Kind.SPRAYING, "packets of a flow spread over all paths"),
    "queue": (Kind.BY_QUEUE, "each packet on the path whose next port has the shortest queue"),
    "flowlet": (Kind.FLOWLETS, "flowlets, the bursts of a flow, spread over all paths"),
}
"""What a switch needs for its choice of paths; nothing if it chooses once for each flow, as ECMP does."""


def _of_network(plan: Plan) -> Iterator[Need]:
    if plan.pfc:
        what = (
            "priority flow control of one class"
            if plan.pfc.classes == 1
            else f"priority flow control of {plan.pfc.classes} classes"
        )
        yield Need(Kind.FLOW_CONTROL, what, "fabric.pfc", without="full ports lose packets")
    if not plan.multipath:
        return
    routing = plan.source("fabric.routing")
    if plan.choice in _CHOICES:
        kind, what = _CHOICES[plan.choice]
        yield Need(kind, what, routing, without="flows that share a path collide, and others stay idle")
    elif plan.paths.startswith("symmetric"):
        without = "credits and the data that they ask for take different links"
        yield Need(Kind.SYMMETRIC, "both directions of a flow over the same links", routing, True, without)


def _of_hosts(plan: Plan) -> Iterator[Need]:
    own = f'transport.name = "{plan.transport}"'
    host = plan.host
    if host.in_nics:
        yield Need(Kind.HOST_NIC, f"NICs for RDMA over Ethernet that run {plan.name}", own)
    elif host.kernel is None:
        yield Need(Kind.HOST_PROGRAM, f"hosts that run {plan.name} instead of TCP", own)
    else:
        with_ecn = f'"{host.kernel.control}"{" with ECN" if host.ecn else ""}'
        if host.kernel.lacks:
            what = f"hosts that run {plan.name}; the closest congestion control is {with_ecn}, and {host.kernel.lacks}"
            yield Need(Kind.HOST_CLOSEST, what, own)
        else:
            yield Need(Kind.HOST_KERNEL, f"hosts whose TCP has the congestion control {with_ecn}", own)
        if any(len(nic.profile.queues) > 1 or nic.profile.marks for nic in plan.nics):
            queues = max(len(nic.profile.queues) for nic in plan.nics)
            table = next((nic.profile.marks.table for nic in plan.nics if nic.profile.marks), None)
            source = plan.parameter(table) if table else own
            yield Need(Kind.NIC_QUEUES, f"NICs of hosts with {_count(queues)}", source)
    if host.tagger and host.tagger.thresholds:
        yield Need(Kind.HOST_TAGGER, "a tagger that lowers the class of flows as they send", plan.source(host.tagger.key))
    match plan.placement:
        case "switches":
            yield Need(
                Kind.CONTROL_AT_SWITCHES, "a control endpoint on every switch", own, without="flows go on without arbitration"
            )
        case "extra_host":
            yield Need(
                Kind.CONTROL_HOST, "a control endpoint on a host of its own", own, without="nobody answers the hosts' requests"
            )
