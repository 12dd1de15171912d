"""Two digests of what a ledger entry depends on: the figure's inputs, and the simulator's behaviour on them.

`inputs` covers the scenario of each of the figure's points, how tunings choose, and the checks with the order of the values
that they go along. `behaviour` covers every flow of short probe runs of these scenarios. It changes with a transport, a
default, a queue discipline or a workload. It does not change with code that alters no packet, or with a new parameter whose
default keeps the old behaviour. Probe runs are short and have few hosts, so a change that shows only late in a run, or only
with many hosts, is not detected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flowloom import metrics, storage, toml
from flowloom._native import RunError, ScenarioError
from flowloom.engine import cores
from flowloom.figures.grid import AMOUNTS, Setting, expressions, question, settings
from flowloom.figures.schema import Figure
from flowloom.results import MACHINE_KEYS
from flowloom.scenario import Scenario, engine_id, named_files, of_its_transport

_VERSION = 1
"""The version of the digests' definition. A higher number makes every entry of the ledger stale."""
_AMOUNTS = dict(zip(AMOUNTS, (1000, 50, 20), strict=True))
"""Keys of a workload that set its length, with their maximum in a probe."""
_SMALL = {"racks": 2, "hosts_per_rack": 6}
"""The maximum size of a probe's fabric. With fewer hosts, the same number of packets covers more of each flow."""
_HOPS = 100_000
"""The approximate number of packet-hops of a probe, which takes a few hundredths of a second."""
_FLOW = ("id", "src", "dst", "bytes", "start", "finish", "optimum", "deadline", "tenant", "retransmissions")
"""The columns of the flow table that are compared. They are listed, so that a new column does not make an entry stale."""
_WATCHED = ("packet_hops", "data_packets", "drops.total", "marks", "retransmissions", "queueing_us_mean")
"""Metrics that are compared besides those of the figure. Every packet changes them, including packets of unfinished flows."""
_ENGINES_KEPT = 8

Table = dict[str, Any]
Progress = Callable[[int, int], None]
"""`progress(done, all)`: numbers of probe runs."""


class Digests(NamedTuple):
    """The digests of a figure at a scale."""

    inputs: str
    behaviour: str


def today(wanted: Sequence[tuple[Figure, str]], progress: Progress | None = None) -> dict[tuple[str, str], Digests | str]:
    """Compute the digests of figures with today's simulator, or read them from the cache.

    Args:
        wanted: Figures, each with a scale.
        progress: Is called after each probe run.

    Returns:
        By the figure's name and the scale: its digests, or an error message if a scenario is not valid or a probe failed.
    """
    cache = _Cache()
    found: dict[tuple[str, str], Digests | str] = {}
    missing: list[_Asked] = []
    for figure, scale in wanted:
        try:
            asked = _Asked.of(figure, scale)
            known = cache.find(asked.key)
            if known:
                found[figure.name, scale] = known
            else:
                asked.prepare()
                missing.append(asked)
        except (ScenarioError, RunError, OSError, ValueError, TypeError) as error:
            # A scenario that is not valid may have a value of any type in any place, such as a date.
            found[figure.name, scale] = str(error)
    probes = [probe for asked in missing for probe in asked.probes]
    answers = _answers({probe.key: probe for probe in probes}, progress)
    others = [p.instead for p in probes if p.instead and isinstance(answers[p.key], ScenarioError)]
    answers |= _answers({probe.key: probe for probe in others if probe.key not in answers}, progress)
    for asked in missing:
        failed = [str(answer) for p in asked.probes if isinstance(answer := p.answer(answers), BaseException)]
        if failed:
            found[asked.figure.name, asked.scale] = failed[0]
        else:
            digests = Digests(asked.inputs, asked.behaviour(answers))
            found[asked.figure.name, asked.scale] = cache.keep(asked.key, digests)
    cache.save()
    return found


class _Answer(NamedTuple):
    """The result of a probe run."""

    flows: str
    """A digest of the flow table."""
    summary: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class _Probe:
    """One short run, with a key that identifies it."""

    key: str
    run: Callable[[], _Answer]
    instead: _Probe | None = None
    """What is run if the scenario of this one is not valid: its workload may need more hosts than the small fabric has."""

    def answer(self, answers: Mapping[str, _Answer | BaseException]) -> _Answer | BaseException:
        """Return the answer of this run, or of the one in its place."""
        found = answers[self.key]
        return self.instead.answer(answers) if self.instead and isinstance(found, ScenarioError) else found


