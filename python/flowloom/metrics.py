"""Metrics: the numbers in a run's summary, expressions over them, and their definitions."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom._native import ScenarioError
from flowloom.stats import Estimate
from flowloom.words import shown, suggestion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DECIMALS_MAX = 12
"""Numbers that need more decimals than this are written as zero."""


def evaluate(expression: str, summary: Mapping[str, Any]) -> float:
    """Compute an expression over a summary: `slowdown.p99 / slowdown.mean`, `drops.by_hop["host-leaf"]`.

    An expression may have paths, numbers, + - * / and parentheses. A null in the summary, or a division by zero, gives NaN.

    Raises:
        ScenarioError: The expression is malformed, or has a path that the summary does not have.
    """
    tree = _parse(expression)
    value = _value(tree, summary, expression)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(expression, f"its value must be a number, but is {_kind(value)}")
    try:
        return float(value)
    except OverflowError:
        raise _bad(expression, "its value is too large") from None


def evaluate_each(expression: str, columns: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Compute an expression for each row of a table with at least one column: `fct_us / 1000`. A division by zero gives NaN.

    Raises:
        ScenarioError: The expression is malformed, or names a column that the table does not have.
    """
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        values = _value(_parse(expression), columns, expression)
        return np.broadcast_to(values, np.broadcast_shapes(*(column.shape for column in columns.values()))).astype(float)


def paths(expression: str) -> list[tuple[str | int, ...]]:
    """Return the paths in an expression: `slowdown.by_size[0].mean` is `("slowdown", "by_size", 0, "mean")`.

    Raises:
        ScenarioError: The expression is malformed.
    """
    found: list[tuple[str | int, ...]] = []
    pending = [_parse(expression)]
    while pending:
        match pending.pop():
            case ast.Constant(value=int() | float()):
                pass
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                pending += [right, left]
            case node:
                found.append(_path(node, expression))
    return found


def _path(node: ast.expr, expression: str) -> tuple[str | int, ...]:
    backwards: list[str | int] = []
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner, attr=name):
                backwards.append(name)
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as name)):
                backwards.append(name)
            case _:
                raise _bad(expression, _GRAMMAR)
        node = inner
    return (node.id, *reversed(backwards))


_GRAMMAR = "only paths such as slowdown.by_size[0].mean, numbers, + - * / and parentheses can be used"
# Deep nesting and long sums would overflow the stack.
_EXPRESSION_MAX = 500


def _parse(expression: str) -> ast.expr:
    if len(expression) > _EXPRESSION_MAX:
        raise _bad(expression, f"it is longer than {_EXPRESSION_MAX} characters")
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _bad(expression, f"it is not an expression: {getattr(error, 'msg', error)}") from error


def _bad(expression: str, why: str) -> ScenarioError:
    return ScenarioError(f"metric `{shown(expression)}`: {why}")


def _value(node: ast.expr, summary: Mapping[str, Any], expression: str) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return _item(summary, name, expression)
        case ast.Attribute(value=inner, attr=name):
            return _item(_value(inner, summary, expression), name, expression)
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as name)):
            return _item(_value(inner, summary, expression), name, expression)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = (_value(side, summary, expression) for side in (left, right))
            for side in (a, b):
                if not isinstance(side, int | float) and not _is_column(side):
                    raise _bad(expression, f"an operand must be a number, but is {_kind(side)}")
            try:
                return _OPERATORS[type(op)](a, b)
            except OverflowError:
                raise _bad(expression, "its value is too large") from None
    raise _bad(expression, _GRAMMAR)


def _divide(a: Any, b: Any) -> Any:
    if not _is_column(b):
        return a / b if b else math.nan
    import numpy as np

    return np.divide(a, b, out=np.full(b.shape, math.nan), where=b != 0)


_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divide}


def _is_column(value: Any) -> bool:
    """Return whether a value is a NumPy array. NumPy is not imported for this, since most commands do not need it."""
    return hasattr(value, "dtype")


