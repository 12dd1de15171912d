"""Linux switches and hosts: `tc`, `ip` and `sysctl`.

A port is a tree of HTB classes, which are served in strict priority, with a FIFO in each. Marks come from RED: in the place of
a FIFO they go by one queue. Marks by the whole port come from one RED between HTB, which has one class then, and the queues of
`prio`. The grammar is that of the manual pages tc-htb(8), tc-prio(8), tc-red(8), tc-bfifo(8), tc-u32(8), ip-route(8) and
dcb-pfc(8).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from flowloom.deploy.files import Block, File, head, ports_of
from flowloom.deploy.needs import COMMON, HOSTS, YES, Answers, Kind, nearly, no
from flowloom.deploy.plan import Division, Group, Knob, Plan, Port, Switch, dscp, file_name, size

NAME = "linux"
ABOUT = "a Linux switch or router with tc: HTB, prio, FIFOs, u32 filters and RED"

ANSWERS: Answers = {
    **COMMON,
    **HOSTS,
    Kind.ONE_QUEUE: YES,
    Kind.QUEUES: YES,
    Kind.MARKS_BY_QUEUE: YES,
    Kind.MARKS_BY_PORT: YES,
    Kind.MARK_SHARE: YES,
    Kind.MARKS_AT_DEQUEUE: nearly("RED marks packets when they come."),
    Kind.MEMORY_OF_QUEUE: YES,
    Kind.MEMORY_OF_PORT: nearly("Each queue holds as much as the port may, and no limit holds for all of them together."),
    Kind.PUSH_OUT: nearly("Queues have limits of their own, so a later queue takes nothing from an earlier one."),
    Kind.DYNAMIC: nearly(
        "Each queue may hold its share of an otherwise empty memory: alpha / (1 + alpha). No limit holds for the switch."
    ),
    Kind.QUEUE_LIMIT: YES,
    Kind.FLOW_CONTROL: nearly(
        "`dcb` asks the port's hardware for it; XOFF and headroom are the driver's. Queues of the kernel itself pause nobody."
    ),
    Kind.LIMIT_OF_QUEUE: YES,
    Kind.LIMIT_OF_QUEUES: YES,
    Kind.SPRAYING: no("The kernel chooses a path by a hash of the flow (net.ipv4.fib_multipath_hash_policy = 1)."),
    Kind.BY_QUEUE: no("The kernel chooses a path by a hash of the flow (net.ipv4.fib_multipath_hash_policy = 1)."),
    Kind.FLOWLETS: no("The kernel chooses a path by a hash of the flow (net.ipv4.fib_multipath_hash_policy = 1)."),
    Kind.DROP_AT_RANDOM: no("A full FIFO drops the arriving packet."),
}

_LEAST_RATE = "8kbit"
"""The least rate of an HTB class. What is above it is borrowed, in strict priority."""
_BURST = 'burst "$burst" cburst "$burst"'
_NO_BURST = "burst 1"
"""The burst of a class that only borrows: HTB serves what need not borrow first, in any order, and this is a packet at most."""
_HEADER = 14
"""Bytes of an Ethernet header, which the kernel counts and the scenario's packets may not have."""
_PRIORITIES = 16
"""How many values of a packet's priority in the kernel `prio` gives a queue to, where no filter does."""
_AVERAGE = 1000
"""The largest size of packets that RED converts its parameters with."""
_DECAY = "34gbit"
"""The rate at which RED's average falls while the queue is empty: at once. It is the most that `tc` takes."""
_SHARE_MAX = 0.999999
"""The largest share of marks that `tc red` takes: 1 would become 0 in the kernel's 32 bits."""
_SHARE_RANGE = 2**31
"""How many times wider in bytes than the share of marks at its end the range of marks at random may be for `tc red`."""


def files(plan: Plan) -> list[File]:
    """Return a script for each kind of switch."""
    return [_script(plan, switch) for switch in plan.switches]


