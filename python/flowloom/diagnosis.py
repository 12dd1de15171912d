"""Finds what is wrong, or looks wrong, with an installation, a scenario or a result."""

from __future__ import annotations

import platform
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom import _native, metrics, toml
from flowloom.backlog import Growth
from flowloom.scenario import Scenario
from flowloom.summary import most
from flowloom.transports import transport
from flowloom.words import listed

if TYPE_CHECKING:
    from flowloom.results import Results


class Finding(NamedTuple):
    """One observation."""

    level: str
    """`ok`, `note` (worth knowing), or `problem` (the numbers are misleading)."""
    text: str
    flag: str = ""
    """The short name of a warning, which tables show beside the run's numbers. Empty if the finding is no warning."""


def of_installation() -> list[Finding]:
    """Check that the package is complete and its dependencies are installed."""
    from importlib.metadata import version

    from flowloom import engine
    from flowloom.figures import catalogue
    from flowloom.provenance import commit

    kinds = engine.catalogue()
    found = [
        Finding("ok", f"flowloom {version('flowloom')} ({commit() or 'installed'}), Python {platform.python_version()}"),
        Finding("ok", f"simulator: {len(kinds['transports'])} transports, {len(kinds['workloads'])} workloads"),
        _build(),
        Finding("ok", f"{engine.cores()} cores for sweeps"),
    ]
    for package in ("numpy", "pyarrow", "scipy", "matplotlib", "pydantic", "rich", "plotly", "jinja2"):
        try:
            found.append(Finding("ok", f"{package} {version(package)}"))
        except ImportError:
            found.append(Finding("problem", f"{package} is not installed"))
    try:
        found.append(Finding("ok", f"papers: {', '.join(catalogue.papers())}"))
    except _native.ScenarioError as error:
        found.append(Finding("note", str(error)))
    return found


def _build() -> Finding:
    if _native.DEBUG_ASSERTIONS:
        return Finding(
            "note",
            "the simulator is the build with assertions that `make test` installs; it gives the same results, but it takes "
            "a third longer; `make build` installs the optimised build",
        )
    return Finding("ok", "the simulator is the optimised build")


def of_scenario(path: Path) -> list[Finding]:
    """Run a scenario, with at most two thousand flows in each part, and examine the result.

    Raises:
        ScenarioError: The scenario is not valid.
        RunError: The simulation failed.
    """
    from flowloom.engine import simulate

    scenario = Scenario.of(path)
    workload = tomllib.loads(scenario.resolve()).get("workload", {})
    counts = {"workload.flows": workload} | {f"workload.part.{i}.flows": p for i, p in enumerate(workload.get("part", []))}
    scenario = scenario.set({key: 2000 for key, part in counts.items() if part.get("flows", 0) > 2000})
    return [Finding("ok", f"{path} is valid"), *of_result(simulate(scenario))]


def of_result(result: Results) -> list[Finding]:
    """Examine a result."""
    spec = tomllib.loads(result.scenario)
    found = _findings(result, spec)
    if sum(result.summary["sent_by_class"]):
        found.append(Finding("ok", f"packets by priority: {_shares(result.summary)}"))
    return found if found else [Finding("ok", "all flows finished, and the network kept up")]


def warnings(result: Results) -> list[Finding]:
    """Return the findings that make a result's numbers misleading. Each has a flag. Results of tools have none."""
    if "transport" not in result.summary:
        return []
    spec = tomllib.loads(result.scenario)
    return [finding for finding in _findings(result, spec) if finding.flag]


def _findings(result: Results, spec: Mapping[str, Any]) -> list[Finding]:
    return _merged(_foreseen(spec, result.summary.get("misfits", [])), _observed(result, spec))


def foreseen(resolved: str, misfits: Sequence[str]) -> list[Finding]:
    """Return the warnings that follow from a scenario alone, before it runs: what `Scenario.plan` returns of it."""
    return list(_foreseen(tomllib.loads(resolved), misfits))