def _item(holder: Any, name: str | int, expression: str) -> Any:
    if isinstance(holder, float) and math.isnan(holder):
        return holder
    if isinstance(holder, list) and isinstance(name, int):
        if not 0 <= name < len(holder):
            raise _bad(expression, f"the list has {len(holder)} entries, counted from 0")
        found = holder[name]
    elif isinstance(holder, Mapping):
        if name not in holder:
            names = [str(key) for key in holder]
            raise _bad(expression, f'the summary has no "{shown(name)}": {suggestion(str(name), names)}')
        found = holder[name]
    else:
        raise _bad(expression, f'"{shown(name)}" cannot be looked up in {_kind(holder)}')
    return math.nan if found is None else found


def _kind(value: Any) -> str:
    kinds = {"dict": "a group of values", "list": "a list, whose entries are [0], [1] and so on", "str": "a text"}
    return kinds.get(type(value).__name__, "a single value")


class Metric(NamedTuple):
    """The definition of a number in the summary."""

    label: str
    """The name with its unit, for axes and table heads."""
    about: str
    """The definition, in a sentence or two."""
    digits: str = ".3g"
    """The format in tables: `.3g` is three significant digits (never with an exponent), `d` a whole number."""


METRICS = {
    "flows": Metric("Flows", "The number of flows that started.", "d"),
    "finished": Metric(
        "Flows finished", "The number of flows that finished; slowdowns and FCTs do not count any other flow.", "d"
    ),
    "aborted": Metric(
        "Flows aborted",
        "The number of flows that were given up because of their deadline or because a node was down. Slowdowns and FCTs do "
        "not count them, and they have missed their deadlines.",
        "d",
    ),
    "not_started": Metric(
        "Flows not started",
        "The number of the workload's flows that had not started when the run ended; no other number counts them.",
        "d",
    ),
    "slowdown": Metric(
        "Slowdown",
        "A flow's completion time divided by its completion time alone in the network (metrics.optimum defines the latter). "
        "The best possible value is 1. `by_size` has it for each range of flow sizes.",
    ),
    "slowdown.by_size": Metric(
        "Slowdown by flow size",
        "A list with an entry for each range of flow sizes (metrics.size_bins), the smallest first: "
        "`slowdown.by_size[0].mean`. Each has above_bytes, up_to_bytes, flows, finished, mean, p50, p95 and p99.",
    ),
    "slowdown.mean": Metric(
        "Mean slowdown", "The mean over finished flows. Each flow counts once, so the many short flows dominate it."
    ),
    "slowdown.p50": Metric("Median slowdown", "Half of the finished flows have at most this slowdown."),
    "slowdown.p95": Metric("95th-percentile slowdown", "One finished flow in twenty has a larger slowdown."),
    "slowdown.p99": Metric("99th-percentile slowdown", "One finished flow in a hundred has a larger slowdown."),
    "fct_us": Metric(
        "FCT (µs)",
        "Flow completion time: from when the application hands the flow to the sender until the end that metrics.fct_end "
        "selects (the last byte at the receiver, or the final acknowledgement at the sender), plus metrics.request_delay. "
        "`by_size` has it for each range of flow sizes.",
    ),
    "fct_us.by_size": Metric("FCT by flow size (µs)", "The same list as slowdown.by_size, for completion times."),
    "fct_us.mean": Metric("Mean FCT (µs)", "The mean over finished flows. The few long flows dominate it.", ".4g"),
    "fct_us.p50": Metric("Median FCT (µs)", "Half of the finished flows took no longer.", ".4g"),
    "fct_us.p95": Metric("95th-percentile FCT (µs)", "One finished flow in twenty took longer.", ".4g"),
    "fct_us.p99": Metric("99th-percentile FCT (µs)", "One finished flow in a hundred took longer.", ".4g"),
    "nfct": Metric(
        "Normalised FCT",
        "The mean completion time of finished flows divided by their mean optimum. Long flows dominate it, unlike the mean "
        "slowdown.",
    ),
    "goodput_gbps": Metric(
        "Goodput per host (Gb/s)",
        "Payload delivered for the first time, per host and second, from the first flow's start to the last flow's end. A "
        "few long flows that end late reduce it.",
    ),
    "throughput": Metric("Throughput", "Goodput divided by the rate of a host's link.", ".3f"),
    "jain": Metric(
        "Jain's fairness index",
        "How evenly the flows shared: 1 if all had the same mean rate, 1/n if one of n flows had everything. It compares flows "
        "that compete for the same links; of a whole workload it says little.",
        ".3f",
    ),
    "deadlines_met": Metric("Deadlines met", "The share of flows with a deadline that met it.", ".1%"),
    "drops": Metric("Drops", "Packets lost at ports and on links. Trimmed packets do not count."),
    "drops.total": Metric("Packets dropped", "Data and control packets lost.", "d"),
    "drops.data": Metric("Data packets dropped", "Data packets lost.", "d"),
    "drops.rate": Metric("Drop rate", "Data packets lost divided by data packets sent. Every transmission counts.", ".3%"),
    "drops.by_hop": Metric(
        "Packets dropped by hop",
        "Packets lost at each kind of hop. A hop's name has the two tiers that it joins, in the direction of travel.",
    ),
    "drops.by_reason": Metric(
        "Packets dropped by reason", "Packets lost for each reason: overflow, pushed_out, expired, lost and so on."
    ),
    "queueing_us_mean": Metric(
        "Mean queueing (µs)", "The mean time that a packet waits in all queues on its path, by Little's law."
    ),
    "backlog": Metric(
        "Growth of the backlog (B)",
        "How the bytes of open flows grow in the `first` and the `second` half of the time in which flows arrive, what has "
        "`arrived` in the second half, and the standard deviation of that (`noise`). `warm_up` is the mean optimum of a byte's "
        "flow, as a share of half of this time. Flows that were given up do not count.",
    ),
    "backlog.arrived": Metric(
        "Bytes that arrived late",
        "The bytes of the flows that start in the second half of the time in which flows arrive.",
        "d",
    ),
    "backlog.first": Metric(
        "Growth of the backlog, first half (B)",
        "By how much the bytes of open flows grow in the first half of the time in which flows arrive.",
        "d",
    ),
    "backlog.second": Metric(
        "Growth of the backlog, second half (B)",
        "By how much the bytes of open flows grow in the second half of the time in which flows arrive.",
        "d",
    ),
    "backlog.noise": Metric(
        "Noise of what arrives (B)",
        "The standard deviation of the bytes that arrive in the second half, if flows arrive independently.",
        "d",
    ),
    "backlog.warm_up": Metric(
        "Warm-up (share)",
        "The optimum of the flow that a byte belongs to, averaged over all bytes, as a share of half of the time in which "
        "flows arrive.",
    ),
    "queue_peak_bytes": Metric("Peak queue (B)", "The most bytes ever queued at one port of a switch.", "d"),
    "queue": Metric(
        "Queues by hop",
        'mean_bytes, peak_bytes and wait_us_mean of the ports of each kind of hop: `queue["leaf-host"].peak_bytes`.',
    ),
    "utilisation": Metric(
        "Utilisation by hop",
        "Wire bytes sent divided by what links could send in the active interval, for each kind of hop: the mean over its "
        "links, and the maximum.",
    ),
    "retransmissions": Metric("Retransmissions", "Data packets that were retransmitted.", "d"),
    "timeouts": Metric("Timeouts", "How often retransmission timers of senders expired.", "d"),
    "second_timeouts": Metric("Second timeouts", "Timeouts that were the second in a row.", "d"),
    "data_packets": Metric("Data packets", "Data packets that left their sources. Every transmission counts.", "d"),
    "marks": Metric("ECN marks", "Packets marked with congestion experienced. A packet counts once for each port.", "d"),
    "trims": Metric("Packets trimmed", "Packets whose payload was cut off at a port.", "d"),
    "requests": Metric(
        "Requests (coflows)", "Requests, or coflows: sets of flows that are useful only together. None if there are none."
    ),
    "requests.count": Metric("Coflows", "The number of requests (coflows) with a flow that started.", "d"),
    "requests.finished": Metric("Finished coflows", "The number of requests (coflows) whose flows all finished.", "d"),
    "requests.completion_us.mean": Metric(
        "Mean request completion (µs)",
        "The time from the first flow's start to the last flow's end of a request (the coflow completion time, CCT), plus "
        "metrics.request_delay.",
        ".4g",
    ),
    "requests.completion_us.p50": Metric(
        "Median request completion (µs)", "Half of the finished requests took no longer.", ".4g"
    ),
    "requests.completion_us.p95": Metric(
        "95th-percentile request completion (µs)", "One finished request in twenty took longer.", ".4g"
    ),
    "requests.completion_us.p99": Metric(
        "99th-percentile request completion (µs)", "One finished request in a hundred took longer.", ".4g"
    ),
    "requests.slowdown.mean": Metric(
        "Mean coflow slowdown",
        "The completion time of a request (coflow) divided by a lower bound: the longest optimum of its flows or, if that is "
        "longer, the time that the busiest host's link takes for its bytes.",
        ".4g",
    ),
    "requests.slowdown.p50": Metric("Median coflow slowdown", "Half of the finished coflows had no larger slowdown.", ".4g"),
    "requests.slowdown.p95": Metric(
        "95th-percentile coflow slowdown", "One finished coflow in twenty had a larger slowdown.", ".4g"
    ),
    "requests.slowdown.p99": Metric(
        "99th-percentile coflow slowdown", "One finished coflow in a hundred had a larger slowdown.", ".4g"
    ),
    "requests.by_class": Metric(
        "Coflows by class",
        "The same for coflows that are short or long (a flow of 5 MB or more) and narrow or wide (more than 50 flows): "
        "`requests.by_class.long_wide.completion_us.mean`.",
    ),
    "coflow_workloads": Metric(
        "Workloads of coflows",
        "How each workload of kind coflow_trace or coflow_synthetic was made: hosts, divisors of sizes and times, load, and "
        "the flows that were left out because both of their ends are one host.",
    ),
    "misfits": Metric(
        "Misfits",
        "Keys whose values do not suit the network or the flows, what follows from their values, and what would be right.",
    ),
    "findings": Metric(
        "Findings",
        "What the run has shown that makes its numbers misleading, as far as the simulator can tell. Each has the flag and the "
        "text of a warning.",
    ),
    "background": Metric(
        "Background flows", "Flows in the background, which no other number about flows counts. None if there are none."
    ),
    "background.flows": Metric("Background flows", "The number of background flows that started.", "d"),
    "background.finished": Metric("Background flows finished", "The number of background flows that were acknowledged.", "d"),
    "background.bytes": Metric("Background payload (B)", "Payload that background flows delivered.", "d"),
    "background.goodput_gbps": Metric(
        "Background goodput (Gb/s)",
        "Payload that all background flows together delivered, per second from their first start to the end of the run.",
    ),
    "control_messages": Metric(
        "Control messages",
        "Packets that control endpoints (arbitrators, arbiters) handled and sent, in all and by tier. None if the transport "
        "has no control endpoints.",
    ),
    "control_messages.by_tier": Metric(
        "Control messages by tier",
        'The same numbers for the control endpoints of each tier: `control_messages.by_tier["tor"].received`.',
    ),
    "control_messages.received": Metric("Control messages", "Packets delivered to control endpoints.", "d"),
    "control_messages.sent": Metric("Control messages sent", "Packets that control endpoints sent.", "d"),
    "control_messages.received_per_s": Metric(
        "Control messages per second", "Packets delivered to control endpoints, per second of simulated time.", ".4g"
    ),
    "control_messages.received_per_s_max": Metric(
        "Control messages per second, busiest endpoint",
        "Packets delivered to the control endpoint that got the most, per second of simulated time.",
        ".4g",
    ),
    "control_messages.known_flows_peak": Metric(
        "Flows known, most at one endpoint",
        "The largest number of flows whose states one control endpoint kept. A flow counts once for each link that the "
        "endpoint arbitrates for it.",
        "d",
    ),
    "control_messages.endpoints": Metric("Control endpoints", "How many control endpoints there are.", "d"),
    "gaps": Metric(
        "Gaps at receivers",
        "How long links to hosts sent no data while flows to these hosts were open. A gap is longer than one full packet "
        "takes. None unless the scenario sets metrics.gaps.",
    ),
    "gaps.per_s": Metric("Gaps per second", "Gaps per second in which a host had open flows, over all hosts.", ".4g"),
    "gaps.switch_per_s": Metric(
        "Gaps between flows per second",
        "Gaps between packets of two flows, per second in which a host had open flows, over all hosts.",
        ".4g",
    ),
    "gaps.idle_share": Metric(
        "Idle share of downlinks", "Time in gaps divided by the time in which hosts had open flows.", ".1%"
    ),
    "gaps.mean_us": Metric("Mean gap (µs)", "The mean length of a gap.", ".4g"),
    "pfc": Metric(
        "Priority flow control",
        "Pause frames, paused links, and flows that wait for ports which they do not cross. None unless the scenario sets "
        "fabric.pfc.",
    ),
    "pfc.headroom": Metric(
        "Headroom",
        "What each class could store beyond XOFF of what came in over links of a hop, XOFF, and how far below it a class could "
        'go on, in bytes: `pfc.headroom["host-leaf"].bytes`. XOFF is None where ports share memory.',
    ),
    "pfc.frames": Metric("Pause frames", "Pause frames sent, to stop neighbours and to let them go on.", "d"),
    "pfc.stops": Metric("Stops", "How often a class of a link was stopped.", "d"),
    "pfc.paused_share_max": Metric(
        "Longest pause (share)", "Share of the run for which the link was paused that was paused the longest.", ".1%"
    ),
    "pfc.by_link": Metric("Paused links", 'The same for each link that was paused: `pfc.by_link["h0-l0"].share`.'),
    "pfc.victims": Metric(
        "Head-of-line victims",
        "Flows whose packets waited at a paused port, most of whose pauses came from congested ports that the flow does not "
        "cross. None where packets of one flow take different paths, or routes change during the run.",
        "d",
    ),
    "pfc.worst_victims": Metric("Worst victims", "The 20 victims with the most packets that waited."),
    "pfc.storms": Metric("Pause storms", "The links that were paused by nodes which were not out of memory."),
    "tenants": Metric(
        "Tenants",
        "For each tenant (for a mix, each part), by number: flows, finished, bytes, goodput_gbps, slowdown, fct_us, timeouts, "
        'second_timeouts and requests of its flows alone: `tenants["0"].slowdown.mean`.',
    ),
    "jobs": Metric(
        "Jobs",
        'For each job (`kind = "collective"`), by the number of its tenant: what it does, and how long that takes: '
        '`jobs["0"].time_us.mean`.',
    ),
    "jobs.collective": Metric("Collective", "What the ranks do together."),
    "jobs.algorithm": Metric("Algorithm", "How the ranks do it."),
    "jobs.ranks": Metric("Ranks", "How many ranks the job has.", "d"),
    "jobs.bytes": Metric("Size of the collective (B)", "The size of the data, as NCCL's tests count it.", "d"),
    "jobs.iterations": Metric("Iterations", "How many times the ranks do it.", "d"),
    "jobs.finished": Metric("Finished iterations", "The iterations of which every flow finished.", "d"),
    "jobs.time_us.mean": Metric(
        "Mean time of an iteration (µs)",
        "From the start of an iteration's first flow to the end of its last one, the mean over finished iterations.",
        ".5g",
    ),
    "jobs.time_us.p50": Metric("Median time of an iteration (µs)", "Half of the finished iterations took no longer.", ".5g"),
    "jobs.time_us.p95": Metric(
        "95th-percentile time of an iteration (µs)", "One finished iteration in twenty took longer.", ".5g"
    ),
    "jobs.time_us.p99": Metric(
        "99th-percentile time of an iteration (µs)", "One finished iteration in a hundred took longer.", ".5g"
    ),
    "jobs.algorithm_gbps": Metric(
        "Algorithm bandwidth (Gb/s)", "The size over the mean time of an iteration, as NCCL's tests define it.", ".4g"
    ),
    "jobs.bus_gbps": Metric(
        "Bus bandwidth (Gb/s)",
        "The algorithm bandwidth times what each host's link must carry per byte of the size, as NCCL's tests define it: "
        "2 (n - 1) / n for an all-reduce of n ranks, 1 for a broadcast, otherwise (n - 1) / n.",
        ".4g",
    ),
    "sent_by_class": Metric(
        "Packets by class", "Packets that left a port, by priority class from 0. The last entry includes all higher classes."
    ),
    "packet_hops": Metric(
        "Packet-hops", "Departures of packets (data and control) from ports. The cost of a run is proportional to it.", "d"
    ),
    "sim_s": Metric("Simulated time (s)", "The time of the last event.", ".4g"),
    "wall_s": Metric("Wall time (s)", "The duration of the simulation on this machine.", ".3g"),
    "peak_rss_mb": Metric("Peak memory (MB)", "The peak memory of the process.", ".4g"),
    "transport": Metric("Transport", "The transport that ran."),
    "seed": Metric("Seed", "The source of every random choice: the same scenario and seed give the same bytes."),
}


