"""Sweeps: a run for every combination of values and for several seeds, on any executor."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom import columns, diagnosis, integrity, outputs, results, storage, summary, toml
from flowloom import metrics as metrics_
from flowloom._native import RunError, ScenarioError
from flowloom.axes import text
from flowloom.frames import Framed
from flowloom.jobs import Blame, FailedRuns, Job, Store, run_jobs, unchanged, whole_number
from flowloom.limits import SEED_MAX
from flowloom.outputs import Output
from flowloom.progress import Reporter, Silent
from flowloom.results import Results, seed_of
from flowloom.scenario import Scenario, Source, dotted, engine_id
from flowloom.words import listed, shown

if TYPE_CHECKING:
    import pyarrow as pa

    from flowloom.comparisons import Comparison
    from flowloom.plots.picture import Picture

RUNS_MAX = 100_000
"""The maximum number of runs of a sweep. More would take days, and a mistyped number of seeds would fill the memory."""

TABLE_METRICS = (
    "flows", "finished", "slowdown.mean", "slowdown.p50", "slowdown.p95", "slowdown.p99",
    "fct_us.mean", "fct_us.p99", "nfct", "goodput_gbps", "drops.rate", "queueing_us_mean", "packet_hops",
)  # fmt: skip
"""The default metrics in the table of a sweep."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a sweep."""

    point: dict[str, Any]
    """The varied keys and their values; without the seed."""
    seed: int
    results: Results
    key: str
    """The name of the run's folder in `runs`."""
    label: str
    """The run's name for tables and messages, with the seed if there are several."""


@dataclasses.dataclass(frozen=True, repr=False)
class Sweep(Framed):
    """All runs of a sweep, in the order of the grid. The data frame of a sweep is its `table`."""

    runs: list[Run]
    metrics: tuple[str, ...] = ()
    """The metrics that were asked for; pictures and tables have others without them."""
    title: str = "sweep"
    """The name of the scenario."""

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        points = self.points()
        keys = ", ".join(points[0][0]) if points else "nothing"
        return f"<Sweep of {self.title} over {keys}: {len(points)} points, {len(self)} runs>"

    def _repr_html_(self) -> str:
        from flowloom import display, tables

        return display.page(tables.of_sweep(self) if self.runs else [], self.warning_lines())

    def warning_lines(self) -> list[str]:
        """Return the warnings of all runs in a few lines, each with the runs that it applies to."""
        return [f"warning: {line}" for line in diagnosis.grouped((run.label, run.results.warnings) for run in self)]

    def plot(self, metrics: Sequence[str] = ()) -> Picture:
        """Draw metrics over the key with the most numbers, as `flowloom sweep` does.

        Args:
            metrics: A panel for each; by default those that the sweep was made with.

        Raises:
            ScenarioError: There is no such metric.
        """
        from flowloom.plots import picture, pictures

        drawn = self.with_metrics(metrics)
        return picture.picture(lambda: pictures.of_sweep(drawn))

    def with_metrics(self, metrics: Sequence[str]) -> Sweep:
        """Return the sweep with other metrics to draw, and to add to the table; without any, it stays as it is.

        Raises:
            ScenarioError: There is no such metric.
        """
        for name in metrics:
            summary.check(name)
        return dataclasses.replace(self, metrics=tuple(metrics) or self.metrics)

    def _framed(self) -> pa.Table:
        return self.table()

    def points(self) -> list[tuple[dict[str, Any], list[Results]]]:
        """Return the points of the grid in order, each with its results by seed."""
        groups = itertools.groupby(self.runs, key=lambda run: run.point)
        return [(point, [run.results for run in runs]) for point, runs in groups]

    def table(self, names: Sequence[str] | None = None) -> pa.Table:
        """Return a table with a row per run.

        Its columns are the varied keys, `seed`, the metrics in `names` (see `flowloom explain`; by default TABLE_METRICS and
        those that were asked for), `run` (the name of the run's folder in `runs`) and `warnings` (the flags of
        `Results.warnings`). A key whose values are not all numbers or all texts has TOML in the table.
        """
        import pyarrow as pa

        names = tuple(dict.fromkeys((*TABLE_METRICS, *self.metrics))) if names is None else names
        written = _written([run.point for run in self.runs])
        rows = []
        for run, point in zip(self.runs, written, strict=True):
            numbers = {n: metrics_.evaluate(n, run.results.summary) for n in names}
            warned = ", ".join(found.flag for found in run.results.warnings)
            rows.append(point | {"seed": run.seed} | numbers | {"run": run.key, "warnings": warned})
        return pa.Table.from_pylist(rows)