def grouped(runs: Iterable[tuple[str, Sequence[Finding]]]) -> list[str]:
    """Summarise the warnings of many runs in a few lines, each with the labels of the runs that it applies to.

    Runs with the same warning share a line, and so do runs that differ in their seed alone, which their labels have at the end.
    Warnings of other runs with the same flag and different numbers get at most three lines.
    """
    by_run: dict[tuple[str, str], dict[int | None, str]] = {}
    for label, findings in runs:
        name, seed = _without_seed(label)
        for finding in findings:
            by_run.setdefault((finding.flag, name), {}).setdefault(seed, finding.text)
    labels: dict[tuple[str, str], list[str]] = {}
    for (flag, name), texts in by_run.items():
        (first, text), *_ = texts.items()
        if len(set(texts.values())) > 1:
            text += f" (these are the numbers of seed {first})"
        labels.setdefault((flag, text), []).append(", ".join(filter(None, (name, seeds(texts)))))
    lines: list[str] = []
    for flag in dict.fromkeys(flag for flag, _ in labels):
        alike = [(text, names) for (other, text), names in labels.items() if other == flag]
        lines += [f"{flag} ({listed(names)}): {text}" for text, names in alike[:_ALIKE_MAX]]
        if rest := sum(len(names) for _, names in alike[_ALIKE_MAX:]):
            lines.append(f"{flag}: the same warning for {rest} more")
    return lines


_ALIKE_MAX = 3
_SEED = re.compile(r"(?:^|, )seed (\d+)$")


def _without_seed(label: str) -> tuple[str, int | None]:
    found = _SEED.search(label)
    return (label[: found.start()], int(found[1])) if found else (label, None)


def seeds(numbers: Iterable[int | None]) -> str:
    """Name seeds: `seed 3`, `seeds 1, 2 and 7`, `seeds 1 to 10`. Without a number, there is nothing to name."""
    known = sorted(number for number in numbers if number is not None)
    if not known:
        return ""
    if len(known) == 1:
        return f"seed {known[0]}"
    if known[-1] - known[0] == len(known) - 1 > 1:
        return f"seeds {known[0]} to {known[-1]}"
    return f"seeds {', '.join(map(str, known[:-1]))} and {known[-1]}"


def _merged(before: Iterable[Finding], after: Iterable[Finding]) -> list[Finding]:
    """Replace warnings from before the run by those from the run that have the same flag."""
    seen = list(after)
    return [*(f for f in before if f.flag not in {finding.flag for finding in seen}), *seen]


NO_MARKS = "no marks"


def _foreseen(spec: Mapping[str, Any], misfits: Sequence[str]) -> Iterator[Finding]:
    for misfit in misfits:
        key = misfit.split(":")[0].removesuffix(".name")
        flag = "dead link" if key.startswith("fault.") else f"unfit {key.split('.')[-1]}"
        yield Finding("problem", misfit, flag)
    port = _marking_port(spec)
    if port and not _unmarked(spec) and (reach := _reach(spec, port)) <= metrics.bytes_of(port["mark_above"]):
        yield Finding(
            "problem",
            f"switches mark above {port['mark_above']}, but no queue can be longer than {reach / 1000:.4g}kB "
            f"(fabric.buffer = {spec['fabric']['buffer']}), so no switch will mark; raise fabric.buffer or lower mark_above",
            NO_MARKS,
        )
    loads = [part["load"] for part in spec["workload"].get("part", []) if "load" in part]
    if sum(loads) > 1:
        yield Finding(
            "problem",
            f"the loads of the workload's parts add up to {sum(loads):.4g}; if the parts share their busiest link, that link "
            "is overloaded, and slowdowns depend on the length of the run",
            "load above 1",
        )