_MEMBERS = {
    "by_size.above_bytes": Metric("Lower edge of the range (B)", "The range's flows are larger than this."),
    "by_size.up_to_bytes": Metric(
        "Upper edge of the range (B)", "The range's flows are no larger than this; the last range has no upper edge."
    ),
    "by_size.flows": Metric("Flows in the range", "The number of flows of this size that started."),
    "by_size.finished": Metric("Flows in the range that finished", "The number of flows of this size that finished."),
    "tenants.bytes": Metric("Payload (B)", "The payload of its flows that was delivered."),
    "queue.mean_bytes": Metric("Mean queue (B)", "Bytes queued at a port, averaged over time and ports."),
    "queue.peak_bytes": Metric("Longest queue (B)", "The maximum number of bytes queued at one port at any time."),
    "queue.wait_us_mean": Metric("Mean wait (µs)", "The mean time that a packet waits at this kind of hop."),
    "by_link.frames": Metric("Pause frames to a link", "Pause frames sent to the port of the link."),
    "by_link.stops": Metric("Stops of a link", "How often a class of the link was stopped."),
    "by_link.paused_us": Metric("Time paused (µs)", "How long each class was paused, by class from 0."),
    "by_link.share": Metric("Share paused", "Share of the run for which the class was paused that was paused the longest."),
    "headroom.bytes": Metric(
        "Headroom (B)", "What each class could store beyond XOFF of what came in, at the port with the largest headroom."
    ),
    "headroom.xoff_bytes": Metric("XOFF (B)", "The threshold of a class at that port. None where ports share memory."),
    "headroom.hysteresis_bytes": Metric("Hysteresis (B)", "How far below XOFF a class had to be before it could go on."),
    "worst_victims.flow": Metric("Victim", "The number of the flow."),
    "worst_victims.packets": Metric("Packets that waited", "Packets of the flow that came to the port while it was paused."),
    "storms.frames": Metric("Pause frames of the storm", "Pause frames that the node sent without need."),
    "coflow_workloads.tenant": Metric("Tenant", "The tenant of its flows: in a mix the number of its part, otherwise 0."),
    "coflow_workloads.coflows": Metric("Coflows made", "How many coflows were read or drawn."),
    "coflow_workloads.hosts": Metric("Hosts", "How many hosts racks were mapped to, or hosts were drawn from."),
    "coflow_workloads.size_divisor": Metric("Size divisor", "What sizes were divided by."),
    "coflow_workloads.time_divisor": Metric(
        "Time divisor", "What times between arrivals were divided by. None if arrivals were drawn."
    ),
    "coflow_workloads.load": Metric(
        "Load", "Wire bytes of all flows, each sent once, divided by what hosts' links could send until the last arrival."
    ),
    "coflow_workloads.local_flows": Metric("Local flows", "Flows that were left out because both of their ends are one host."),
    "coflow_workloads.local_bytes": Metric("Local bytes", "Payload of local flows, after the division of sizes."),
    "coflow_workloads.local_coflows": Metric(
        "Local coflows", "Coflows that have local flows only. No other number counts them."
    ),
    "utilisation.mean": Metric(
        "Mean utilisation", "Wire bytes sent divided by what the links could send, averaged over links."
    ),
    "utilisation.max": Metric(
        "Highest utilisation", "Wire bytes sent divided by what the link could send, for the busiest link."
    ),
}
"""Definitions below groups whose keys depend on the run: `queue` has a key per hop, `by_size` an entry per range."""

