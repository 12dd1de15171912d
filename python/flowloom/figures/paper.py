"""Getting a paper's figure back: run its grid, write its data, draw it, hold its claims against it."""

from __future__ import annotations

import datetime
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

from flowloom import columns, provenance, storage
from flowloom.claims import ledger
from flowloom.figures.grid import Grid, expressions, plan
from flowloom.figures.schema import Figure
from flowloom.jobs import Store, run_jobs
from flowloom.progress import Reporter

MARKER = "data.parquet"


class Outcome(NamedTuple):
    """What a figure came to."""

    directory: Path
    pictures: list[Path]
    claims: dict[str, dict[str, Any]]
    """What `ledger.evaluate` found, by claim."""
    warnings: list[str]
    """What keeps the runs' numbers from meaning what they seem to, for people."""


def run_figure(
    figure: Figure,
    scale: str,
    *,
    out: Path,
    runs: Path,
    executor: Executor | None = None,
    workers: int | None = None,
    reporter: Reporter | None = None,
) -> Outcome:
    """Run a figure's grid, and write its data, its drawing and its claims' outcomes.

    Args:
        figure: What to run.
        scale: `quick` or `full`, or any other that the file has.
        out: The directory for data and pictures.
        runs: Where finished runs are kept; figures that share runs share them here.
        executor: Where to run; by default as many processes as there are cores.
        workers: How many processes, instead of one per core.
        reporter: Is told how it goes.

    Raises:
        ScenarioError: The figure or one of its scenarios is not valid; nothing has run then.
        RunError: Some runs failed; all others were made and kept.
    """
    from flowloom.plots.figure import draw

    storage.check_replaceable(out, marker=MARKER)
    planned = plan(figure, scale)
    made = run_jobs(
        [run.job for run in planned],
        executor=executor,
        workers=workers,
        store=Store(runs, flows=False),
        reporter=reporter,
    )
    grid = Grid(figure, planned, made)
    # What the runs cost when they were made, whether that was now or before.
    seconds = sum(result.provenance["wall_s"] for result in made.values())
    claims = {claim.id: ledger.evaluate(claim, grid) for claim in figure.claims}
    about = {
        "seeds": figure.scales[scale].seeds,
        "runs": len(made),
        "seconds": round(seconds, 1),
        "commit": provenance.commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    with storage.whole_directory(out, marker=MARKER) as folder:
        _write_data(grid, folder)
        pictures = draw(grid, folder / figure.path.stem, _footnote(figure, scale, about))
        storage.write_json(folder / "claims.json", {"figure": figure.name, "scale": scale, **about, "claims": claims})
    ledger.record(figure, scale, claims, about)
    return Outcome(out, [out / picture.name for picture in pictures], claims, grid.warnings())


def _write_data(grid: Grid, folder: Path) -> None:
    import pyarrow as pa

    table = pa.Table.from_pylist(grid.rows(expressions(grid.figure)))
    columns.write(table, folder / MARKER)
    columns.write_csv(table, folder / "data.csv")
    # One file per recorded series, however many panels draw it.
    for panel in {panel.course: panel for panel in grid.figure.panels if panel.kind == "course"}.values():
        rows = grid.course_rows(panel.course, panel.x, panel.y[0].expression)
        columns.write_csv(pa.Table.from_pylist(rows), folder / f"{panel.course}.csv")


def _footnote(figure: Figure, scale: str, about: dict[str, Any]) -> str:
    seeds = about["seeds"]
    spread = f"mean of {seeds} seeds, bars: 95 % (Student t)" if seeds > 1 else "one seed, so no confidence interval"
    return f"{figure.name}, scale {scale}: {spread}"
