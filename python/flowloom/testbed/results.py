"""The flows of a scenario on real hosts: what each host is to send, and a result of what its processes have recorded.

A result has the files of a simulated one, and the same code computes its numbers. What only a simulator sees is null: what
ports dropped, marked and queued.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flowloom import columns, provenance
from flowloom._native import RunError, ScenarioError
from flowloom.backlog import in_summary
from flowloom.results import Results, seed_of
from flowloom.scenario import Plan, Progress, Scenario, Source, located
from flowloom.words import shown

_AT_SENDER = {"planned", "open", "acknowledged", "aborted"}
_AT_RECEIVER = {"received", "incomplete", "unfinished"}
_COUNTS = ("packets", "retransmissions", "timeouts", "second_timeouts")
_GONE = {"deadline", "node_down", "restarted", "silent"}
"""Why a flow may be aborted in a run that counts: its deadline, or an end of it that is down."""


def planned(scenario: Source) -> list[dict[str, Any]]:
    """Return the flows of a scenario, in order of their numbers.

    Returns:
        A table for each flow: `flow` (its number), `from` and `to` (hosts, counted from 0), `bytes`, `start_ns` and
        `deadline_ns` (nanoseconds after the common start, or null), `tenant`, `coflow` (null, or its number, bytes and start)
        and `background`.

    Raises:
        ScenarioError: The scenario is not valid, or its flows wait for others, so that their starts are not known.
    """
    return Scenario.of(scenario).plan().flows()


def lists(flows: Iterable[Mapping[str, Any]], hosts: Sequence[str]) -> list[str]:
    """Return what each host is to send, as `flowloom-node --flows` reads it.

    Args:
        flows: The flows of a scenario (`planned`).
        hosts: The name of each host in the cluster's file, by its number.
    """
    found: list[list[str]] = [[] for _ in hosts]
    for flow in flows:
        line = {key: value for key, value in flow.items() if key != "from" and value is not None}
        found[flow["from"]].append(json.dumps(line | {"to": hosts[flow["to"]]}))
    return ["".join(f"{line}\n" for line in lines) for lines in found]


def read(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the records that `flowloom-node --records` has written on each host.

    A process that was killed may have left half a line at the end of its file, which is ignored.

    Raises:
        RunError: A file cannot be read, or one of its lines is no record. The message has its name and the line.
    """
    return [record for file in files for record in _records(file)]