def _script(plan: Plan, switch: Switch) -> File:
    block = Block("#")
    name = f"{file_name(switch.name)}.sh"
    groups = switch.groups()
    profiles = list(dict.fromkeys(group.port.profile for group in groups))
    block.plain("#!/bin/bash")
    block.note(
        *head(plan, switch),
        f"Usage, as root: ./{name} up, or ./{name} down. The names of ports are in variables:",
        *(f"  {group.name.upper()}: {ports_of(group.numbers)}" for group in groups),
        "It needs the kernel's sch_htb and cls_u32, and for marks sch_red and sch_prio. MARKS=no goes on without marks.",
    )
    lacks = "The kernel may lack sch_htb, cls_u32, or sch_red and sch_prio (MARKS=no goes on without marks)."
    block.plain("set -euo pipefail", f"trap 'echo \"$0: the command in line $LINENO failed. {lacks}\" >&2' ERR", "")
    for group in groups:
        names = " ".join(f"swp{number}" for number in group.numbers)
        block.plain(f'read -ra {group.name} <<< "${{{group.name.upper()}:-{names}}}"')
    for number, profile in enumerate(profiles, 1):
        block.plain("", f"port_{number}() {{", f"  local dev=$1 rate=$2 burst=$3{' limit=$4' if profile.limiter else ''}")
        inner = Block("#", "  ")
        _port(inner, plan, profile)
        block.plain(*inner.text.splitlines(), "}")
    block.plain("", "case ${1:-} in", "  up)")
    for group in groups:
        limits = " and the limit of credits" if group.port.profile.limiter else ""
        block.plain(f"    # {plan.rate_source(group.port.rate_bps)}: the rate, the burst{limits}")
        call = " ".join([f"port_{profiles.index(group.port.profile) + 1}", '"$dev"', *_numbers(plan, group)])
        block.plain(f'    for dev in "${{{group.name}[@]}}"; do {call}; done')
    block.plain("    ;;", "  down)")
    every = " ".join(f'"${{{group.name}[@]}}"' for group in groups)
    block.plain(f'    for dev in {every}; do tc qdisc del dev "$dev" root 2> /dev/null || true; done', "    ;;")
    block.plain(f'  *) echo "usage: {name} up|down" >&2; exit 2 ;;', "esac")
    return File(name, block.text, executable=True)


