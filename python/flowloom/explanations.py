"""What numbers mean, and what a result says."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from flowloom import columns, metrics, results
from flowloom._native import ScenarioError
from flowloom.results import Results

if TYPE_CHECKING:
    import pyarrow as pa


def of_metric(name: str) -> str:
    """Say what a number in a summary, or a column of the flow table, means and how it is computed.

    Raises:
        ScenarioError: There is no such number.
    """
    if name in metrics.METRICS:
        metric = metrics.METRICS[name]
        inside = [key for key in metrics.METRICS if key.startswith(name + ".")]
        return f"{name}: {metric.label}\n{metric.about}" + (f"\nSee also {', '.join(inside)}." if inside else "")
    if name in columns.FLOWS:
        column = columns.FLOWS[name]
        return f"{name}: a column of flows.parquet" + (f" ({column.unit})" if column.unit else "") + f"\n{column.about}"
    known = [*metrics.METRICS, *columns.FLOWS]
    near = difflib.get_close_matches(name, known, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(known)}"
    raise ScenarioError(f'no result is called "{name}", and it is no results directory: {hint}')


def of_result(directory: Path) -> str:
    """Say in sentences what a result's numbers are, and what dominated its completion times.

    Raises:
        ScenarioError: It is no results directory.
    """
    return "\n".join(_paragraphs(results.load(directory, whole=True)))


def _paragraphs(result: Results) -> list[str]:
    s = result.summary
    spec = tomllib.loads(result.scenario)
    end = "the final acknowledgement at the sender"
    if spec.get("metrics", {}).get("fct_end") == "receiver":
        end = "the last byte at the receiver"
    lines = [
        f"{s['transport']}, seed {s['seed']}: {s['finished']} of {s['flows']} flows finished in {s['sim_s'] * 1e3:.4g} ms "
        f"of simulated time.",
        f"A flow's completion time runs from its start to {end}.",
        f"Mean slowdown {_number(s['slowdown']['mean'])}, 99th percentile {_number(s['slowdown']['p99'])}: how many times "
        f"longer flows took than alone in the network. Each flow counts once, so this is about the many short flows.",
        f"Normalised FCT {_number(s['nfct'])}: total completion time over total optimum, so this is about the long flows.",
    ]
    if (result.directory or Path()).joinpath("flows.parquet").exists():
        lines += _dominance(result.flows)
    lines += _where_time_went(result)
    return lines


def _dominance(flows: pa.Table) -> list[str]:
    import numpy as np

    done = flows.filter(flows["finish"].is_valid())
    if done.num_rows == 0:
        return ["No flow finished, so there is nothing to explain."]
    size = done["bytes"].to_numpy()
    optimum = done["optimum"].to_numpy()
    fct = done["slowdown"].to_numpy() * optimum
    excess = fct - optimum
    lines = []
    order = np.argsort(size)
    tenth = order[-max(len(order) // 10, 1):]  # fmt: skip
    lines.append(
        f"The largest tenth of the flows (from {metrics.size(float(size[tenth].min()))}) have "
        f"{_share(size[tenth].sum(), size.sum())} of the bytes and {_share(fct[tenth].sum(), fct.sum())} of completion time."
    )
    lines.append(
        f"Of all completion time, {_share(excess.sum(), fct.sum())} is beyond the optimum (waiting, loss, start-up); of that "
        f"excess, {_share(excess[tenth].sum(), excess.sum())} is borne by the largest tenth."
    )
    worst = int(np.nanargmax(done["slowdown"].to_numpy()))
    row = done.slice(worst, 1).to_pylist()[0]
    lines.append(
        f"The worst flow is {row['id']}: {metrics.size(row['bytes'])} from host {row['src']} to {row['dst']}, slowdown "
        f"{row['slowdown']:.3g}, {row['retransmissions']} packets sent again."
    )
    return lines


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "none"


def _where_time_went(result: Results) -> list[str]:
    s = result.summary
    lines = []
    waits = {hop: q["wait_us_mean"] for hop, q in s.get("queue", {}).items() if q["wait_us_mean"]}
    if waits:
        hop = max(waits, key=lambda name: waits[name])
        lines.append(
            f"A packet waits {_number(s['queueing_us_mean'])} µs in queues on its way, the longest at {hop}: "
            f"{waits[hop]:.3g} µs on average, {metrics.size(s['queue'][hop]['peak_bytes'])} at the peak."
        )
    drops = s["drops"]
    if drops["total"]:
        hop = max(drops["by_hop"], key=lambda name: drops["by_hop"][name])
        lines.append(
            f"{drops['total']} packets were lost ({metrics.show('drops.rate', drops['rate'] or 0.0)} of the data packets), "
            f"most at {hop} ({_share(drops['by_hop'][hop], drops['total'])}); {s['retransmissions']} were sent again."
        )
    else:
        lines.append("No packet was lost.")
    return lines


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
