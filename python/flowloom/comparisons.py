"""Comparisons: variants of a scenario side by side, at one point or at several values of a key: `flowloom.compare`."""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom import columns, integrity, outputs, overlays
from flowloom._native import ScenarioError
from flowloom.axes import Axis, text
from flowloom.frames import Framed
from flowloom.overlays import Overlay
from flowloom.progress import Reporter
from flowloom.results import Results
from flowloom.scenario import Scenario, Source, dotted, within
from flowloom.stats import Estimate, estimate
from flowloom.sweeps import COLUMN, IncompleteSweep, Place, Sweep, check_grid, read_sweep, run_places
from flowloom.variants import Variant, check_unlike
from flowloom.variants import of as variant_of
from flowloom.words import shown, suggestion

if TYPE_CHECKING:
    import pyarrow as pa

    from flowloom.plots.picture import Picture

METRICS = ("slowdown.mean", "slowdown.p99")
"""What is drawn over the values of a key, unless other metrics are asked for."""
_BY_SIZE = ("slowdown.mean", "fct_us.mean")
"""What is drawn against the flow size."""


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison(Framed, Mapping[str, Results]):
    """The results of a comparison. Its keys are the labels of the variants of which a run finished, in their order.

    The data frame of a comparison is its `table`.
    """

    sweep: Sweep
    """All runs, in the order of the values of `over`, the variants and the seeds."""
    variants: tuple[Variant, ...]
    over: Axis | None = None
    """The key whose values the variants are compared at, if there is one."""
    beside: tuple[Overlay, ...] = ()
    """Other tools' flows or points."""

    def __getitem__(self, label: str) -> Results:
        """Return the result of a variant.

        Raises:
            KeyError: No variant with this label has a run that finished.
            ScenarioError: It has several runs; `rounds` returns them.
        """
        runs = [run.results for run in self.sweep if run.point[COLUMN] == label]
        if not runs:
            raise KeyError(label)
        if len(runs) > 1:
            raise ScenarioError(f'"{shown(label)}" has {len(runs)} runs; take them from the method `rounds`')
        return runs[0]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(run.point[COLUMN] for run in self.sweep))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        over = f" over {self.over.key} = {', '.join(self.over.names)}" if self.over else ""
        titles = ", ".join(variant.title for variant in self.variants)
        return f"<Comparison of {titles} on {self.sweep.title}{over}: {len(self.sweep)} runs>"

    def _repr_html_(self) -> str:
        from flowloom import display, tables

        return display.page(tables.of_comparison(self) if self.sweep.runs else [], self.sweep.warning_lines())

    def plot(self, metrics: Sequence[str] = (), at: Any = None) -> Picture:
        """Draw the comparison as `flowloom compare` does.

        Args:
            metrics: What is drawn over the values of `over`; by default what the comparison was made with.
            at: A value of `over`, at which flows are compared; without it, all values are drawn in one picture.

        Raises:
            ScenarioError: There is no such metric or value.
        """
        from flowloom.plots import picture, pictures, subjects

        if (at is not None or metrics) and self.over is None:
            raise ScenarioError("`metrics` and `at` are for a comparison over the values of a key; leave them out")
        drawn = self.with_metrics(metrics)
        name = ""
        if self.over is not None and at is not None:
            if text(at) not in self.over.names:
                raise ScenarioError(
                    f"{shown(text(at))} is no value of {self.over.key}: {suggestion(text(at), self.over.names)}"
                )
            name = subjects.name_of_round(text(at))
        return picture.picture(lambda: pictures.of_comparison(drawn), name)

    def with_metrics(self, metrics: Sequence[str]) -> Comparison:
        """Return the comparison with other metrics to draw over the values of `over`; see `Sweep.with_metrics`."""
        return dataclasses.replace(self, sweep=self.sweep.with_metrics(metrics))

    def table(self, names: Sequence[str] | None = None) -> pa.Table:
        """Return a table with a row per run; see `Sweep.table`."""
        return self.sweep.table(names)

    def _framed(self) -> pa.Table:
        return self.table()

    def rounds(self) -> dict[str, dict[str, list[Results]]]:
        """Return the results by seed of each variant, by its title, at each value of `over`.

        Without `over`, there is one round, whose name is empty. A variant whose runs all failed is missing from the round.
        """
        titles = {variant.label: variant.title for variant in self.variants}
        names = dict(zip(map(repr, self.over.values), self.over.names, strict=True)) if self.over else {}
        found: dict[str, dict[str, list[Results]]] = {}
        for point, runs in self.sweep.points():
            round_ = names[repr(point[self.over.key])] if self.over else ""
            found.setdefault(round_, {})[titles[point[COLUMN]]] = runs
        return found

    def as_json(self) -> list[dict[str, Any]]:
        """Return a list of the runs' summaries, each with its variant and the value of `over`, and of other tools' flows.

        If all runs failed, it is empty.
        """
        keys = [self.over.key] if self.over else []
        runs = [
            {COLUMN: run.point[COLUMN], "over": {key: run.point[key] for key in keys}} | run.results.as_json()
            for run in self.sweep
        ]
        return runs + [{COLUMN: label, "over": {}} | other.summary for label, other in self._others().items()]

    def columns(self, round_: str = "") -> dict[str, list[Results]]:
        """Return what tables of a round show: the runs of each variant by its title, then other tools' flows by their label."""
        return self.rounds()[round_] | {label: [result] for label, result in self._others().items()}

    def ranking(self) -> dict[str, Estimate]:
        """Return by title the geometric mean of each variant's mean slowdowns over the rounds, the best first.

        Variants that lack runs, because they failed or no flow finished, come last: their means are over other flows.
        """
        rounds = self.rounds().values()
        titles = dict.fromkeys(title for results in rounds for title in results)
        means = {title: _over_rounds([results.get(title, ()) for results in rounds]) for title in titles}
        return dict(sorted(means.items(), key=lambda each: each[1].rank))

    def beside_files(self, files: Mapping[str, str | os.PathLike[str]]) -> Comparison:
        """Return the comparison with more flows or points of other tools beside it: by label, a file; see `compare`.

        Raises:
            ScenarioError: A file or a label is not valid.
        """
        drawn = (self.sweep.metrics or METRICS) if self.over else _BY_SIZE
        found = tuple(overlays.read(path, label, self.over, drawn) for label, path in files.items())
        beside = self.beside + found
        check_unlike(self.variants, [other.label for other in beside])
        overlays.check_shared(beside)
        return dataclasses.replace(self, beside=beside)

    def _others(self) -> dict[str, Results]:
        """Return other tools' flows as results, with the runs' ranges of sizes; none, if all runs failed."""
        if not self.sweep.runs:
            return {}
        like = self.sweep.runs[0].results.summary
        return {other.label: other.results(like) for other in self.beside if other.flows is not None}