_SELECTED = {
    "by_size": "the flows of size range {} of metrics.size_bins (range 0 has the smallest)",
    "tenants": "the flows of tenant {}",
    "jobs": "the job of tenant {}",
    "by_hop": "the hop {}",
    "by_reason": "packets lost for the reason {}",
    "by_tier": "the control endpoints of the tier {}",
    "by_class": "coflows of the class {}",
    "coflow_workloads": "the workload of coflows number {}",
    "by_link": "the link {}",
    "paused_us": "class {}",
    "headroom": "links of the hop {}",
    "worst_victims": "victim number {}",
    "storms": "storm number {}",
    "queue": "the ports of the hop {}",
    "utilisation": "the links of the hop {}",
    "sent_by_class": "class {}",
}
"""By group, the description of one of its members."""
_LISTS = ("by_size", "sent_by_class", "coflow_workloads", "paused_us", "worst_victims", "storms")
"""The groups whose members have numbers. Those of the others have names."""


class Explained(NamedTuple):
    """The meaning of a path in a summary."""

    metric: Metric
    only: tuple[str, ...]
    """What the number is restricted to: `the hop host-leaf`."""


def explain(path: tuple[str | int, ...]) -> Explained | None:
    """Return the meaning of a path in a summary; None if summaries have no such path."""
    names: list[str] = []
    only: list[str] = []
    group = ""
    for part in path:
        if group and (isinstance(part, int) == (group in _LISTS)):
            only.append(_SELECTED[group].format(part))
            group = ""
        elif group or isinstance(part, int):
            return None
        else:
            names.append(part)
            group = part if part in _SELECTED else ""
    for name in (
        ".".join(names),
        ".".join(n for n in names if only and n not in ("by_size", "by_tier", "by_class", "tenants")),
        ".".join(names[-2:]),
    ):
        if metric := METRICS.get(name) or (_MEMBERS.get(name) if only else None):
            return Explained(metric, tuple(only))
    return None


