"""Reproduces a paper's figure: runs its grid, writes its data, draws it, and checks its claims."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

from flowloom import columns, outputs, provenance, toml
from flowloom.claims import digests, ledger
from flowloom.claims.digests import Digests
from flowloom.claims.entries import About, OfClaim
from flowloom.claims.intervals import UNDECIDED
from flowloom.figures.grid import Grid, choose, expressions, matches, plan, trials, with_flows
from flowloom.figures.schema import Figure
from flowloom.jobs import Store, run_jobs
from flowloom.outputs import Output
from flowloom.progress import Reporter
from flowloom.results import Results
from flowloom.scenario import dotted
from flowloom.stats import seeds_of


class Outcome(NamedTuple):
    """The outcome of a figure."""

    directory: Path
    pictures: list[Path]
    seeds: int
    """The number of seeds that were run."""
    claims: dict[str, OfClaim]
    """The results of `ledger.evaluate`, by claim."""
    ledger: Path | None
    """The ledger that the results were written to, None if there is none."""
    warnings: list[str]
    """The warnings of the runs, in a few lines."""


def default_directory(figure: Figure, scale: str, changes: Mapping[str, Any]) -> Path:
    """Return the default output directory of a figure. Each scale has its own, so that no scale replaces another."""
    return Path("results") / (figure.name + ("" if scale == "quick" else f"-{scale}") + ("-set" if changes else ""))


def run_figure(
    figure: Figure,
    scale: str,
    *,
    out: Path,
    runs: Path,
    changes: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    force: bool = False,
    into_ledger: bool = True,
    reporter: Reporter | None = None,
) -> Outcome:
    """Run a figure's grid, and write its data, its drawing and the outcomes of its claims.

    While a claim is undecided, the number of seeds is doubled, up to the scale's `seeds_max`.

    Args:
        figure: The figure to run.
        scale: `quick`, `full`, or another scale of the file.
        out: The directory for data and pictures.
        runs: The directory for finished runs, which figures share.
        changes: Scenario keys that take precedence over those of the figure. If there are any, the ledger is not written.
        executor: Where to run; by default one local process per core.
        workers: The number of local processes, instead of one per core.
        force: Replace another figure in `out`, or this one with another scale or other changes. Files that Flowloom did not
            write stay.
        into_ledger: Write the outcomes to the ledger beside the figure too, and not only to claims.json in `out`.
        reporter: Receives progress and warnings.

    Raises:
        ScenarioError: The figure or one of its scenarios is not valid, the ledger is damaged, or `out` holds something else.
            Nothing was run.
        RunError: Some runs failed; all others finished and were saved.
    """
    changes = dotted(changes or {})
    into_ledger = into_ledger and not changes
    if into_ledger:
        ledger.read(ledger.path_of(figure))  # a damaged one is reported now, and not after hours of simulation
    said = sorted(f"{key}={toml.value(value)}" for key, value in changes.items())
    # The key has no build, so that a newer build can replace the figure. claims.json has the commit.
    with outputs.claim(out, outputs.FIGURE, " ".join([figure.name, scale, *said]), force=force) as output:
        return _run(figure, scale, output, runs, changes, executor, workers, into_ledger, reporter)


def _run(
    figure: Figure,
    scale: str,
    output: Output,
    runs: Path,
    changes: Mapping[str, Any],
    executor: Executor | None,
    workers: int | None,
    into_ledger: bool,
    reporter: Reporter | None,
) -> Outcome:
    from flowloom.plots.figure import draw

    # The digests are computed before the runs, since the scenarios may be edited during hours of simulation.
    now = {} if changes or not figure.claims else digests.today([(figure, scale)])
    tried = trials(figure, scale, changes)
    made: dict[str, Results] = {}
    if tried:
        store = Store(runs, flows=())  # they are compared by their summaries
        made = run_jobs([run.job for run in tried], executor=executor, workers=workers, store=store, reporter=reporter)
    chosen = choose(figure, tried, made)
    seeds, seeds_max = figure.scales[scale].seeds, figure.scales[scale].seeds_max
    planned = plan(figure, scale, seeds, changes, chosen)
    while True:
        store = Store(runs, flows={run.job.key for run in planned if any(matches(run.point, w) for w in with_flows(figure))})
        made |= run_jobs([run.job for run in planned], executor=executor, workers=workers, store=store, reporter=reporter)
        grid = Grid(figure, planned, made, tried)
        claims = {claim.id: ledger.evaluate(claim, grid) for claim in figure.claims}
        if seeds >= seeds_max or all(found.verdict != UNDECIDED for found in claims.values()):
            break
        # Seeds are doubled instead of added one by one, since every look at an interval adds a chance of a wrong verdict.
        seeds = min(2 * seeds, seeds_max)
        planned = plan(figure, scale, seeds, changes, chosen)
    tree = provenance.tree()
    today = now.get((figure.name, scale))
    about = About(
        seeds=seeds,
        runs=len(made),
        # The runs' own times, including those of runs that were reused.
        seconds=round(sum(result.provenance["wall_s"] for result in made.values()), 1),
        commit=tree[0] if tree else None,
        clean=tree[1] if tree else True,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        **(today._asdict() if isinstance(today, Digests) else {}),
    )
    said = {key: toml.value(value) for key, value in changes.items()}
    found: dict[str, Any] = {"figure": figure.name, "scale": scale, **ledger.content(about), **({"set": said} if said else {})}
    with output.replace(found | {"claims": {claim: ledger.content(each) for claim, each in claims.items()}}) as folder:
        _write_data(grid, folder)
        pictures = draw(grid, folder / figure.path.stem, _footnote(grid, scale, seeds, said))
    written = ledger.record(figure, scale, claims, about) if into_ledger else None
    shown = [output.shown / picture.name for picture in pictures]
    return Outcome(output.shown, shown, seeds, claims, written, grid.warnings())


def _write_data(grid: Grid, folder: Path) -> None:
    import pyarrow as pa

    table = pa.Table.from_pylist(grid.rows(expressions(grid.figure)))
    columns.write(table, folder / "data.parquet")
    columns.write_csv(table, folder / "data.csv")
    # One file per recorded series, however many panels draw it.
    for series in dict.fromkeys(panel.course for panel in grid.figure.panels if panel.kind == "course"):
        columns.write_csv(pa.Table.from_pylist(grid.course_rows(series)), folder / f"{series}.csv")
    if rows := grid.quantile_rows():
        table = pa.Table.from_pylist(rows)
        columns.write(table, folder / "quantiles.parquet")
        columns.write_csv(table, folder / "quantiles.csv")


def _footnote(grid: Grid, scale: str, seeds: int, said: Mapping[str, str]) -> str:
    from flowloom.plots.frames import counts

    pooled = [panel.kind == "cdf" for panel in grid.figure.panels]
    if seeds == 1:
        spread = "one seed" if all(pooled) else "one seed, so no confidence interval"
    else:
        count, fewer = seeds_of(counts(grid) or [seeds])
        means = [] if all(pooled) else [f"mean of {count} seeds, bars: 95 % (Student t){fewer}"]
        spread = "; ".join(means + ([f"distributions of the flows of all {seeds} seeds"] if any(pooled) else []))
    changes = "".join(f", {key}={value}" for key, value in said.items())
    return f"{grid.figure.name}, scale {scale}{changes}: {spread}"