def compare(
    scenario: Source,
    transports: Sequence[str] = (),
    *,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    over: Mapping[str, Sequence[Any]] | None = None,
    beside: Mapping[str, str | os.PathLike[str]] | None = None,
    metrics: Sequence[str] | None = None,
    seeds: int = 1,
    executor: Executor | None = None,
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    reporter: Reporter | None = None,
) -> Comparison:
    """Run transports and variants of a scenario side by side.

    Transports run on the same flows, and so do variants, unless they set a key of the workload or `run.seed`.

    Args:
        scenario: A path, a dict, TOML text or a Scenario.
        transports: Names of transports.
        variants: More to compare: by label, the scenario keys that the variant sets, such as
            `{"shallow": {"fabric.buffer": "12kB"}}`.
        over: A scenario key with its values, at each of which all are compared: `{"workload.load": [0.3, 0.5, 0.7]}`.
        beside: By label, a file with another tool's flows or points; see `flowloom.overlays`.
        metrics: What is drawn over the values of `over`; by default the mean and the 99th percentile of slowdowns.
        seeds: The number of runs of each variant at each value; see `sweep`.
        executor: See `sweep`.
        workers: See `sweep`.
        out: A directory for the runs and their table; see `sweep`.
        force: Also replace the table of another comparison; see `sweep`.
        reporter: Receives progress and warnings.

    Raises:
        ScenarioError: A scenario, a label or a file is not valid, or there is nothing to compare. Nothing was run.
        IncompleteSweep: Some runs failed; its attribute `comparison` has the others.
    """
    base = Scenario.of(scenario)
    if isinstance(transports, str):
        raise ScenarioError(f'transports: found the text "{shown(transports)}"; give a list of names')
    found = [Variant.of_transport(name) for name in transports]
    found += [variant_of(name, keys) for name, keys in (variants or {}).items()]
    if not found:
        raise ScenarioError("there is nothing to compare; give transports, variants or both")
    names = tuple(metrics or METRICS)
    axis = _axis(over, found)
    others = tuple(overlays.read(path, name, axis, names if axis else _BY_SIZE) for name, path in (beside or {}).items())
    check_unlike(found, [other.label for other in others])
    overlays.check_shared(others)
    points: list[dict[str, Any]] = [{axis.key: value} for value in axis.values] if axis else [{}]
    axes: dict[str, Sequence[Any]] = {axis.key: axis.values} if axis else {}
    seeds = check_grid(axes | {COLUMN: [variant.label for variant in found]}, seeds)
    places = [_place(point, variant) for point in points for variant in found]
    about = {
        "axes": {key: list(values) for key, values in axes.items()},
        "variants": [{"label": variant.label, "keys": variant.changes} for variant in found],
        "beside": [{"label": other.label, "path": other.path} for other in others],
    }

    def write(folder: Path) -> None:
        for number, other in enumerate(others):
            columns.write(other.table(), folder / _file(number))

    def compared(done: Sweep) -> Comparison:
        return Comparison(done, tuple(found), axis, others)

    try:
        done = run_places(
            base, places, about, metrics or (), seeds=seeds, executor=executor, workers=workers, out=out, flows=True,
            force=force, reporter=reporter, write=write, foresee=True,
        )  # fmt: skip
    except IncompleteSweep as error:
        error.comparison = compared(error.sweep)
        raise
    return compared(done)