def _observed(result: Results, spec: Mapping[str, Any]) -> Iterator[Finding]:
    yield from _finished(result.summary, spec)
    yield from (Finding("problem", found["text"], found["flag"]) for found in result.summary.get("findings", []))
    if "backlog" in result.summary and result.summary["flows"] >= _ARRIVALS_MIN and _arrives_over_time(spec["workload"]):
        yield from _stable(result.summary)
    yield from _enough(result.summary)
    yield from _mechanisms(result.summary, spec)
    if pfc := result.summary.get("pfc"):
        yield from _paused(pfc, spec)


def _paused(pfc: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Finding]:
    """Find links that were paused for long, and head-of-line victims."""
    for storm in pfc.get("storms", []):
        behind = storm["behind"]
        rest = f"; the pauses of {len(behind)} other links come from there ({listed(behind)})" if behind else ""
        yield Finding(
            "problem",
            f"{storm['node']} sent {storm['frames']} pause frames although it was not out of memory, as a broken NIC does: "
            f"{storm['link']} was paused for {pfc['by_link'][storm['link']]['share']:.1%} of the run{rest}",
            "pause storm",
        )
    limit = spec["fabric"]["pfc"]["storm_share"]
    shares = {name: link["share"] for name, link in pfc["by_link"].items() if link["share"] > limit}
    if shares:
        worst = sorted(shares, key=lambda name: (-shares[name], name))
        yield Finding(
            "problem",
            f"{len(shares)} links were paused for more than {limit:.4g} of the run (fabric.pfc.storm_share), which is a pause "
            f"storm: {listed([f'{name} {shares[name]:.1%}' for name in worst])}",
            "pause storm",
        )
    if pfc["victims"]:
        named = [f"flow {v['flow']} at {v['at']} for {v['congested']}" for v in pfc["worst_victims"]]
        yield Finding(
            "note",
            f"{pfc['victims']} flows were head-of-line victims: they waited at paused ports for congested ports that they do "
            f"not cross ({listed(named)})",
            "victims",
        )


def _finished(summary: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Finding]:
    aborted = summary.get("aborted", 0)
    missing = summary["flows"] - summary["finished"] - aborted
    if aborted:
        yield Finding(
            "problem",
            f"{aborted} of {summary['flows']} flows were aborted (column `aborted` of flows.parquet says why); slowdowns and "
            "FCTs do not count them, and therefore look better than they are; deadlines_met counts them as missed",
            "aborted",
        )
    if missing:
        yield Finding(
            "problem",
            f"{missing} of {summary['flows']} flows did not finish; slowdowns and FCTs do not count them, and therefore "
            f"look better than they are{_remedy(missing, spec)}{_losses(summary)}",
            "unfinished",
        )
    if waiting := summary["not_started"]:
        some = f"{waiting} of {summary['flows'] + waiting} flows did not start"
        if "time_limit" in spec["run"]:
            yield Finding("note", f"{some} before run.time_limit; no other number counts them")
        else:
            yield Finding(
                "problem",
                f"{some}, because simulated time ends after 10,000,000 s; no other number counts them; let them start earlier",
                "not started",
            )


def _remedy(missing: int, spec: Mapping[str, Any]) -> str:
    """Say how flows could finish. No run waits for background flows, and without a size they have no end."""
    endless = sum(each.get("pairs", 1) for each in spec["workload"].get("background", []) if "size" not in each)
    if spec["metrics"]["background"] and missing <= endless:
        return "; background flows have no end without workload.background.size; give it, or set metrics.background = false"
    # Real hosts end a run without a limit, too.
    return "; raise or remove run.time_limit" if "time_limit" in spec["run"] else ""


def _arrives_over_time(workload: Mapping[str, Any]) -> bool:
    """Return whether flows arrive independently of the network's state, so that a growing backlog means overload."""
    kind = workload["kind"]
    return kind in ("poisson", "mix", "trace") or (kind == "incast" and workload["requests"] >= _ARRIVALS_MIN)


