"""Explains numbers and results in words, for `flowloom explain`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom import columns, integrity, metrics, outputs, results
from flowloom._native import ScenarioError
from flowloom.results import Results
from flowloom.summary import most
from flowloom.words import shown, suggestion

if TYPE_CHECKING:
    import pyarrow as pa


def of_metric(name: str) -> str:
    """Explain what a number in a summary, or a column of the flow table, means and how it is computed.

    Args:
        name: `slowdown.mean`, `finish`, or an expression over a summary, `slowdown.by_size[0].mean / slowdown.mean`.

    Raises:
        ScenarioError: There is no such number.
    """
    if name in columns.FLOWS and name not in metrics.METRICS:
        column = columns.FLOWS[name]
        return f"{name}: a column of flows.parquet" + (f" ({column.unit})" if column.unit else "") + f"\n{column.about}"
    known = [*metrics.METRICS, *columns.FLOWS]
    if name.isidentifier() and name not in known:
        raise ScenarioError(_unknown(name, known))
    return "\n".join(dict.fromkeys(_of_path(path, known) for path in metrics.paths(name)))


def _unknown(name: str, known: list[str]) -> str:
    return f'"{shown(name)}" is neither a metric nor a results directory: {suggestion(name, known)}'


def _of_path(path: tuple[str | int, ...], known: list[str]) -> str:
    name = str(path[0]) + "".join(_step(part) for part in path[1:])
    found = metrics.explain(path)
    if found is None:
        raise ScenarioError(_unknown(name, known))
    inside = [key for key in metrics.METRICS if key.startswith(name + ".")]
    only = f" Counts only {' and '.join(found.only)}." if found.only else ""
    return f"{name}: {found.metric.label}\n{found.metric.about}{only}" + (f"\nSee also {', '.join(inside)}." if inside else "")


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.isidentifier() else f'["{part}"]'


def of_directory(directory: Path) -> str:
    """Explain a result in sentences. For the directory of a comparison, a sweep or a figure, list its runs.

    Raises:
        ScenarioError: The directory is none of these.
    """
    for marker, table, runs in (
        (outputs.SWEEP.marker, "sweep.parquet", directory / "runs"),
        (outputs.FIGURE.marker, "data.parquet", None),
    ):
        if (directory / marker).exists() and not (directory / results.MARKER).exists():
            return _of_runs(directory, table, runs)
    return "\n".join(paragraphs(results.load(directory, whole=True)))


_RUNS_MAX = 40


def _of_runs(directory: Path, table: str, runs: Path | None) -> str:
    """List the runs that a table summarises."""
    path = directory / table
    if not path.exists():
        kept = sorted(marker.parent for marker in runs.glob(f"*/{results.MARKER}")) if runs else []
        lines = [f"{directory} is an unfinished sweep with {len(kept)} finished runs. Repeat the same command to continue it."]
        return "\n".join([*lines, *(f"  flowloom explain {folder}" for folder in kept[:_RUNS_MAX])])
    rows = integrity.read_table(path).to_pylist()
    if not rows or "run" not in rows[0]:
        raise ScenarioError(f"{path} does not list its runs; create it again with the same command")
    lines = [f"{directory} summarises {len(rows)} runs. To explain one of them:"]
    for row in rows[:_RUNS_MAX]:
        what = ", ".join(f"{name} {value}" for name, value in row.items() if _is_key(name, value))
        mean = f", mean slowdown {row['slowdown.mean']:.3g}" if isinstance(row.get("slowdown.mean"), float) else ""
        warned = f" [{row['warnings']}]" if row.get("warnings") else ""
        lines.append(f"  flowloom explain {runs or 'results/runs'}/{row['run']}   {what}{mean}{warned}")
    if len(rows) > _RUNS_MAX:
        lines.append(f"  and {len(rows) - _RUNS_MAX} more, in the column `run` of {path.with_suffix('.csv')}")
    return "\n".join(lines)


def _is_key(name: str, value: Any) -> bool:
    """Return whether a column identifies the run of a row. All metrics are floats, including counts."""
    if name in ("run", "warnings", "tuning", "shown"):
        return False
    try:
        return not (isinstance(value, float) and any(metrics.explain(path) for path in metrics.paths(name)))
    except ScenarioError:
        return True


def paragraphs(result: Results) -> list[str]:
    """Explain what dominated the result of a run, a sentence or two in each paragraph."""
    s = result.summary
    spec = tomllib.loads(result.scenario)
    end = "the final acknowledgement at the sender"
    if spec.get("metrics", {}).get("fct_end") == "receiver":
        end = "the last byte at the receiver"
    lines = [
        f"{s['transport']}, seed {s['seed']}: {s['finished']} of {s['flows'] + s['not_started']} flows finished in "
        f"{metrics.significant(s['sim_s'] * 1e3, 4)} ms{'' if 'hosts' in result.provenance else ' of simulated time'}.",
        f"A flow's completion time runs from its start to {end}.",
        *_beside(s),
        f"The mean slowdown is {_number(s['slowdown']['mean'])}, the 99th percentile {_number(s['slowdown']['p99'])}: how many "
        "times longer flows took than alone in the network. Each flow counts once, so the many short flows dominate.",
        f"The normalised FCT is {_number(s['nfct'])}: total completion time over total optimum. The long flows dominate it.",
    ]
    if (result.directory or Path()).joinpath("flows.parquet").exists():
        lines += _dominance(result.flows)
    lines += _where_time_went(result)
    return lines


def _beside(summary: Mapping[str, Any]) -> Iterator[str]:
    """Describe the rest of the run: flows that did not start, aborted and background flows, control messages, gaps, pauses."""
    if waiting := summary["not_started"]:
        yield f"{waiting} flows did not start before the run ended. No other number counts them."
    if aborted := summary.get("aborted"):
        yield f"{aborted} flows were aborted. They have no completion time and have missed their deadlines."
    if behind := summary.get("background"):
        yield (
            f"{behind['flows']} background flows ran beside them, at {_number(behind['goodput_gbps'])} Gb/s in all; no other "
            "number about flows counts them, unless metrics.background is set."
        )
    if messages := summary.get("control_messages"):
        yield (
            f"Control endpoints handled {messages['received']} messages, {_number(messages['received_per_s'])} per second of "
            f"simulated time, and sent {messages['sent']}."
        )
        if known := messages.get("known_flows_peak"):
            yield f"One of them kept the state of up to {known} flows at a time."
    if (gaps := summary.get("gaps")) and gaps["idle_share"] is not None:
        yield (
            f"Links to hosts sent no data for {gaps['idle_share']:.1%} of the time in which flows to these hosts were open. "
            f"{_number(gaps['switch_per_s'])} gaps per second of this time were between packets of two flows."
        )
    if pfc := summary.get("pfc"):
        yield (
            f"Priority flow control sent {pfc['frames']} pause frames and stopped {len(pfc['by_link'])} links "
            f"{pfc['stops']} times; one link was paused for {pfc['paused_share_max']:.1%} of the run."
        )


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
        f"{_share(size[tenth].sum(), size.sum())} of the bytes and {_share(fct[tenth].sum(), fct.sum())} of the total "
        "completion time."
    )
    lines.append(
        f"Waiting, loss and start-up cause {_share(excess.sum(), fct.sum())} of the total completion time; the rest is the "
        f"optimum. The largest tenth of the flows has {_share(excess[tenth].sum(), excess.sum())} of that excess."
    )
    worst = int(np.nanargmax(done["slowdown"].to_numpy()))
    row = done.slice(worst, 1).to_pylist()[0]
    lines.append(
        f"The flow with the largest slowdown is {row['id']}: {metrics.size(row['bytes'])} from host {row['src']} to "
        f"{row['dst']}, slowdown {_number(row['slowdown'])}, {row['retransmissions']} packets retransmitted."
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
            f"A packet waits {_number(s['queueing_us_mean'])} µs in queues on average. The longest waits are at the hop {hop}: "
            f"{_number(waits[hop])} µs on average, with a peak queue of {metrics.size(s['queue'][hop]['peak_bytes'])}."
        )
    drops = s["drops"]
    if drops["total"] is None:
        lines.append(
            f"Real hosts ran it, and what its network lost and queued was not counted. {s['retransmissions']} packets were "
            "retransmitted."
        )
    elif drops["total"]:
        share = "" if drops["rate"] is None else f" ({metrics.show('drops.rate', drops['rate'])} of the data packets)"
        hop = most(drops["by_hop"])
        where = f", most at the hop {hop} ({_share(drops['by_hop'][hop], drops['total'])})" if hop else ""
        lines.append(f"{drops['total']} packets were lost{share}{where}. {s['retransmissions']} packets were retransmitted.")
    else:
        lines.append("No packet was lost.")
    return lines


def _number(value: float | None) -> str:
    return "unknown" if value is None else metrics.significant(value, 3)
