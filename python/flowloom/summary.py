"""The shape of a run's summary: every number that it can have, by its path. docs/data-dictionary.md has their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowloom import metrics
from flowloom._native import ScenarioError
from flowloom.words import shown, suggestion

NUMBER, TEXT = "a number", "a text"
ANY = "*"
"""Stands for any key of a table whose keys depend on the run: hops, tiers, links, tenants and jobs."""
_REASONS = "overflow pushed_out expired lost corrupted link_down unclaimed node_down"


def _numbers(names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), NUMBER)


_SPREAD = _numbers("mean p50 p95 p99")
_BY_SIZE = _SPREAD | {"by_size": [_numbers("above_bytes up_to_bytes flows finished") | _SPREAD]}
_COFLOWS = _numbers("count finished") | {"completion_us": _SPREAD, "slowdown": _SPREAD}
_REQUESTS = _COFLOWS | {"by_class": dict.fromkeys(("short_narrow", "long_narrow", "short_wide", "long_wide"), _COFLOWS)}
_CONTROL = _numbers("endpoints received sent received_per_s received_per_s_max known_flows_peak")
_LINK = _numbers("frames stops share") | {"paused_us": [NUMBER]}
_TENANT = _numbers("flows finished bytes goodput_gbps timeouts second_timeouts")
_JOB = (
    {"collective": TEXT, "algorithm": TEXT}
    | _numbers("ranks bytes iterations finished algorithm_gbps bus_gbps")
    | {"time_us": _SPREAD}
)
_VICTIM = {"flow": NUMBER, "at": TEXT, "congested": TEXT, "packets": NUMBER}
_STORM = {"node": TEXT, "link": TEXT, "frames": NUMBER, "behind": [TEXT]}

SHAPE: dict[str, Any] = {
    "transport": TEXT,
    **_numbers("seed flows finished aborted not_started"),
    "slowdown": _BY_SIZE,
    "fct_us": _BY_SIZE,
    **_numbers("nfct goodput_gbps jain throughput deadlines_met"),
    "drops": _numbers("total data rate") | {"by_hop": {ANY: NUMBER}, "by_reason": _numbers(_REASONS)},
    **_numbers("marks trims queueing_us_mean queue_peak_bytes"),
    "queue": {ANY: _numbers("mean_bytes peak_bytes wait_us_mean")},
    "utilisation": {ANY: _numbers("mean max")},
    **_numbers("retransmissions timeouts second_timeouts"),
    "background": _numbers("flows finished bytes goodput_gbps"),
    "control_messages": _CONTROL | {"by_tier": {ANY: _CONTROL}},
    "gaps": _numbers("per_s switch_per_s idle_share mean_us"),
    "pfc": _numbers("frames stops paused_share_max victims")
    | {
        "headroom": {ANY: _numbers("bytes xoff_bytes hysteresis_bytes")},
        "by_link": {ANY: _LINK},
        "worst_victims": [_VICTIM],
        "storms": [_STORM],
    },
    "data_packets": NUMBER,
    "sent_by_class": [NUMBER],
    "packet_hops": NUMBER,
    "requests": _REQUESTS,
    "misfits": [TEXT],
    "findings": [{"flag": TEXT, "text": TEXT}],
    "coflow_workloads": [_numbers("tenant coflows hosts size_divisor time_divisor load local_flows local_bytes local_coflows")],
    "jobs": {ANY: _JOB},
    "tenants": {ANY: _TENANT | {"slowdown": _BY_SIZE, "fct_us": _BY_SIZE, "requests": _REQUESTS}},
    "backlog": _numbers("arrived first second noise warm_up"),
    **_numbers("sim_s wall_s peak_rss_mb"),
}
_CLASSES = tuple(f"class_{number}_{unit}" for unit in ("bytes", "packets") for number in range(8))
SERIES = {
    "pending": ("arrived_share", "pending_share"),
    "queues": ("time", "span", "link", "bytes", "packets", "mean_bytes", "mean_packets", *_CLASSES),
    "links": ("time", "span", "link", "packets", "bytes", "utilisation", "drops", "data_drops", "marks", "trims", "paused"),
    "flows": ("time", "span", "flow", "sent_bytes", "delivered_bytes", "goodput_gbps"),
    "hosts": ("time", "span", "host", "sending", "receiving", "waiting_bytes", "received_bytes", "goodput_gbps"),
    "steps": ("job", "iteration", "step", "flows", "start", "end", "slowest_flow", "slowest_fct"),
}
"""The series that a run can record over its course, with their columns. That of flows also has the transport's gauges."""
MEMBERS = {"queues": "link", "links": "link", "flows": "flow", "hosts": "host", "steps": "job"}
"""By series, the column that says what a row is of, if a series has rows of several things."""
RESTING = ("queues", "links", "hosts")
"""The series in which no row means zero. In the others, it means that there is no value."""
SHARES = ("arrived_share", "pending_share", "utilisation", "marked_share")
"""The columns of series that are shares."""


def most(counts: Mapping[str, float | None]) -> str | None:
    """Return the name with the largest count; None if nothing was counted, as for hops that nobody looked into."""
    found = {name: count for name, count in counts.items() if count}
    return max(found, key=found.__getitem__) if found else None


def check(expression: str, shape: Any = SHAPE) -> None:
    """Check that each path of an expression leads to a number that a summary can have.

    Args:
        expression: An expression over a summary; see `metrics.evaluate`.
        shape: The shape of the summary, if it is not that of a simulation.

    Raises:
        ScenarioError: The expression is malformed, or no summary has such a number.
    """
    paths = metrics.paths(expression)
    if not paths:
        raise ScenarioError(f"metric `{shown(expression)}` names no number of the summary")
    for path in paths:
        if wrong := _wrong(path, shape):
            raise ScenarioError(f"metric `{shown(expression)}`: {wrong}")


def _wrong(path: tuple[str | int, ...], shape: Any) -> str:
    """Return what is wrong with a path; empty if it leads to a number."""
    for part in path:
        if isinstance(shape, list):
            if not isinstance(part, int) or isinstance(part, bool):
                return f'"{shown(part)}" must be the number of an entry of a list: [0], [1] and so on'
            shape = shape[0]
        elif isinstance(shape, dict):
            if part not in shape and (ANY not in shape or not isinstance(part, str)):
                return f'a summary has no "{shown(part)}" here: {suggestion(str(part), shape)}'
            shape = shape[part] if part in shape else shape[ANY]
        else:
            return f'"{shown(part)}" cannot be looked up in {shape}'
    if shape == NUMBER:
        return ""
    if isinstance(shape, list):
        return "its value must be a number, but is a list, whose entries are [0], [1] and so on"
    within = f"a group of values: {', '.join(shape)}" if isinstance(shape, dict) and ANY not in shape else "a group of values"
    return f"its value must be a number, but is {TEXT if shape == TEXT else within}"