def _axis(over: Mapping[str, Sequence[Any]] | None, variants: Sequence[Variant]) -> Axis | None:
    """Return the axis of a comparison; check that its key is not also set by the variants."""
    if not over:
        return None
    if len(over) > 1:
        raise ScenarioError(f"over: found {len(over)} keys; give one, and vary the others in a sweep")
    over = dotted(over)
    check_grid(over, 1)
    ((key, values),) = over.items()
    axis = Axis.of(key, values)
    for variant in variants:
        for other in variant.changes:
            if within(key, other) or within(other, key):
                what = f'variant "{variant.label}" sets {other}' if not variant.plain else "the transports set it"
                raise ScenarioError(f"over {shown(key)}: {what}; vary another key, or leave it out of the variants")
    return axis


def _over_rounds(rounds: Sequence[Sequence[Results]]) -> Estimate:
    """Return the geometric mean of mean slowdowns over the rounds, given the runs of each; `n` counts runs with a slowdown.

    If not all rounds have it of the same seeds, there is no interval.
    """
    found = [{run.summary["seed"]: run.summary["slowdown"]["mean"] for run in runs} for runs in rounds]
    known = [{seed: mean for seed, mean in means.items() if mean is not None} for means in found]
    count = sum(map(len, known))
    if all(means.keys() == known[0].keys() for means in known):
        by_seed = zip(*(means.values() for means in known), strict=True)
        return estimate([statistics.geometric_mean(means) for means in by_seed])._replace(n=count)
    return Estimate(statistics.geometric_mean(statistics.fmean(means.values()) for means in known if means), None, count)


def _place(point: dict[str, Any], variant: Variant) -> Place:
    return Place(point | {COLUMN: variant.label}, point | variant.changes, variant.blame)


def is_saved(directory: Path) -> bool:
    """Return whether the directory of a sweep has a comparison."""
    return "variants" in integrity.read_toml(directory / outputs.SWEEP.marker)


def load_comparison(directory: str | os.PathLike[str]) -> Comparison:
    """Read the runs of a comparison that was saved, with what was beside them.

    Raises:
        ScenarioError: The directory has no comparison, the comparison is not finished, or a file is damaged.
    """
    marker, sweep = read_sweep(Path(directory))
    if "variants" not in marker:
        raise ScenarioError(f"{directory} holds a sweep; flowloom.load_sweep reads it")
    path = Path(directory) / outputs.SWEEP.marker
    try:
        found = tuple(Variant(str(each["label"]), dict(each["keys"])) for each in marker["variants"])
        axes = [Axis.of(key, values) for key, values in marker["axes"].items()]
        beside = [(str(each["label"]), str(each["path"])) for each in marker.get("beside", [])]
    except (KeyError, TypeError, ValueError):
        raise integrity.damaged(path, "its variants are not those of a comparison") from None
    if len(axes) > 1 or any(run.point.get(COLUMN) not in {variant.label for variant in found} for run in sweep):
        raise integrity.damaged(path, "its variants are not those of the table")
    others = tuple(
        Overlay.of_table(label, name, integrity.read_table(Path(directory) / _file(number)))
        for number, (label, name) in enumerate(beside)
    )
    return Comparison(sweep, found, axes[0] if axes else None, others)


def _file(number: int) -> str:
    """Return the name of the file that has what was beside a comparison."""
    return f"beside-{number}.parquet"