def _numbers(plan: Plan, group: Group) -> list[str]:
    """Return what differs between ports of one profile: the rate, the burst, and the rate of limited queues.

    The burst is what the link sends in 100 us, since the kernel's timers are late, and at least two packets.
    """
    bps, limiter = group.port.rate_bps, group.port.profile.limiter
    burst = max(2 * _quantum(plan), bps // 8 // 10_000)
    return [f"{bps}bit", str(burst), *([f"{limiter.rate(bps)}bit"] if limiter else [])]


def _port(block: Block, plan: Plan, profile: Port) -> None:
    block.add(plan.mtu_source, f'ip link set dev "$dev" mtu {plan.wire.mtu}')
    if plan.pfc:
        on = " ".join(f"{profile.number(queue)}:on" for queue in range(plan.pfc.classes))
        ask = f'dcb pfc set dev "$dev" prio-pfc all:off {on} || echo "$dev: its driver has no flow control" >&2'
        block.add(plan.source("fabric.pfc"), ask)
    block.note("The queues of an earlier call are removed.")
    block.plain('tc qdisc del dev "$dev" root 2> /dev/null || true')
    if not _marks(plan, profile) or _by_queue(profile):
        _tree(block, plan, profile)
        return
    block.plain("if [[ ${MARKS:-yes} == yes ]]; then")
    _marked_port(block.inner(), plan, profile)
    block.plain("else")
    _tree(block.inner(), plan, profile)
    block.plain("fi")


def _tree(block: Block, plan: Plan, profile: Port) -> None:
    """Add queues that HTB serves in strict priority."""
    last = len(profile.queues) - 1
    block.note(f"Queues in strict priority: {plan.source(profile.queues_key)}.")
    block.plain(
        f'tc qdisc add dev "$dev" root handle 1: htb default {_minor(last)}',
        f'tc class add dev "$dev" parent 1: classid 1:1 htb rate "$rate" {_BURST} quantum {_quantum(plan)}',
    )
    if limiter := profile.limiter:
        rate = f'rate {_LEAST_RATE} {_NO_BURST} ceil "$limit" cburst {limiter.burst} quantum {_quantum(plan)}'
        source = f"{limiter.part} of {limiter.whole} bytes: {plan.source(limiter.share_key, limiter.burst_key)}"
        block.add(source, f'tc class add dev "$dev" parent 1:1 classid 1:2 htb {rate}')
    for queue in range(len(profile.queues)):
        _queue(block, plan, profile, queue)


def _marked_port(block: Block, plan: Plan, profile: Port) -> None:
    """Add queues in strict priority below one RED, which marks by all that waits at the port.

    What is below RED may not shape: RED takes a queue that gives it no packet for an empty one, and then marks nothing. So HTB
    is above it, and the queues are those of `prio`.
    """
    queues = len(profile.queues)
    block.plain(
        'tc qdisc add dev "$dev" root handle 1: htb default 1',
        f'tc class add dev "$dev" parent 1: classid 1:1 htb rate "$rate" {_BURST} quantum {_quantum(plan)}',
    )
    _mark(block, plan, profile, "parent 1:1 handle 9:")
    block.note(f"Queues in strict priority: {plan.source(profile.queues_key)}.")
    others = " ".join([str(queues - 1)] * _PRIORITIES)
    block.plain(f'tc qdisc add dev "$dev" parent 9:1 handle 2: prio bands {queues} priomap {others}')
    for queue in range(queues):
        block.note(_holds(profile, queue))
        _fifo(block, plan, profile, queue, f"2:{queue + 1}")
        _filters(block, profile, queue, "2:", f"2:{queue + 1}")


def _queue(block: Block, plan: Plan, profile: Port, queue: int) -> None:
    limited = profile.is_limited(queue)
    minor = _minor(queue)
    begin = f'tc class add dev "$dev" parent {"1:2" if limited else "1:1"} classid 1:{minor} htb rate {_LEAST_RATE}'
    rest = f"{_NO_BURST} ceil " + ('"$limit"' if limited else '"$rate" cburst "$burst"')
    block.note(_holds(profile, queue))
    block.plain(f"{begin} {rest} prio {queue} quantum {_quantum(plan)}")
    if _marks(plan, profile) and _by_queue(profile) and not limited:
        _mark_queue(block, plan, profile, queue)
    else:
        _fifo(block, plan, profile, queue, f"1:{minor}")
    _filters(block, profile, queue, "1:", f"1:{minor}")


def _holds(profile: Port, queue: int) -> str:
    return f"Queue {queue}: {profile.queues[queue].holds}. Class {queue} is sent as DSCP {dscp(queue)}."


def _fifo(block: Block, plan: Plan, profile: Port, queue: int, parent: str) -> None:
    fifo = f'tc qdisc add dev "$dev" parent {parent} handle {_minor(queue)}: bfifo limit {_room(profile, queue)}'
    block.add(plan.source(*profile.room_keys(queue)), fifo)


def _filters(block: Block, profile: Port, queue: int, parent: str, to: str) -> None:
    """Let packets of a class go into its queue. What no filter chooses goes into the last one."""
    if queue == len(profile.queues) - 1:
        return
    tos = dscp(queue) << 2
    block.plain(
        f'tc filter add dev "$dev" parent {parent} protocol ip prio 1 u32 match ip dsfield {tos:#04x} 0xfc flowid {to}',
        f'tc filter add dev "$dev" parent {parent} protocol ipv6 prio 2 u32 match ip6 priority {tos:#04x} 0xfc flowid {to}',
    )


def _marks(plan: Plan, profile: Port) -> bool:
    return profile.marks is not None and plan.host.ecn


def _by_queue(profile: Port) -> bool:
    return len(profile.queues) == 1 or (profile.marks is not None and profile.marks.by_queue)


def _mark(block: Block, plan: Plan, profile: Port, place: str) -> None:
    """Add RED that marks all above the threshold, or at random between two.

    Its burst is the least, so that its average follows the queue at once: as many packets as the threshold has, of a size that
    divides it.
    """
    marks = profile.marks
    if marks is None:
        raise ValueError("the port marks")
    limits = f"limit {_room(profile, 0)} min {marks.begins} max {marks.all_above}"
    burst = math.ceil(marks.begins / _AVERAGE)
    average = f"avpkt {math.ceil(marks.begins / burst)} burst {burst}"
    share, least = marks.share, 1.001 * (marks.all_above - marks.begins) / _SHARE_RANGE
    if marks.is_random and share < least:
        block.note(f"`tc` takes no share of marks below {least:.2g} between these thresholds.")
    probability = f"{min(max(share, least), _SHARE_MAX):.6g}" if marks.is_random else "1"
    block.add(
        plan.source(*marks.keys, *profile.room_keys(0)),
        f'tc qdisc add dev "$dev" {place} red {limits} {average} probability {probability} bandwidth {_DECAY} ecn nodrop',
    )


def _mark_queue(block: Block, plan: Plan, profile: Port, queue: int) -> None:
    minor = _minor(queue)
    block.plain("if [[ ${MARKS:-yes} == yes ]]; then")
    _mark(block.inner(), plan, profile, f"parent 1:{minor} handle {minor}:")
    block.plain("else")
    _fifo(block.inner(), plan, profile, queue, f"1:{minor}")
    block.plain("fi")


def _minor(queue: int) -> int:
    return 10 + queue


def _quantum(plan: Plan) -> int:
    return plan.wire.mtu + _HEADER


def _room(profile: Port, queue: int) -> int:
    """Return how many bytes a queue may hold."""
    limit, memory = profile.queues[queue].limit, profile.memory
    if limit:
        return limit.bytes
    if memory is None:
        raise ValueError("a queue without a limit has a memory")
    if memory.division is Division.DYNAMIC and memory.alpha is not None:
        return int(memory.bytes * memory.alpha / (1 + memory.alpha))
    return memory.bytes


def host(plan: Plan) -> File | None:
    """Return the script for hosts with the kernel's TCP; None if the transport is a program of its own."""
    if plan.host.kernel is None:
        return None
    block = Block("#")
    block.plain("#!/bin/bash")
    count = sum(nic.count for nic in plan.nics)
    block.note(f"Hosts: {count}. {plan.name} in {plan.title}.", "Usage, as root: ./hosts.sh DEVICE")
    block.plain("set -euo pipefail", "dev=${1:?usage: hosts.sh DEVICE}", "")
    own = f'transport.name = "{plan.transport}"'
    block.add(plan.mtu_source, f'ip link set dev "$dev" mtu {plan.wire.mtu}')
    control = plan.host.kernel.control
    if plan.host.kernel.lacks:
        block.note(f"The closest congestion control of the kernel is {control}: {plan.host.kernel.lacks}.")
    block.add(
        own,
        f"modprobe --quiet tcp_{control} || true  # it may be built in",
        f"sysctl -qw net.ipv4.tcp_congestion_control={control}",
    )
    block.add(
        f"{own}: {'its packets are ECN-capable' if plan.host.ecn else 'its packets are not ECN-capable'}",
        f"sysctl -qw net.ipv4.tcp_ecn={int(plan.host.ecn)}",
    )
    routes = [_ROUTE[knob.name](knob) for knob in plan.host.kernel.knobs if knob.name in _ROUTE]
    if routes:
        block.note(*(plan.source(knob.key) for knob in plan.host.kernel.knobs if knob.name in _ROUTE))
        block.note(
            "`ip` prints words that it does not take. Two kinds of IPv6 routes stay as they are: those that routers advertise,",
            "which the kernel would not know again, and link-local ones, in whose place it could change another device's.",
        )
        block.plain(
            "for family in -4 -6; do",
            '  ip $family route show dev "$dev" |',
            f"    sed -E '{_STAYS}; {_METRICS}' |",
            f"    sed -E '{_STATES}' |",
            "    while read -r route; do",
            f'      ip $family route change $route dev "$dev" {" ".join(routes)}',
            "    done",
            "done",
        )
    for knob in plan.host.kernel.knobs:
        if knob.name in _SYSCTL:
            block.add(plan.source(knob.key), _SYSCTL[knob.name](knob))
    if tagger := plan.host.tagger:
        source = plan.source(tagger.key)
        if tagger.thresholds:
            thresholds = ",".join(map(size, tagger.thresholds))
            given = f'"$dev" --thresholds {thresholds}'
            block.note("A tagger of this version is changed. One of another version gives way.")
            block.add(
                source,
                f"if ! {tagger.change} {given} 2> /dev/null; then",
                f'  if {tagger.detach} "$dev" 2> /dev/null; then',
                '    echo "$dev: a tagger of another version gave way. Options other than thresholds are as at first." >&2',
                "  fi",
                f"  {tagger.command} {given}",
                "fi",
            )
        else:
            block.note(f"{source}: there is one class, and nothing to tag.")
    return File("hosts.sh", block.text, executable=True)


_STAYS = "/^fe80:| proto ra | expires /d"
"""What `sed` does to routes that `ip` prints and that are not to be changed."""
_METRICS = "s/ (nhid|initcwnd|rto_min)( lock)? [^ ]+//g"
"""What `sed` does to what a route may have already: the metrics, and a number that stands for the next hop beside it."""
_STATES = r"s/ (dead|linkdown|pervasive|offload|trap|notify|unresolved|rt_offload|rt_trap|rt_offload_failed)\b//g"
"""What `sed` does to the states that `ip` prints (print_rt_flags of iproute2), but for `onlink`, which it takes."""
_Setting = Callable[[Knob], str]
_ROUTE: dict[str, _Setting] = {
    "initial_window": lambda knob: f"initcwnd {knob.value}",
    "rto_min_us": lambda knob: f"rto_min {max(1, math.ceil(knob.value / 1000))}ms",
}


def _parameter(name: str, value: int) -> str:
    return f'echo {value} > "/sys/module/tcp_dctcp/parameters/{name}" || true  # it can be set where DCTCP is a module'


_SYSCTL: dict[str, _Setting] = {
    "sack": lambda knob: f"sysctl -qw net.ipv4.tcp_sack={int(knob.value)}",
    "slow_start_after_idle": lambda knob: f"sysctl -qw net.ipv4.tcp_slow_start_after_idle={int(knob.value)}",
    "reordering": lambda knob: f"sysctl -qw net.ipv4.tcp_reordering={knob.value}",
    "gain": lambda knob: _parameter("dctcp_shift_g", round(-math.log2(knob.value)) if knob.value > 0 else 10),
    "initial_alpha": lambda knob: _parameter("dctcp_alpha_on_init", round(1024 * knob.value)),
}