# Fewer flows or requests tell nothing about a trend.
_ARRIVALS_MIN = 20


def _losses(summary: Mapping[str, Any]) -> str:
    """Say where most packets were dropped and why, if any were, as far as that is known."""
    drops = summary["drops"]
    if not drops["total"]:
        return ""
    hop, reason = most(drops["by_hop"]), most(drops["by_reason"])
    where = (f", most of them at {hop}" if hop else "") + (f", and most as {reason}" if reason else "")
    return f"; {drops['total']} packets were dropped{where}"


def _stable(summary: Mapping[str, Any]) -> Iterator[Finding]:
    found = Growth(**{name: value for name, value in summary["backlog"].items() if name in Growth._fields})
    if found.second <= 0:
        return
    share = f"{found.second / found.arrived:.1%} of what arrived in the second half of the time in which flows arrive"
    if found.is_certain:
        yield Finding(
            "problem",
            f"the bytes of open flows grew by {share}, which is more than chance explains, and they do not level off: the "
            "network does not keep up with the load, so slowdowns depend on the length of the run; lower the load",
            "backlog grows",
        )
    elif found.second > _GROWTH_NOTED * found.arrived and 1 < found.longer < _LONGER_MAX:
        flows = metrics.significant(summary["flows"] * found.longer, 2)
        yield Finding(
            "note",
            f"the bytes of open flows grew by {share}, which may be chance; a run of {flows} flows would tell",
        )


_GROWTH_NOTED = 0.05
"""Below this share, a growth is not worth a longer run."""
_LONGER_MAX = 100
"""A run that had to be longer than this many times is not suggested."""


def _enough(summary: Mapping[str, Any]) -> Iterator[Finding]:
    for entry in summary["slowdown"]["by_size"]:
        if 0 < entry["finished"] < 100:
            yield Finding(
                "note",
                f"only {entry['finished']} finished flows are of size {metrics.bin_label(entry)}, so their 99th percentile is "
                "the worst of a few; raise workload.flows",
            )


def _mechanisms(summary: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Finding]:
    """Find mechanisms that were configured and had no effect, as far as packets were counted in the network."""
    name = summary["transport"]
    settings = spec.get("transport", {}).get(name, {})
    if summary["sent_by_class"]:
        yield from _classes(summary, name, settings)
    if summary["marks"] is not None:
        yield from _marking(summary, spec)
    # Where routing avoids a link that is down, packets need not be lost.
    kinds = ("loss", "corrupt", "link_down", "node_down")
    losing = [fault for fault in spec.get("fault", []) if fault["kind"] in kinds and fault.get("reroute_after") is None]
    lost = any(summary["drops"]["by_reason"].get(reason) for reason in ("lost", "corrupted", "link_down", "node_down"))
    if losing and summary["drops"]["total"] is not None and not lost and not summary.get("aborted"):
        yield Finding("note", "faults are configured, but no packet was lost to one", "no fault")
    workload = spec.get("workload", {})
    if any(part.get("deadline") for part in (workload, *workload.get("part", []))) and summary["deadlines_met"] is None:
        yield Finding("note", "workload.deadline is set, but no flow had a deadline", "no deadlines")


