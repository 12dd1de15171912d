"""What a ledger entry stands on, as two digests: what was asked, and how the simulator behaves when asked it.

`inputs` covers what a figure's scenarios say and its checks. `behaviour` covers each flow of short probe runs of the figure's
own scenarios: a change of a transport, a default, a queue discipline or a workload shows; a change of code that alters no
packet, or a new parameter whose default is what was so before, does not. A probe run is too short to show everything: what
happens only late in a run, or only at many hosts, can change unseen.
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

from flowloom import _native, metrics, storage, toml
from flowloom._native import RunError, ScenarioError
from flowloom.figures.grid import Setting, expressions, question, settings
from flowloom.figures.schema import Figure
from flowloom.jobs import cores
from flowloom.results import OF_THE_MACHINE
from flowloom.scenario import Scenario, engine_id, named_files

_VERSION = 1
"""Of what the digests cover; counting up makes every entry of the ledger stale."""
_AMOUNTS = {"flows": 1000, "requests": 50}
"""Keys of a workload that say how much is run, and how much of it a probe has at most."""
_SMALL = {"racks": 2, "hosts_per_rack": 6}
"""A probe's fabric is small, so that the same number of packets takes longer, and more happens to each flow."""
_HOPS = 100_000
"""About how many packet-hops a probe takes: a few hundredths of a second."""
_FLOW = ("id", "src", "dst", "bytes", "start", "finish", "optimum", "deadline", "tenant", "retransmissions")
"""The columns of the flow table that are compared; a column that is added does not make an entry stale."""
_WATCHED = ("packet_hops", "data_packets", "drops.total", "marks", "retransmissions", "queueing_us_mean")
"""Besides what the figure asks: these move with every packet, also with those of flows that a probe does not see the end of."""
_ENGINES_KEPT = 8

Table = dict[str, Any]
Progress = Callable[[int, int], None]
"""`progress(done, all)`, in probe runs."""


class Digests(NamedTuple):
    """What an entry is compared with."""

    inputs: str
    behaviour: str


def today(wanted: Sequence[tuple[Figure, str]], progress: Progress | None = None) -> dict[tuple[str, str], Digests | str]:
    """Compute the digests of figures at scales, or take them from the cache where this simulator has been asked before.

    Args:
        wanted: Figures, each with a scale.
        progress: Is told of the probe runs.

    Returns:
        By the figure's name and the scale, its digests, or why there are none: a scenario that is not valid, a run that failed.
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
        except (ScenarioError, RunError, OSError) as error:
            found[figure.name, scale] = str(error)
    answers = _answers({p.key: p for asked in missing for p in asked.probes}, progress)
    for asked in missing:
        failed = [str(answers[p.key]) for p in asked.probes if isinstance(answers[p.key], BaseException)]
        if failed:
            found[asked.figure.name, asked.scale] = failed[0]
        else:
            digests = Digests(asked.inputs, asked.behaviour(answers))
            found[asked.figure.name, asked.scale] = cache.keep(asked.key, digests)
    cache.save()
    return found


class _Answer(NamedTuple):
    """What a probe run gave."""

    flows: str
    """A digest of the flow table."""
    summary: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class _Probe:
    """One short run."""

    key: str
    run: Callable[[], _Answer]


@dataclasses.dataclass
class _Asked:
    """A figure at a scale, on the way to its digests."""

    figure: Figure
    scale: str
    settings: list[Setting]
    tables: list[Table]
    """What each setting asks, defaults not filled in."""
    key: str
    """Names the digests in the cache: a hash of all they depend on."""
    inputs: str = ""
    probes: list[_Probe] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, figure: Figure, scale: str) -> _Asked:
        every = list(settings(figure, scale))
        tables = [dict(s.question.arguments) if figure.tool else merged(s.question) for s in every]
        solver = [s.question.key() for s in every[:1]] if figure.tool else []
        key = _hash(_VERSION, engine_id(), solver, tables, _files(figure, tables), _checks(figure), expressions(figure))
        return cls(figure, scale, every, tables, key)

    def prepare(self) -> None:
        """Check what is asked, and lay out the probe runs."""
        said = [t if self.figure.tool else _of_its_transport(t) for t in self.tables]
        self.inputs = _hash(_VERSION, sorted(map(_plain, said)), _files(self.figure, self.tables), _checks(self.figure))
        self.probes = [self._probe(s, t) for s, t in zip(self.settings, self.tables, strict=True) if self._probed(s)]

    def _probed(self, setting: Setting) -> bool:
        """Whether a setting is one to probe: axes of numbers at both ends, others at every value; tunings at the first.

        Tools take longer, so they are asked at the last number only.
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
        scenario = self._scenario(_smaller(_less(table)))
        try:
            scenario.resolve()
        except ScenarioError:
            # Some workloads need more hosts.
            scenario = self._scenario(_less(table))
        return _Probe(_hash(scenario.text, _files(self.figure, [table])), lambda: _observe(scenario))

    def behaviour(self, answers: Mapping[str, _Answer | BaseException]) -> str:
        """Give the digest of what the probes gave."""
        wanted = [*_WATCHED, *(e for e in expressions(self.figure) if not any(name in e for name in OF_THE_MACHINE))]
        lines = []
        for probe in self.probes:
            answer = answers[probe.key]
            assert isinstance(answer, _Answer)
            lines.append([answer.flows, [_number(e, answer.summary) for e in wanted]])
        return _hash(_VERSION, sorted(map(_plain, lines)))