@dataclasses.dataclass
class _Asked:
    """A figure at a scale whose digests are being computed."""

    figure: Figure
    scale: str
    settings: list[Setting]
    tables: list[Table]
    """The scenario (or arguments) of each setting, without defaults."""
    key: str
    """The key in the cache: a hash of everything that the digests depend on."""
    inputs: str = ""
    probes: list[_Probe] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, figure: Figure, scale: str) -> _Asked:
        every = list(settings(figure, scale))
        tables = [dict(s.question.arguments) if figure.tool else merged(s.question) for s in every]
        solver = [s.question.key() for s in every[:1]] if figure.tool else []
        asked = [_placed(every, tables), _choices(figure), _files(figure, tables), _checks(figure), expressions(figure)]
        key = _hash(_VERSION, engine_id(), solver, *asked)
        return cls(figure, scale, every, tables, key)

    def prepare(self) -> None:
        """Compute `inputs`, and prepare the probe runs."""
        said = [t if self.figure.tool else of_its_transport(t) for t in self.tables]
        placed = sorted(map(_plain, _placed(self.settings, said)))
        files = _files(self.figure, self.tables)
        self.inputs = _hash(_VERSION, placed, _choices(self.figure), files, _checks(self.figure))
        self.probes = [self._probe(s, t) for s, t in zip(self.settings, self.tables, strict=True) if self._probed(s)]

    def _probed(self, setting: Setting) -> bool:
        """Return whether a setting is probed.

        Probes cover both ends of numeric axes (of tools, which take longer, only the last value), every value of other axes,
        and the first tuning of each point.
        """
        ends = all(setting.point[a.name] in _ends(a.values, self.figure.tool is not None) for a in self.figure.axes)
        first = next(s for s in self.settings if s.point == setting.point)
        return ends and setting is first

    def _scenario(self, table: Table) -> Scenario:
        return Scenario(toml.document(table), str(self.figure.scenario))

    def _probe(self, setting: Setting, table: Table) -> _Probe:
        if self.figure.tool:
            _, ask = question(self.figure)
            return _Probe(setting.question.key(), lambda: _Answer("", ask(setting.question).summary))
        files = _files(self.figure, [table])

        def probe(table: Table, instead: _Probe | None) -> _Probe:
            scenario = self._scenario(table)
            return _Probe(_hash(scenario.text, files), lambda: _observe(scenario), instead)

        return probe(_smaller(_less(table)), probe(_less(table), None))

    def behaviour(self, answers: Mapping[str, _Answer | BaseException]) -> str:
        """Return the digest of the probes' results."""
        wanted = [*_WATCHED, *(e for e in expressions(self.figure) if not any(name in e for name in MACHINE_KEYS))]
        lines = []
        for probe in self.probes:
            answer = probe.answer(answers)
            assert isinstance(answer, _Answer)
            lines.append([answer.flows, [_number(e, answer.summary) for e in wanted]])
        return _hash(_VERSION, sorted(map(_plain, lines)))


def _placed(settings: Sequence[Setting], tables: Sequence[Table]) -> list[Any]:
    """Return each setting's place in the figure with what is run there: checks compare places."""
    return [[setting.point, setting.tuning, table] for setting, table in zip(settings, tables, strict=True)]


def _choices(figure: Figure) -> list[Any]:
    """Return what decides which of several parameters a figure shows, besides their runs."""
    return [[tune.minimise, tune.at] for tune in figure.tunes]


def _ends(values: Sequence[Any], last_only: bool) -> Sequence[Any]:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return values if not numbers else values[-1:] if last_only else [values[0], values[-1]]


def _checks(figure: Figure) -> list[Any]:
    checks = [(claim.id, check) for claim in figure.claims for check in claim.checks]
    found: list[Any] = [[claim, c.kind, not c.counts, c.parameters] for claim, c in checks]
    # The first reading decides verdicts.
    if reading := figure.readings:
        found.append(["reading", reading.name, reading.values[0]])
    # Checks that go along an axis take its values in their order.
    along = dict.fromkeys(c.parameters["along"] for _, c in checks if "along" in c.parameters)
    return found + [["order", name, figure.axis(name).values] for name in along]


def _files(figure: Figure, tables: Sequence[Table]) -> list[list[str]]:
    """Return the files that the scenarios refer to, with a hash of each file's content."""
    found = []
    for name in sorted({name for table in tables for name in named_files(table)}):
        digest = hashlib.sha256()
        for part in storage.parts(figure.scenario.parent / name):
            digest.update(part)
        found.append([name, digest.hexdigest()])
    return found


def _number(expression: str, summary: Mapping[str, Any]) -> str:
    try:
        return f"{metrics.evaluate(expression, summary):.9g}"
    except ScenarioError:
        return "none"  # a probe may be too short to have a value


def _hash(*parts: Any) -> str:
    return hashlib.sha256("\n".join(map(_plain, parts)).encode()).hexdigest()[:16]


def _plain(part: Any) -> str:
    return json.dumps(part, sort_keys=True, default=str)