def _classes(summary: Mapping[str, Any], name: str, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Find priority classes that nothing used. It is a warning only where the scenario asks for more than the default."""
    from flowloom.engine import defaults

    def flag(key: str) -> str:
        return "" if settings.get(key) == defaults(name).get(key) else "unused classes"

    used = [number for number, packets in enumerate(summary["sent_by_class"]) if packets]
    wanted = {key: (value, key) for key in ("classes", "queues", "priorities") if isinstance(value := settings.get(key), int)}
    # How many thresholds fit a workload, a scenario does not say.
    if isinstance(thresholds := settings.get("thresholds"), list) and thresholds:
        wanted["thresholds"] = (len(thresholds) + 1, "classes")
    for key, (count, what) in wanted.items():
        if used and len(used) < count:
            text = f"{name} sets up {count} {what}, but packets used {len(used)}: {_shares(summary)}"
            yield Finding("note", f"{text} (transport.{name}.{key})", flag(key))
    if settings.get("data_priorities") and len(used) < 3:
        text = f"{name} sets data_priorities, but all data used one class: {_shares(summary)}"
        yield Finding("note", f"{text} (transport.{name}.data_priorities)", flag("data_priorities"))


def _marking(summary: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Finding]:
    """Find switches that are configured to mark and did not."""
    port = _marking_port(spec)
    if summary["marks"] or port is None:
        return
    if setting := _unmarked(spec):
        yield Finding(
            "note",
            f"packets of {summary['transport']} are not ECN-capable with {setting}, so none was marked",
        )
        return
    text = f"packets are ECN-capable, but no packet was marked: switches mark above {port['mark_above']}"
    if summary["queue"]:  # nobody sees the queues of real ports over time
        text += f", and the longest queue held {max(hop['peak_bytes'] for hop in summary['queue'].values()) / 1000:g}kB"
    if (reach := _reach(spec, port)) <= metrics.bytes_of(port["mark_above"]):
        room = f"{reach / 1000:.4g}kB (fabric.buffer = {spec['fabric']['buffer']})"
        yield Finding(
            "problem", f"{text}; no queue can be longer than {room}; raise fabric.buffer or lower mark_above", NO_MARKS
        )
    else:
        yield Finding("note", f"{text}; lower mark_above if you expect marks at this load", NO_MARKS)


def _marking_port(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the settings of switch ports; None if ports do not mark for the transport that runs."""
    name = spec["transport"]["name"]
    port: Mapping[str, Any] = toml.lookup(spec["transport"].get(name, {}), transport(name).ports) or {}
    return None if transport(name).unmarked == "always" or port.get("ecn", "off") == "off" else port


def _unmarked(spec: Mapping[str, Any]) -> str:
    """Return the setting under which the transport's packets are not ECN-capable; empty if they are."""
    name = spec["transport"]["name"]
    key, _, value = transport(name).unmarked.partition(" = ")
    return f"transport.{name}.{key} = {value}" if value and spec["transport"][name].get(key) == value else ""


def _reach(spec: Mapping[str, Any], port: Mapping[str, Any]) -> float:
    """Return the maximum length, in bytes, of the queue that a switch port compares with its marking threshold."""
    fabric, name = spec["fabric"], spec["transport"]["name"]
    thresholds = spec["transport"][name].get("thresholds", [])
    # Fitted thresholds make up to 8 classes.
    classes = 8 if isinstance(thresholds, str) else len(thresholds) + 1
    queues = 1 if port["ecn"] == "queue" else classes
    memory = metrics.bytes_of(fabric["buffer"])
    if "pfc" in fabric:
        # Flow control counts memory where packets come in. One queue can hold what came in through all ports.
        return float(memory) if fabric["sharing"] == "switch" else float("inf")
    if fabric["sharing"] == "switch":
        # A queue accepts a packet while it is shorter than alpha times the free memory. A single queue therefore grows to
        # alpha/(1 + alpha) of the memory, plus at most one packet. A second queue grows to the same share of the rest.
        alpha = fabric.get("alpha", 1.0)
        packet = _JUMBO if fabric["wire"] == "jumbo_9000" else _PACKET_MAX
        return float(min(memory, memory * (1 - (1 + alpha) ** -queues) + queues * packet))
    return float(memory * (queues if port["split"] == "per_class" else 1))


# The largest packet of all wire formats but the one for jumbo frames.
_PACKET_MAX = 1538
_JUMBO = 9000


def _shares(summary: Mapping[str, Any]) -> str:
    packets = summary["sent_by_class"]
    return ", ".join(f"class {number} {count / sum(packets):.1%}" for number, count in enumerate(packets) if count)