def _of_its_transport(table: Table) -> Table:
    """Give a scenario without the parameters of transports that it does not run."""
    transports = table.get("transport", {})
    name = transports.get("name")
    return table | {"transport": {k: v for k, v in transports.items() if k in ("name", name)}}


def _ends(values: Sequence[Any], last_only: bool) -> Sequence[Any]:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return values if not numbers else values[-1:] if last_only else [values[0], values[-1]]


def _checks(figure: Figure) -> list[Any]:
    return [[claim.id, c.kind, bool(c.given), c.parameters] for claim in figure.claims for c in claim.checks]


def _files(figure: Figure, tables: Sequence[Table]) -> list[list[str]]:
    """Give the files that the scenarios name, with a hash of what is in each."""
    names = sorted({name for table in tables for name in named_files(table)})
    return [[name, hashlib.sha256((figure.scenario.parent / name).read_bytes()).hexdigest()] for name in names]


def _number(expression: str, summary: Mapping[str, Any]) -> str:
    try:
        return f"{metrics.evaluate(expression, summary):.9g}"
    except ScenarioError:
        return "none"  # a probe is too short to have it


def _hash(*parts: Any) -> str:
    return hashlib.sha256("\n".join(map(_plain, parts)).encode()).hexdigest()[:16]


def _plain(part: Any) -> str:
    return json.dumps(part, sort_keys=True, default=str)


def merged(scenario: Scenario) -> Table:
    """Give a scenario's table with its overrides in place, defaults not filled in.

    Raises:
        ScenarioError: The text is no TOML, or an override names a place that there cannot be.
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
            raise ScenarioError(f"{scenario.path}: there is no place for {key}: {error}") from error
    return table


def _less(table: Table) -> Table:
    """Give a scenario with no more flows and requests than a probe has."""
    return table | {"workload": _cut(table.get("workload", {}))}


def _cut(part: Any) -> Any:
    if isinstance(part, list):
        return [_cut(each) for each in part]
    if not isinstance(part, Mapping):
        return part
    return {k: min(v, _AMOUNTS[k]) if k in _AMOUNTS and isinstance(v, int) else _cut(v) for k, v in part.items()}


def amounts(part: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """Give how many flows and requests a workload has, each with the place of its key."""
    entries = enumerate(part) if isinstance(part, list) else part.items() if isinstance(part, Mapping) else ()
    for key, value in entries:
        if key in _AMOUNTS and isinstance(value, int):
            yield f"{path}.{key}", value
        yield from amounts(value, f"{path}.{key}")


def _smaller(table: Table) -> Table:
    """Give a scenario with a small fabric."""
    topology = table.get("topology", {})
    return table | {"topology": {k: min(v, _SMALL[k]) if k in _SMALL else v for k, v in topology.items()}}


def _observe(scenario: Scenario) -> _Answer:
    """Run a scenario for about so many packet-hops, and describe its flows.

    How long that takes is found by trying, from a millisecond on. The simulator itself counts the packet-hops, so the same
    simulator always tries the same lengths.
    """
    limit_ps = 1_000_000_000
    for _ in range(12):
        outcome = _native.run(scenario.text, scenario.path, [f'run.time_limit="{limit_ps}ps"'], None)
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
            # Times, in whole picoseconds as the simulator has them; -1 where there is none.
            column = np.where(np.isnan(column), -1, np.round(np.nan_to_num(column) * 1e12))
        digest.update(name.encode() + column.astype("<i8").tobytes())
    return digest.hexdigest()


def _answers(probes: Mapping[str, _Probe], progress: Progress | None) -> dict[str, _Answer | BaseException]:
    answers: dict[str, _Answer | BaseException] = {}
    with ThreadPoolExecutor(cores()) as pool:
        # Threads are enough: the simulator lets go of the interpreter while it runs.
        futures = {pool.submit(probe.run): key for key, probe in probes.items()}
        try:
            for future in as_completed(futures):
                error = future.exception()  # of any kind: a digest that cannot be had makes an entry stale, and no more
                answers[futures[future]] = future.result() if error is None else error
                if progress:
                    progress(len(answers), len(probes))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return answers


class _Cache:
    """Digests that this simulator gave before, in the user's cache folder. Without it everything works, only slower."""

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