def _records(file: Path) -> Iterable[dict[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"cannot read the records {file}: {error}") from error
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or not isinstance(record.get("id"), int):
            raise RunError(f"{file}:{number}: {shown(line)} is no record of a flow, which is an object of JSON with an id")
        if record.get("event") not in _AT_SENDER | _AT_RECEIVER:
            known = ", ".join(sorted(_AT_SENDER | _AT_RECEIVER))
            raise RunError(f'{file}:{number}: "event" is {shown(json.dumps(record.get("event")))}; it must be one of {known}')
        yield record


def endings(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Join what the two ends of each flow have recorded.

    Returns:
        A table for each flow, in order of their numbers: `flow`, `received_ns`, `acknowledged_ns` and `aborted_ns` (null if
        that did not happen), `late`, `delivered_bytes`, `packets`, `retransmissions`, `timeouts` and `second_timeouts`. A
        sender that was killed has told no counts of its open flows: they are 0.

    Raises:
        RunError: A record contradicts another, belongs to no flow of this run, or tells that hosts do not fit together.
    """
    by_id: dict[int, dict[str, Mapping[str, Any]]] = {}
    for record in records:
        ends = by_id.setdefault(record["id"], {})
        if record["event"] in ends:
            raise RunError(f'the flow with the id {record["id"]} has two records "{record["event"]}"')
        ends[record["event"]] = record
    return sorted((_ending(number, ends) for number, ends in by_id.items()), key=lambda ending: ending["flow"])


def _ending(number: int, ends: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if "planned" not in ends:
        reason = "no sender has planned it: its records are of another run"
        raise RunError(f"the flow with the id {number} was received, but {reason}")
    flow = ends["planned"]["flow"]
    sent = next((ends[event] for event in ("acknowledged", "aborted", "open") if event in ends), {})
    came = next((ends[event] for event in ("received", "incomplete", "unfinished") if event in ends), {})
    cause = ends.get("aborted", {}).get("cause")
    if cause not in _GONE | {None}:
        raise RunError(f"flow {flow} was aborted, and the run is no result: {ends['aborted'].get('why', cause)}")
    return {
        "flow": flow,
        "received_ns": ends.get("received", {}).get("at_ns"),
        "acknowledged_ns": ends.get("acknowledged", {}).get("at_ns"),
        "aborted_ns": ends.get("aborted", {}).get("at_ns"),
        "late": cause == "deadline",
        "delivered_bytes": came.get("bytes", 0),
        **{count: sent.get(count, 0) for count in _COUNTS},
    }


def result(
    scenario: Source,
    records: Iterable[Mapping[str, Any]],
    *,
    wall_s: float,
    hosts: Mapping[str, Any],
    end_ns: int = 0,
    marks: int | None = None,
    drops: int | None = None,
    findings: Sequence[Mapping[str, str]] = (),
    progress: Progress | None = None,
) -> Results:
    """Make a result of what real hosts have recorded.

    Args:
        scenario: The scenario whose flows ran.
        records: The records of all hosts (`read`).
        wall_s: How long the run took, with everything around it, in seconds.
        hosts: What ran it (the kernel, the kind of the switch, and so on), for `provenance.json`.
        end_ns: When the run was over, in nanoseconds after the common start, if that was after the last end of a flow.
        marks: How many packets the switches have marked, if they were asked.
        drops: How many packets they have dropped, if they were asked.
        findings: What else makes the numbers misleading: tables with `flag` and `text`.
        progress: Is called while optima are measured in the simulator (`metrics.optimum = "solo"`), and may raise to stop.

    Raises:
        ScenarioError: The scenario is not valid.
        RunError: The records are not those of its flows.
    """
    wanted = Scenario.of(scenario)
    ends = endings(records)
    instants = [at for end in ends for key in ("received_ns", "acknowledged_ns", "aborted_ns") if (at := end[key]) is not None]
    measured = json.dumps({"endings": ends, "end_ns": max([end_ns, *instants]), "wall_s": wall_s})
    plan = wanted.plan(progress)
    outcome, resolved = plan.judge(measured, progress), plan.resolved
    flows = columns.flow_table(outcome["flows"])
    record = provenance.record(seed_of(tomllib.loads(resolved)), wall_s, None) | {"hosts": dict(hosts)}
    if wanted.path:
        record["scenario"] = wanted.title
    record["key"] = key_of(plan)
    summary = json.loads(outcome["summary"])
    summary["marks"], summary["drops"]["total"] = marks, drops
    if findings:
        summary["findings"] = [*summary.get("findings", []), *map(dict, findings)]
    return Results(summary | in_summary(flows), located(resolved), record, _flows=flows, _series={})


def key_of(plan: Plan) -> str:
    """Return the key of a result. That of a simulation is another one, so that neither takes the place of the other."""
    return hashlib.sha256(f"hosts\n{plan.scenario.key_of(plan.resolved)}".encode()).hexdigest()[:20]


def write(
    scenario: Source,
    records: Iterable[Mapping[str, Any]],
    out: Path,
    *,
    wall_s: float,
    hosts: Mapping[str, Any],
    end_ns: int = 0,
    marks: int | None = None,
    drops: int | None = None,
    csv: bool = False,
    force: bool = False,
) -> Results:
    """Make a result (`result`) and save it in a directory, with the files that `flowloom run --out` writes.

    Raises:
        ScenarioError: As `result`, and if the directory holds something else.
        RunError: As `result`.
        OSError: The disk is full or cannot be written to.
    """
    made = result(scenario, records, wall_s=wall_s, hosts=hosts, end_ns=end_ns, marks=marks, drops=drops)
    made.save(out, csv=csv, force=force)
    return made


__all__ = ["RunError", "ScenarioError", "endings", "lists", "planned", "read", "result", "write"]
