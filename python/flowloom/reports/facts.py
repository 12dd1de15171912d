"""What was run: the keys of a scenario that matter, seeds, the build, and the command that repeats it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flowloom import diagnosis, toml
from flowloom.engine import defaults
from flowloom.reports.content import Fact
from flowloom.results import Results
from flowloom.transports import transport
from flowloom.words import elided

_VALUE_MAX = 90
"""The maximum number of characters of a value that is a list or a table."""


def of_scenario(text: str, *, alone: bool, varied: Iterable[str] = ()) -> list[Fact]:
    """Return what a resolved scenario says about the network, the switches and the workload.

    Args:
        text: The scenario, as TOML.
        alone: Whether it is the only one, so that the parameters of its transport matter.
        varied: Dotted keys that are left out, because other scenarios beside it have other values.
    """
    spec = tomllib.loads(text)
    for key in varied:
        *above, last = key.split(".")
        table = toml.lookup(spec, ".".join(above)) if above else spec
        if isinstance(table, dict):
            table.pop(last, None)
    facts = [
        Fact("Network", phrase(spec["topology"])),
        Fact("Switches", phrase(spec.get("fabric", {}))),
        Fact("Workload", phrase(spec["workload"])),
    ]
    if faults := spec.get("fault"):
        facts.append(Fact("Faults", "; ".join(phrase(fault) for fault in faults)))
    if alone:
        name = spec["transport"]["name"]
        usual = defaults(name)
        own = _changed(spec["transport"].get(name, {}), usual)
        facts.append(
            Fact("Transport", transport(name).label + (f": {phrase(own)}" if own else ", with its default parameters"))
        )
    return [fact for fact in facts if fact.text]


def _changed(table: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a table that are not the usual ones."""
    found = {}
    for key, value in table.items():
        other = usual.get(key)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            value = _changed(value, other)
        elif value == other:
            continue
        if value != {}:
            found[key] = value
    return found


def phrase(table: Mapping[str, Any]) -> str:
    """Return a table of a scenario in words: `leaf spine, 9 racks, 16 hosts per rack, host rate 10Gb/s`."""
    parts = [str(table["kind"]).replace("_", " ")] if "kind" in table else []
    for key, value in table.items():
        name = key.replace("_", " ")
        if key == "kind" or value is False or value in ([], {}, ""):
            continue
        if value is True:
            parts.append(name)
        elif isinstance(value, int) and key.partition("_")[0].endswith("s"):
            parts.append(f"{value:,} {name}")  # a number of things
        elif isinstance(value, Mapping):
            parts.append(f"{name} ({phrase(value)})" if len(value) < 4 else f"{name} {elided(toml.value(value), _VALUE_MAX)}")
        else:
            shown = value if isinstance(value, str) else elided(toml.value(value), _VALUE_MAX)
            parts.append(f"{name} {shown}")
    return ", ".join(parts)


def of_runs(runs: Sequence[Results]) -> list[Fact]:
    """Return the seeds, the build and the time of some runs."""
    seeds = sorted({run.summary["seed"] for run in runs if run.summary.get("seed") is not None})
    facts = [Fact("Seeds" if len(seeds) > 1 else "Seed", diagnosis.seeds(seeds).partition(" ")[2])] if seeds else []
    if len(runs) > 1:
        facts.append(Fact("Runs", f"{len(runs):,}"))
    return facts + _made([run.provenance for run in runs if run.provenance])


def _made(found: Sequence[Mapping[str, Any]]) -> list[Fact]:
    if not found:
        return []
    builds = dict.fromkeys(_build(each) for each in found)
    days = sorted({str(each.get("date", ""))[:10] for each in found} - {""})
    seconds = sum(each.get("wall_s") or 0.0 for each in found)
    machines = dict.fromkeys(_machine(each["machine"]) for each in found if isinstance(each.get("machine"), Mapping))
    when = (days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}") if days else ""
    took = f"{when}, {span(seconds)} of simulation" + (f" on {', '.join(machines)}" if machines else "")
    return [Fact("Simulator", "; ".join(builds)), Fact("Made", took)]


def _build(found: Mapping[str, Any]) -> str:
    words = [f"Flowloom {found.get('flowloom', '')}".strip()]
    if found.get("commit"):
        words.append(f"commit {found['commit']}")
    if found.get("engine"):
        words.append(f"build {found['engine']}")
    return ", ".join(words)


def _machine(found: Mapping[str, Any]) -> str:
    cores = f", {found['cores']} cores" if found.get("cores") else ""
    return f"{found.get('system', '')} {found.get('architecture', '')}{cores}".strip()


def span(seconds: float) -> str:
    """Return a duration with two digits."""
    for unit, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.2g} {name}"
    return f"{seconds:.2g} s"


def command(runs: Sequence[Results]) -> str:
    """Return the command of the latest run."""
    latest = max((run.provenance for run in runs), key=lambda found: str(found.get("date", "")), default={})
    return str(latest.get("command", ""))