def merged(scenario: Scenario) -> Table:
    """Return a scenario's table with its overrides applied, without defaults.

    Raises:
        ScenarioError: The text is not TOML, or an override's key does not fit the table.
    """
    try:
        table = tomllib.loads(scenario.text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{scenario.path}: {error}") from error
    for override in scenario.overrides:
        key, _, raw = override.partition("=")
        *path, last = key.split(".")
        place: Any = table
        try:
            for name in path:
                place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
            place[int(last) if isinstance(place, list) else last] = tomllib.loads(f"value = {raw}")["value"]
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise ScenarioError(f"{scenario.path}: {key} cannot be set here: {error}") from error
    return table


def _less(table: Table) -> Table:
    """Return a scenario with at most as many flows, requests and coflows as a probe may have."""
    return table | {"workload": _cut(table.get("workload", {}))}


def _cut(part: Any) -> Any:
    if isinstance(part, list):
        return [_cut(each) for each in part]
    if not isinstance(part, Mapping):
        return part
    return {k: min(v, _AMOUNTS[k]) if k in _AMOUNTS and isinstance(v, int) else _cut(v) for k, v in part.items()}


def amounts(part: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """Return the numbers of flows, requests and coflows of a workload, each with the path of its key."""
    entries = enumerate(part) if isinstance(part, list) else part.items() if isinstance(part, Mapping) else ()
    for key, value in entries:
        if key in _AMOUNTS and isinstance(value, int):
            yield f"{path}.{key}", value
        yield from amounts(value, f"{path}.{key}")


def _smaller(table: Table) -> Table:
    """Return a scenario with a small fabric."""
    topology = table.get("topology", {})
    if not isinstance(topology, Mapping):
        return table
    small = {k: min(v, _SMALL[k]) if k in _SMALL and isinstance(v, int) else v for k, v in topology.items()}
    return table | {"topology": small}


def _observe(scenario: Scenario) -> _Answer:
    """Run a scenario for about `_HOPS` packet-hops.

    The simulated time that this takes is found by trial, starting with a millisecond. It depends only on the packet-hops
    that the simulator counts, so it is the same whenever the same simulator runs the scenario.
    """
    plan = scenario.plan()
    limit_ps = 1_000_000_000
    for _ in range(12):
        outcome = plan.until(limit_ps).run()
        summary = json.loads(outcome["summary"])
        if summary["packet_hops"] > _HOPS // 3 or (summary["finished"] == summary["flows"] and not summary["not_started"]):
            break
        limit_ps = round(limit_ps * min(4.0, 0.7 * _HOPS / max(summary["packet_hops"], 1)))
    return _Answer(_flows_digest(outcome["flows"]), summary)


def _flows_digest(flows: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in filter(flows.__contains__, _FLOW):
        column = np.asarray(flows[name])
        if column.dtype.kind == "f":
            # Times are whole picoseconds, as in the simulator; -1 stands for no time.
            column = np.where(np.isnan(column), -1, np.round(np.nan_to_num(column) * 1e12))
        digest.update(name.encode() + column.astype("<i8").tobytes())
    return digest.hexdigest()


def _answers(probes: Mapping[str, _Probe], progress: Progress | None) -> dict[str, _Answer | BaseException]:
    answers: dict[str, _Answer | BaseException] = {}
    with ThreadPoolExecutor(cores()) as pool:
        # Threads suffice, since the simulator releases the interpreter lock while it runs.
        futures = {pool.submit(probe.run): key for key, probe in probes.items()}
        try:
            for future in as_completed(futures):
                error = future.exception()  # any error makes the entry stale, and stops nothing else
                answers[futures[future]] = future.result() if error is None else error
                if progress:
                    progress(len(answers), len(probes))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return answers


class _Cache:
    """Digests that this simulator computed before, in the user's cache folder. Without the cache, all digests are computed."""

    def __init__(self) -> None:
        self._path = _cache_folder() / f"digests-{engine_id()}.json"
        self._changed = False
        try:
            self._known: dict[str, list[str]] = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._known = {}

    def find(self, key: str) -> Digests | None:
        known = self._known.get(key)
        return Digests(*known) if known else None

    def keep(self, key: str, digests: Digests) -> Digests:
        self._known[key] = list(digests)
        self._changed = True
        return digests

    def save(self) -> None:
        if not self._changed:
            return
        with contextlib.suppress(OSError):
            with storage.whole_file(self._path) as fresh:
                storage.write_json(fresh, self._known)
            of_engines = sorted(self._path.parent.glob("digests-*.json"), key=lambda p: p.stat().st_mtime)
            for old in of_engines[:-_ENGINES_KEPT]:
                old.unlink()


def _cache_folder() -> Path:
    if named := os.environ.get("FLOWLOOM_CACHE"):
        return Path(named)
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named) / "flowloom"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "flowloom"