def label(expression: str) -> str:
    """Return the axis label of a metric; an expression without a label is its own label."""
    return METRICS[expression].label if expression in METRICS else expression


def show(expression: str, value: float) -> str:
    """Format a metric's value with its number of significant digits, thousands separators, and no exponent."""
    return show_estimate(expression, Estimate(value, None, 1))


def show_estimate(expression: str, estimate: Estimate) -> str:
    """Format a metric's mean and, if it is known, its interval, with equally many decimals: `1.56 ± 0.03`."""
    if math.isnan(estimate.mean):
        return "-"
    form = METRICS[expression].digits if expression in METRICS else ".3g"
    if form.endswith("g"):
        return spread(estimate, int(form[1:-1]))
    form = ".0f" if form == "d" else form
    return " ± ".join(format(number, f",{form}") for number in estimate[:2] if number is not None)


def spread(estimate: Estimate, digits: int, sign: str = "") -> str:
    """Format a mean and, if it is known, its interval, with equally many decimals; the larger has this many digits."""
    decimals = _decimals(max(abs(estimate.mean), estimate.half_width or 0), digits)
    mean = format(estimate.mean, f"{sign},.{decimals}f")
    return mean if estimate.half_width is None else f"{mean} ± {estimate.half_width:,.{decimals}f}"


