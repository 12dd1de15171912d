"""What is wrong, or looks wrong, with an installation, a scenario or a result."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flowloom import _native, engine, metrics, results
from flowloom.results import Results
from flowloom.scenario import Scenario


class Finding(NamedTuple):
    """One observation."""

    level: str
    """`ok`, `note` (worth knowing), or `problem` (the numbers do not mean what they seem to)."""
    text: str


def of_installation() -> list[Finding]:
    """Check that the package can do its work."""
    from importlib.metadata import version

    from flowloom.figures import catalogue
    from flowloom.jobs import cores
    from flowloom.provenance import commit

    kinds = engine.catalogue()
    found = [
        Finding("ok", f"flowloom {version('flowloom')} ({commit() or 'installed'}), Python {platform.python_version()}"),
        Finding("ok", f"simulator: {len(kinds['transports'])} transports, {len(kinds['workloads'])} workloads"),
        Finding("ok", f"{cores()} cores for sweeps"),
    ]
    for package in ("numpy", "pyarrow", "scipy", "matplotlib", "rich"):
        try:
            found.append(Finding("ok", f"{package} {version(package)}"))
        except ImportError:
            found.append(Finding("problem", f"{package} is not installed"))
    try:
        found.append(Finding("ok", f"papers: {', '.join(catalogue.papers())}"))
    except _native.ScenarioError as error:
        found.append(Finding("note", str(error)))
    return found


def of_scenario(path: Path) -> list[Finding]:
    """Run a scenario, with no more than two thousand flows of each part, and examine the result.

    Raises:
        ScenarioError: It is not valid.
        RunError: The simulation failed.
    """
    from flowloom.engine import simulate

    scenario = Scenario.of(path)
    workload = tomllib.loads(scenario.resolve()).get("workload", {})
    counts = {"workload.flows": workload} | {f"workload.part.{i}.flows": p for i, p in enumerate(workload.get("part", []))}
    scenario = scenario.set({key: 2000 for key, part in counts.items() if part.get("flows", 0) > 2000})
    return [Finding("ok", f"{path} is valid"), *_examine(simulate(scenario))]


def of_result(directory: Path) -> list[Finding]:
    """Examine a results directory.

    Raises:
        ScenarioError: It is none.
    """
    return list(_examine(results.load(directory)))


def _examine(result: Results) -> list[Finding]:
    spec = tomllib.loads(result.scenario)
    found = [
        *_finished(result.summary),
        *_stable(result),
        *_enough(result.summary),
        *_mechanisms(result.summary, spec),
    ]
    if sum(result.summary["sent_by_class"]):
        found.append(Finding("ok", f"packets by priority: {_shares(result.summary)}"))
    return found if found else [Finding("ok", "all flows finished, and the network kept up")]


def _finished(summary: Mapping[str, Any]) -> Iterator[Finding]:
    missing = summary["flows"] - summary["finished"]
    if missing:
        yield Finding(
            "problem",
            f"{missing} of {summary['flows']} flows did not finish and are missing from every slowdown and FCT, which "
            f"therefore look better than they are; raise or remove run.time_limit{_losses(summary)}",
        )
    if summary["not_started"]:
        yield Finding("note", f"{summary['not_started']} flows had not started when the run ended, and are in no number of it")


def _losses(summary: Mapping[str, Any]) -> str:
    """Say where most packets were dropped and why, if any were."""
    drops = summary["drops"]
    if not drops["total"]:
        return ""
    hop, reason = (max(drops[key], key=drops[key].__getitem__) for key in ("by_hop", "by_reason"))
    return f"; {drops['total']} packets were dropped, most of them at {hop}, and most as {reason}"


def _stable(result: Results) -> Iterator[Finding]:
    from flowloom.claims.checks import mean_within

    if "pending" not in result.series:
        return
    table = result.series["pending"]
    x, y = (table[name].to_pylist() for name in table.column_names[:2])
    early, late = mean_within(x, y, (0.3, 0.5)), mean_within(x, y, (0.8, 1.0))
    if early > 0.002 and late > 1.5 * early:
        yield Finding(
            "problem",
            f"the backlog at the sources grew from {early:.1%} to {late:.1%} of all bytes while flows arrived: the network "
            "does not keep up with the load (or the run is too short to tell), so slowdowns depend on the length of the run",
        )


def _enough(summary: Mapping[str, Any]) -> Iterator[Finding]:
    for entry in summary["slowdown"]["by_size"]:
        if 0 < entry["finished"] < 100:
            yield Finding(
                "note",
                f"only {entry['finished']} finished flows are of size {metrics.bin_label(entry)}: their 99th percentile is the "
                "worst of a few; raise workload.flows",
            )


def _mechanisms(summary: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Finding]:
    """Find what was configured and did nothing."""
    name = summary["transport"]
    settings = spec.get("transport", {}).get(name, {})
    yield from _classes(summary, name, settings)
    yield from _marking(summary, name, settings)
    if spec.get("fault") and not any(summary["drops"]["by_reason"].get(r) for r in ("lost", "corrupted", "link_down")):
        yield Finding("note", "faults are configured, but no packet was lost to one")
    workload = spec.get("workload", {})
    if any(part.get("deadline") for part in (workload, *workload.get("part", []))) and summary["deadlines_met"] is None:
        yield Finding("note", "workload.deadline is set, but no flow had a deadline")


def _classes(summary: Mapping[str, Any], name: str, settings: Mapping[str, Any]) -> Iterator[Finding]:
    used = [number for number, packets in enumerate(summary["sent_by_class"]) if packets]
    wanted = {key: value for key in ("classes", "queues", "priorities") if isinstance(value := settings.get(key), int)}
    if thresholds := settings.get("thresholds"):
        wanted["classes"] = len(thresholds) + 1
    for key, count in wanted.items():
        if used and len(used) < count:
            yield Finding("note", f"{name} sets up {count} {key}, but packets went in {len(used)}: {_shares(summary)}")
    if settings.get("data_priorities") and len(used) < 3:
        yield Finding("note", f"{name} sets data_priorities, but all data went in one class: {_shares(summary)}")


def _marking(summary: Mapping[str, Any], name: str, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Find ports that are to mark and did not; PIAS has TCP's settings in a table of their own."""
    port = settings.get("tcp", settings).get("port", {})
    if summary["marks"] or port.get("ecn", "off") == "off" or name == "tcp":
        return
    if settings.get("controller") == "newreno":
        yield Finding("note", f"{name} runs over newreno, whose packets are not ECN-capable: none was marked")
        return
    longest = max((hop["peak_bytes"] for hop in summary["queue"].values()), default=0)
    yield Finding(
        "note",
        f"{name} answers marks, but no packet was marked: switches mark above {port['mark_above']}, and the longest queue "
        f"held {longest / 1000:g}kB; raise fabric.buffer, if it holds less, or lower mark_above",
    )


def _shares(summary: Mapping[str, Any]) -> str:
    packets = summary["sent_by_class"]
    return ", ".join(f"class {number} {count / sum(packets):.1%}" for number, count in enumerate(packets) if count)