class IncompleteSweep(RunError):  # noqa: N818, the name says what it is
    """Some runs of a sweep failed. `sweep` has those that finished, and `failures` the labels and reasons of the others.

    If the sweep is a comparison, `comparison` has those that finished, too.
    """

    def __init__(self, sweep: Sweep, failed: FailedRuns) -> None:
        """Store the runs that finished, and why the others did not."""
        super().__init__(str(failed))
        self.sweep = sweep
        self.failures = failed.failures
        self.comparison: Comparison | None = None


def sweep(
    scenario: Source,
    axes: Mapping[str, Sequence[Any]],
    *,
    seeds: int = 1,
    executor: Executor | None = None,
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    flows: bool = True,
    force: bool = False,
    reporter: Reporter | None = None,
    metrics: Sequence[str] = (),
) -> Sweep:
    """Run a scenario at every combination of the axes' values.

    Args:
        scenario: A path, a dict, TOML text or a Scenario.
        axes: Scenario keys (`workload.load`), each with a list of values.
        seeds: The number of runs at each point, with the seeds `run.seed`, `run.seed + 1`, and so on.
        executor: Any `concurrent.futures.Executor`, for example Dask's `client.get_executor()`; by default one process
            per core.
        workers: The number of local processes, instead of one per core.
        out: A directory for the runs, each saved as it finishes, and a table of all. A saved run of the same scenario and
            simulator is not repeated. An earlier table is replaced only if the new one has all of its runs.
        flows: Keep each run's flow table in `out`.
        force: Also replace the table of another sweep. Its runs, and files that Flowloom did not write, stay.
        reporter: Receives progress and warnings.
        metrics: The metrics to draw, and to add to the table.

    Raises:
        ScenarioError: A point breaks a rule, an axis has no values, or `out` holds something else. Nothing was run.
        IncompleteSweep: Some runs failed, or their scenarios do not fit their networks. This is a RunError. All others
            finished, and `out` has their table, unless an earlier table has runs that it would lack.
    """
    base = Scenario.of(scenario)
    axes = dotted(axes)
    seeds = check_grid(axes, seeds)
    places = [Place(point, point) for point in _grid(axes)]
    about = {"axes": {key: list(values) for key, values in axes.items()}}
    return run_places(
        base, places, about, metrics, seeds=seeds, executor=executor, workers=workers, out=out, flows=flows, force=force,
        reporter=reporter,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Place:
    """A point of a grid before it is run."""

    point: dict[str, Any]
    """Its values by the names of the table's columns."""
    changes: dict[str, Any]
    """The scenario keys that it sets."""
    blame: Blame = unchanged
    """Rewords an error of its scenario."""


def run_places(
    base: Scenario,
    places: Sequence[Place],
    about: Mapping[str, Any],
    metrics: Sequence[str],
    *,
    seeds: int,
    executor: Executor | None,
    workers: int | None,
    out: str | os.PathLike[str] | None,
    flows: bool,
    force: bool,
    reporter: Reporter | None,
    write: Callable[[Path], None] = lambda folder: None,
    foresee: bool = False,
) -> Sweep:
    """Run a scenario at some points; see `sweep` for the arguments and errors.

    Args:
        base: The scenario.
        places: The points, each different from all others.
        about: What the marker of `out` says about the points.
        metrics: The metrics that are asked for.
        seeds: The number of seeds, which has been checked.
        executor: As for `sweep`, and so are the others.
        workers: The number of local processes.
        out: The directory.
        flows: Keep flow tables.
        force: Replace another table.
        reporter: Receives progress and warnings.
        write: Writes more files beside the table.
        foresee: Warn before the first run. Each point is planned for that, and once more where it runs, so there should be few.
    """
    for name in metrics:
        summary.check(name)
    workers = None if workers is None else whole_number("workers", workers, "processes")
    reporter = reporter or Silent()
    plan, firsts = [], []
    for place in _with_shared_memory(base, places, reporter):
        name = label(place.point, None)
        reporter.prepare(f"reading the scenarios before the first run, now {name}")
        seeded = _seeded(base, place, seeds)
        firsts.append((name, seeded[0][1]))
        for seed, at in seeded:
            name = label(place.point, seed if seeds > 1 else None)
            plan.append((place.point, seed, Job.of(name, at, blame=place.blame)))
    alike: dict[str, list[str]] = {}
    for _, _, job in plan:
        alike.setdefault(job.key, []).append(job.label)
    for labels in alike.values():
        if len(labels) > 1:
            reporter.warn(f"{listed(labels)}: these are the same scenario, which is run once")

    told = _Told(reporter)
    if foresee:
        told.look_ahead(firsts)

    def run(store: Store | None) -> tuple[Sweep, FailedRuns | None]:
        jobs, failed = [job for _, _, job in plan], None
        try:
            made = run_jobs(jobs, executor=executor, workers=workers, store=store, reporter=reporter, made=told.warn)
        except FailedRuns as error:
            made, failed = error.done, error
        finished = [(point, seed, job) for point, seed, job in plan if job.key in made]
        runs = [Run(point, seed, made[job.key], job.key, job.label) for point, seed, job in finished]
        return Sweep(runs, tuple(metrics), base.title), failed

    if out is None:
        return _complete(*run(None))
    with outputs.claim(out, outputs.SWEEP, force=force) as output:
        about = _describe(base, seeds) | ({"metrics": list(metrics)} if metrics else {}) | dict(about)
        if not force and _lost(output, about, {job.key for _, _, job in plan}):
            raise outputs.refusal(
                output.shown,
                "it holds the table of another sweep, or a table from another build of the simulator",
                "give another directory, or --force to replace the table (its runs are kept in any case)",
            )
        output.mark(about)
        done, failed = run(Store(output.shown / RUNS, flows=flows))
        # A run that failed this time, and not before, takes no row away from an earlier table.
        if done.runs and not (failed and not force and _lost(output, about, {run.key for run in done})):
            with output.add() as folder:
                table = done.table()
                columns.write(table, folder / TABLE)
                columns.write_csv(table, folder / "sweep.csv")
                write(folder)
    return _complete(done, failed)


def _with_shared_memory(base: Scenario, places: Sequence[Place], reporter: Reporter) -> list[Place]:
    """Return the points with the same memory of ports for those that differ in their transports alone.

    It is what the neediest one of them needs. Points whose scenarios give the memory of ports keep it.
    """
    found = list(places)
    alike: dict[str, list[int]] = {}
    for number, place in enumerate(places):
        others = {key: value for key, value in place.changes.items() if key.partition(".")[0] != "transport"}
        alike.setdefault(repr(sorted(others.items(), key=lambda change: change[0])), []).append(number)
    for numbers in alike.values():
        if len(numbers) < 2:
            continue
        reporter.prepare("working out how much memory ports need")
        needs: dict[int, tuple[int, str]] = {}
        with contextlib.suppress(ScenarioError):  # an error is for the run to tell
            found_needs = zip(numbers, base.memories([places[number].changes for number in numbers]), strict=True)
            needs = {number: need for number, need in found_needs if need is not None}
        if len({bytes_ for bytes_, _ in needs.values()}) < 2:
            continue
        most, why = max(needs.values(), key=lambda need: need[0])
        for number in needs:
            changes = places[number].changes | {"fabric.buffer": f"{most}B"}
            found[number] = dataclasses.replace(places[number], changes=changes)
        reporter.note(f"fabric.buffer = {metrics_.size(most)} for all, since the scenario gives none: {why}")
    return found


def _seeded(base: Scenario, place: Place, seeds: int) -> list[tuple[int, Scenario]]:
    """Return the scenario of a point with each of its seeds, the first of which is its own.

    Raises:
        ScenarioError: A value cannot be written, or the scenario is not valid.
    """
    try:
        at = base.set(place.changes)
        first = seed_of(tomllib.loads(at.resolve())) or 0
        if first + seeds - 1 > SEED_MAX:
            raise ScenarioError(f"seeds: {seeds} seeds from run.seed = {first} on go beyond the largest seed, {SEED_MAX}")
        return [(seed, at.set({"run.seed": seed})) for seed in range(first, first + seeds)]
    except ScenarioError as error:
        raise place.blame(error) from None


class _Told:
    """Warns of what does not suit a network or its flows: before the first run, or when a run that has found it finishes."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._flags: set[str] = set()

    def look_ahead(self, scenarios: Sequence[tuple[str, Scenario]]) -> None:
        """Warn of what plans of these scenarios show, each with its label. An error is for the run to tell."""
        found = []
        for name, scenario in scenarios:
            self._reporter.prepare(f"looking for what does not fit before the first run, now {name}")
            with contextlib.suppress(ScenarioError, RunError):
                plan = scenario.plan(lambda *_: None)
                found.append((name, diagnosis.foreseen(plan.resolved, plan.misfits)))
        for line in diagnosis.grouped(found):
            self._reporter.warn(line)
        self._flags |= {finding.flag for _, findings in found for finding in findings}

    def warn(self, job: Job, run: Results) -> None:
        for finding in diagnosis.foreseen(run.scenario, run.summary.get("misfits", [])):
            if finding.flag not in self._flags:
                self._flags.add(finding.flag)
                self._reporter.warn(f"{finding.flag} ({job.label}): {finding.text}")


def _written(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return points as a table can have them: a column has numbers, or texts."""
    texts = {key for point in points for key, value in point.items() if not isinstance(value, int | float)}
    return [
        {key: value if key not in texts or isinstance(value, str) else toml.value(value) for key, value in point.items()}
        for point in points
    ]


def load_sweep(directory: str | os.PathLike[str]) -> Sweep:
    """Read the runs of a sweep that was saved.

    Raises:
        ScenarioError: The directory has no sweep, the sweep is not finished, or a file is damaged.
    """
    marker, found = read_sweep(Path(directory))
    if "variants" in marker:
        raise ScenarioError(f"{directory} holds a comparison; flowloom.load_comparison reads it")
    return found


def read_sweep(directory: Path) -> tuple[Mapping[str, Any], Sweep]:
    """Return the marker of a sweep or a comparison, and its runs; see `load_sweep`."""
    path = directory / outputs.SWEEP.marker
    if not path.exists():
        what = "is not the directory of a sweep" if directory.is_dir() else "does not exist"
        raise ScenarioError(f"{directory} {what}: it has no {path.name}")
    marker = integrity.read_toml(path)
    if not (directory / TABLE).exists():
        raise ScenarioError(f"{directory} is an unfinished sweep; repeat the same command to finish it")
    rows = integrity.read_table(directory / TABLE).to_pylist()
    axes = marker.get("axes")
    if not isinstance(axes, Mapping) or not all(isinstance(values, list) for values in axes.values()):
        raise integrity.damaged(path, "it has no table axes with lists of values")
    keys = [key for key in (*axes, COLUMN) if rows and key in rows[0]]
    # The table has values as texts where a column cannot have them as they are.
    values = {key: {name: value for value in found for name in _names(value)} for key, found in axes.items()}
    seeds = len({row.get("seed") for row in rows}) > 1
    runs = []
    for row in rows:
        try:
            point = {key: values[key][_names(row[key])[0]] if key in values else row[key] for key in keys}
            seed, run = int(row["seed"]), str(row["run"])
        except (KeyError, TypeError, ValueError):
            raise integrity.damaged(directory / TABLE, f"a row does not belong to the sweep in {path.name}") from None
        found = results.read(directory / RUNS / run)
        runs.append(Run(point, seed, found, run, label(point, seed if seeds else None)))
    title = Scenario(text="", path=str(marker.get("scenario", ""))).title
    return marker, Sweep(runs, tuple(map(str, marker.get("metrics", ()))), title)


def _names(value: Any) -> list[str]:
    """Return what a table may have for a value, as texts."""
    if isinstance(value, str):
        return [value]
    return [repr(float(value)), toml.value(value)] if isinstance(value, int | float) else [toml.value(value)]


def _complete(done: Sweep, failed: FailedRuns | None) -> Sweep:
    if failed:
        raise IncompleteSweep(done, failed) from failed
    return done


COLUMN = "variant"
"""The column of a comparison's table that has the labels of the variants."""
TABLE, RUNS = "sweep.parquet", "runs"
"""The names of a sweep's table, and of the folder with its runs."""


def _lost(output: Output, about: Mapping[str, Any], keys: set[str]) -> bool:
    """Return whether the directory has a table with runs that the new table would lack."""
    path = output.path / TABLE
    if not path.exists():
        return False
    import pyarrow as pa

    try:
        return not keys.issuperset(storage.read_parquet(path, ["run"])["run"].to_pylist())
    except (OSError, ValueError, KeyError, pa.ArrowException):
        # The table is damaged. The same sweep may write it again.
        found = output.marker() or {}
        return any(found.get(key) != value for key, value in about.items())


def label(point: Mapping[str, Any], seed: int | None) -> str:
    """Return a run's name for tables and messages: the values, with their keys where they are numbers."""
    words = [str(v) if isinstance(v, str) else f"{k.rpartition('.')[2]} {toml.value(v)}" for k, v in point.items()]
    return ", ".join(words + ([] if seed is None else [f"seed {seed}"])) or "run"


def _grid(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _twice(values: Sequence[Any]) -> str:
    """Return a value that a list has twice, which would count as another seed; empty if there is none."""
    try:
        names = [_names(value)[0] for value in values]
    except (TypeError, ValueError, RecursionError):
        return ""  # a scenario cannot have such a value, and says so
    counts = Counter(names)
    return next((text(value) for value, name in zip(values, names, strict=True) if counts[name] > 1), "")


def check_grid(axes: Mapping[str, Sequence[Any]], wanted: Any) -> int:
    """Check the axes of a grid, by dotted keys, and the number of seeds. Return the latter as a Python integer.

    Raises:
        ScenarioError: An axis has no key, no list of values, or a value twice, or there are too many runs.
    """
    for key, values in axes.items():
        if not key:
            raise ScenarioError("the key of an axis is empty; give a key of the scenario, such as workload.load")
        found = f'the text "{shown(values)}"' if isinstance(values, str) else ""
        if not hasattr(values, "__len__"):
            found = shown(repr(values))
        elif not len(values):
            found = "no values"
        if found:
            raise ScenarioError(f"{shown(key)}: found {found}; an axis needs a list of values, such as [0.5, 0.8]")
        if twice := _twice(values):
            raise ScenarioError(f"{shown(key)}: {shown(twice)} is given twice; give each value once")
    seeds = whole_number("seeds", wanted, "runs for each point")
    if seeds > 1 and "run.seed" in axes:
        raise ScenarioError("the axis run.seed gives the seeds already; leave seeds at 1")
    runs = seeds * math.prod(len(values) for values in axes.values())
    if runs > RUNS_MAX:
        raise ScenarioError(f"the sweep has {runs} runs; the limit is {RUNS_MAX}")
    return seeds


def _describe(base: Scenario, seeds: int) -> dict[str, Any]:
    return {"scenario": base.path, "overrides": list(base.overrides), "seeds": seeds, "engine": engine_id()}
