"""Getting a paper's figure back: run its grid, write its data, draw it, hold its claims against it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

from flowloom import columns, outputs, provenance, toml
from flowloom.claims import digests, ledger
from flowloom.claims.digests import Digests
from flowloom.claims.intervals import UNDECIDED
from flowloom.figures.catalogue import keeps_ledger
from flowloom.figures.grid import Grid, expressions, plan
from flowloom.figures.schema import Figure
from flowloom.jobs import Store, run_jobs
from flowloom.outputs import Output
from flowloom.progress import Reporter


class Outcome(NamedTuple):
    """What a figure came to."""

    directory: Path
    pictures: list[Path]
    seeds: int
    """How many there were in the end."""
    claims: dict[str, dict[str, Any]]
    """What `ledger.evaluate` found, by claim."""
    warnings: list[str]
    """What keeps the runs' numbers from meaning what they seem to, for people."""


def default_directory(figure: Figure, scale: str, changes: Mapping[str, Any]) -> Path:
    """Give where a figure goes unless told otherwise: each scale has its own place, so that none replaces another."""
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
    reporter: Reporter | None = None,
) -> Outcome:
    """Run a figure's grid, and write its data, its drawing and its claims' outcomes.

    While a claim is undecided, seeds are doubled, up to the scale's `seeds_max`.

    Args:
        figure: What to run.
        scale: `quick` or `full`, or any other that the file has.
        out: The directory for data and pictures.
        runs: Where finished runs are kept; figures that share runs share them here.
        changes: Scenario keys that win over those of the figure. With any, nothing is entered into the ledger.
        executor: Where to run; by default as many processes as there are cores.
        workers: How many processes, instead of one per core.
        force: Replace another figure, or another scale of it, in `out`. Files that Flowloom did not write stay.
        reporter: Is told how it goes.

    Raises:
        ScenarioError: The figure or one of its scenarios is not valid, or `out` holds something else; nothing has run then.
        RunError: Some runs failed; all others were made and kept.
    """
    # A newer build draws the same figure again: of which build the data are, the commit in claims.json says.
    with outputs.claim(out, outputs.FIGURE, f"{figure.name} {scale}", force=force) as output:
        return _run(figure, scale, output, runs, changes or {}, executor, workers, reporter)


def _run(
    figure: Figure,
    scale: str,
    output: Output,
    runs: Path,
    changes: Mapping[str, Any],
    executor: Executor | None,
    workers: int | None,
    reporter: Reporter | None,
) -> Outcome:
    from flowloom.plots.figure import draw

    planned = plan(figure, scale, changes=changes)
    # Before the runs, which may take hours in which someone may edit the scenarios.
    now = {} if changes or not figure.claims else digests.today([(figure, scale)])
    store, seeds, seeds_max = Store(runs, flows=False), figure.scales[scale].seeds, figure.scales[scale].seeds_max
    while True:
        made = run_jobs([run.job for run in planned], executor=executor, workers=workers, store=store, reporter=reporter)
        grid = Grid(figure, planned, made)
        claims = {claim.id: ledger.evaluate(claim, grid) for claim in figure.claims}
        if seeds >= seeds_max or all(found["verdict"] != UNDECIDED for found in claims.values()):
            break
        # Doubled instead of one by one: every look at an interval is one more chance to be wrong.
        seeds = min(2 * seeds, seeds_max)
        planned = plan(figure, scale, seeds, changes)
    tree = provenance.tree()
    today = now.get((figure.name, scale))
    about = {
        "seeds": seeds,
        "runs": len(made),
        # What the runs cost when they were made, whether that was now or before.
        "seconds": round(sum(result.provenance["wall_s"] for result in made.values()), 1),
        "commit": tree[0] if tree else None,
        "clean": tree[1] if tree else True,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **(today._asdict() if isinstance(today, Digests) else {}),
        **({"set": {key: toml.value(value) for key, value in changes.items()}} if changes else {}),
    }
    with output.replace({"figure": figure.name, "scale": scale, **about, "claims": claims}) as folder:
        _write_data(grid, folder)
        pictures = draw(grid, folder / figure.path.stem, _footnote(figure, scale, about))
    if not changes and keeps_ledger(figure.path):
        ledger.record(figure, scale, claims, about)
    return Outcome(output.shown, [output.shown / picture.name for picture in pictures], seeds, claims, grid.warnings())


def _write_data(grid: Grid, folder: Path) -> None:
    import pyarrow as pa

    table = pa.Table.from_pylist(grid.rows(expressions(grid.figure)))
    columns.write(table, folder / "data.parquet")
    columns.write_csv(table, folder / "data.csv")
    # One file per recorded series, however many panels draw it.
    for panel in {panel.course: panel for panel in grid.figure.panels if panel.kind == "course"}.values():
        rows = grid.course_rows(panel.course, panel.x, panel.y[0].expression)
        columns.write_csv(pa.Table.from_pylist(rows), folder / f"{panel.course}.csv")


def _footnote(figure: Figure, scale: str, about: Mapping[str, Any]) -> str:
    seeds = about["seeds"]
    spread = f"mean of {seeds} seeds, bars: 95 % (Student t)" if seeds > 1 else "one seed, so no confidence interval"
    changes = "".join(f", {key}={value}" for key, value in about.get("set", {}).items())
    return f"{figure.name}, scale {scale}{changes}: {spread}"
