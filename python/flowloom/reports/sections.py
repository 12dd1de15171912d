"""The sections of pages: of a run, a comparison and a sweep; `figures` has that of a paper's figure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from flowloom import comparisons, explanations, metrics, outputs, results, sweeps, tables
from flowloom._native import ScenarioError
from flowloom.axes import text
from flowloom.comparisons import Comparison
from flowloom.figures import saved
from flowloom.plots import samples, subjects
from flowloom.reports import charts, facts, figures, findings
from flowloom.reports.content import Fact, Plots, Section, Table, meanings
from flowloom.results import Results
from flowloom.sweeps import Sweep
from flowloom.transports import transport

What: TypeAlias = Results | Comparison | Sweep | saved.Saved
"""What a section can be of."""
_NAMES_MAX = 5
"""At most this many variants are named in a title."""


def load(directory: str | os.PathLike[str]) -> What:
    """Read the directory of a run, a comparison, a sweep or a figure.

    Raises:
        ScenarioError: The directory holds none of these, or a file is damaged.
    """
    path = Path(directory)
    if (path / outputs.FIGURE.marker).exists():
        return saved.load(path)
    if (path / outputs.SWEEP.marker).exists():
        return comparisons.load_comparison(path) if comparisons.is_saved(path) else sweeps.load_sweep(path)
    if not (path / results.MARKER).exists():
        markers = ", ".join(kind.marker for kind in (outputs.RESULT, outputs.SWEEP, outputs.FIGURE))
        why = "it has none of " + markers if path.is_dir() else "it is a file" if path.exists() else "it does not exist"
        raise ScenarioError(f"{path} is not the directory of a run, a comparison, a sweep or a figure: {why}")
    return results.load(path, whole=True)


def of(what: What, number: int) -> Section:
    """Return the section of a result; `number` is its place on the page."""
    id_ = f"section-{number}"
    if isinstance(what, Results):
        return of_run(what, id_)
    if isinstance(what, Comparison):
        return of_comparison(what, id_)
    return of_sweep(what, id_) if isinstance(what, Sweep) else figures.of(what, id_)


def of_run(result: Results, id_: str) -> Section:
    """Return the section of a run."""
    found = [Table.of(table, title) for table, title in zip(tables.of_run(result), ("Numbers", "By flow size"), strict=False)]
    plots: list[Plots] = []
    if _has_flows(result):
        plots = [plot for _, subject in subjects.of_run(result) for plot in charts.of(subject)]
    plots += _over_time(result, [name for name in result.series if name not in samples.KINDS])
    found += [charts.summary(plot) for plot in plots if plot.title.startswith(charts.OVER_TIME)]
    label = transport(result.summary["transport"]).label
    return Section(
        id=id_,
        kind="Run",
        title=", ".join(filter(None, (result.title, label))),
        finding=findings.of_run(result),
        facts=[*facts.of_scenario(result.scenario, alone=True), *facts.of_runs([result])],
        command=facts.command([result]),
        about=explanations.paragraphs(result)[1:],
        warnings=[f"{found.flag}: {found.text}" for found in result.warnings],
        plots=plots,
        tables=found,
        scenario=result.scenario,
        meanings=meanings(found),
    )


def _over_time(what: Results | Comparison, names: Iterable[str]) -> list[Plots]:
    """Return the plots of series."""
    return [plot for name in names for _, subject in subjects.of_series(what, name) for plot in charts.of(subject)]


def _has_flows(result: Results) -> bool:
    return result.directory is None or (result.directory / "flows.parquet").exists()


def of_comparison(compared: Comparison, id_: str) -> Section:
    """Return the section of a comparison."""
    runs = [run.results for run in compared.sweep]
    if not runs:
        raise ScenarioError(f"no run of {compared.sweep.title} finished, so there is nothing to report")
    plots = []
    for name, subject in subjects.of_comparison(compared):
        at = f"{compared.over.key} = {_round(compared, name)}: " if compared.over and name != "tournament" else ""
        plots += [_renamed(plot, at) for plot in charts.of(subject)]
    # What is over all values comes first.
    plots = plots[-1:] + plots[:-1] if compared.over else plots
    recorded = dict.fromkeys(name for run in runs for name in run.series)
    plots += _over_time(compared, sorted(recorded, key=lambda name: name not in samples.KINDS))
    if compared.over:
        found = [Table.of(table, "Ranking") for table in tables.of_comparison(compared)]
    else:
        found = [
            Table.of(t, title) for t, title in zip(tables.of_variants(compared), ("Numbers", "By flow size"), strict=False)
        ]
    found.append(_runs(compared.sweep))
    return Section(
        id=id_,
        kind="Comparison",
        title=f"{compared.sweep.title}: {_several([variant.title for variant in compared.variants])}",
        finding=findings.of_comparison(compared),
        facts=[
            *_variants(compared),
            *facts.of_scenario(runs[0].scenario, alone=False, varied=_varied(compared)),
            *facts.of_runs(runs),
        ],
        command=facts.command(runs),
        warnings=_warnings(compared.sweep),
        plots=plots,
        tables=found,
        scenario=runs[0].scenario,
        meanings=meanings(found),
    )


def _several(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def _varied(compared: Comparison) -> list[str]:
    """Return the keys that are not the same in all runs."""
    over = [compared.over.key] if compared.over else []
    return over + [key for variant in compared.variants for key in variant.changes if key != "transport.name"]


def _round(compared: Comparison, name: str) -> str:
    return next(each for each in compared.rounds() if subjects.name_of_round(each) == name)


def _renamed(plot: Plots, before: str) -> Plots:
    return Plots(before + plot.title, plot.keys, plot.panels, plot.note)


def _variants(compared: Comparison) -> list[Fact]:
    titles = ", ".join(variant.title for variant in compared.variants)
    own = [Fact(variant.title, _keys(variant.changes)) for variant in compared.variants if not variant.plain]
    over = [Fact("At", f"{compared.over.key} = {', '.join(compared.over.names)}")] if compared.over else []
    beside = [Fact("Beside them", ", ".join(f"{other.label} ({other.path})" for other in compared.beside))]
    return [Fact("Compared", titles), *over, *own, *(beside if compared.beside else [])]


def _keys(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {text(value)}" for key, value in changes.items())


def of_sweep(sweep: Sweep, id_: str) -> Section:
    """Return the section of a sweep."""
    runs = [run.results for run in sweep]
    if not runs:
        raise ScenarioError(f"no run of {sweep.title} finished, so there is nothing to report")
    found = [*(Table.of(table, "Numbers") for table in tables.of_sweep(sweep)), _runs(sweep)]
    values: dict[str, dict[str, None]] = {}
    for point, _ in sweep.points():
        for key, value in point.items():
            values.setdefault(key, {})[text(value)] = None
    varied = [Fact("Varied", f"{key} = {', '.join(names)}") for key, names in values.items()]
    return Section(
        id=id_,
        kind="Sweep",
        title=f"{sweep.title} over {', '.join(values)}",
        finding=findings.of_sweep(sweep),
        facts=[*varied, *facts.of_scenario(runs[0].scenario, alone=False, varied=values), *facts.of_runs(runs)],
        command=facts.command(runs),
        warnings=_warnings(sweep),
        plots=[plot for _, subject in subjects.of_sweep(sweep) for plot in charts.of(subject)],
        tables=found,
        scenario=runs[0].scenario,
        meanings=meanings(found),
    )


def _warnings(sweep: Sweep) -> list[str]:
    return [line.removeprefix("warning: ") for line in sweep.warning_lines()]


def _runs(sweep: Sweep) -> Table:
    """Return a table of all runs, with the numbers that are saved with them."""
    found = sweep.table()
    names = [name for name in found.column_names if name != "run"]
    rows = [[_shown(name, row[name]) for name in names] for row in found.to_pylist()]
    right = [at for at, name in enumerate(names) if name not in sweep.points()[0][0] and name != "warnings"]
    head = [metrics.label(name) if "." in name else name for name in names]
    return Table.of(tables.Table(head, rows, right), "Every run", f"{len(rows)} runs", folded=True)


def _shown(name: str, value: object) -> str:
    if isinstance(value, float):
        return metrics.show(name, value)
    return "-" if value is None else str(value)


def titles(sections: Sequence[Section]) -> str:
    """Return the title of a page."""
    return "; ".join(section.title for section in sections)