def significant(value: float, digits: int) -> str:
    """Format a number with this many significant digits and no exponent: `1,235`, `20.0`, `1.00`."""
    return format(value, f",.{_decimals(value, digits)}f")


def _decimals(value: float, digits: int) -> int:
    if value == 0 or not math.isfinite(value):
        return 0
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded value: 9.996 is written 10.0
    return min(max(digits - 1 - exponent, 0), _DECIMALS_MAX)


def size(count: float) -> str:
    """Format a number of bytes: `29.2 MB`."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count:g} B"


BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""The units of sizes in scenarios, in bytes."""


def bytes_of(text: str) -> float:
    """Read a number of bytes as scenarios write it: `36kB`, `36KiB`.

    Raises:
        ScenarioError: It is not a number of bytes.
    """
    found = re.fullmatch(r"([0-9.]+) *([a-zA-Z]+)", text) if isinstance(text, str) else None
    try:
        if found and found[2] in BYTES:
            return float(found[1]) * BYTES[found[2]]
    except ValueError:  # more than one point
        pass
    raise ScenarioError(f'"{shown(text)}" is not a number of bytes; write it as "100kB" or "36KiB"')


def bin_label(entry: Mapping[str, Any]) -> str:
    """Return the name of an entry of `slowdown.by_size`: `10 kB to 100 kB`."""
    low, high = entry["above_bytes"], entry["up_to_bytes"]
    if high is None:
        return f"over {size(low)}" if low else "all sizes"
    return f"{size(low)} to {size(high)}" if low else f"up to {size(high)}"
