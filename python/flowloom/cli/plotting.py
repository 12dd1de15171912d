"""The command plot: draws what was saved again, without a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flowloom.cli import common
from flowloom.cli.common import Metrics

if TYPE_CHECKING:
    from flowloom.comparisons import Comparison
    from flowloom.outputs import Kind
    from flowloom.results import Results
    from flowloom.sweeps import Sweep


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(common.reported(plot))


def plot(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of a run, a comparison or a sweep.")],
    series: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Draw a series that the runs have recorded, such as pending. Several columns of samples make one picture: "
            "flows.goodput_gbps,flows.window_bytes,queues.packets.",
        ),
    ] = None,
    metrics: Metrics = None,
    with_: common.With = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Write the picture to a .png or .svg file, instead of to DIR.")
    ] = None,
) -> None:
    """Draw a saved run, comparison or sweep again, without a simulation.

    The pictures are those that run --plot, compare and sweep draw, and replace those in DIR.
    """
    from flowloom import overlays
    from flowloom._native import ScenarioError
    from flowloom.plots import pictures, style
    from flowloom.words import shown

    if to and to.suffix not in style.PICTURES:
        raise ScenarioError(f"--to {shown(to)}: give a {' or a '.join(style.PICTURES)} file")
    kind, what = _loaded(directory)
    what = _changed(what, common.split_list(metrics or ""), common.by_label("--with", map(overlays.split, with_ or [])))
    drawings = list(pictures.of_series(what, series) if series else pictures.of(what))
    if to is None:
        for picture in common.drawn(directory, kind, drawings):
            typer.echo(f"picture: {picture}")
        return
    if len(drawings) > 1:
        names = ", ".join(name for name, _ in drawings)
        raise ScenarioError(f"--to is for one picture, but there are {len(drawings)} ({names}); leave it out")
    ((_, drawing),) = drawings
    (drawn,) = style.save(drawing, to.with_suffix(""), [to.suffix])
    typer.echo(f"picture: {drawn}")


def _loaded(directory: Path) -> tuple[Kind, Results | Comparison | Sweep]:
    """Return the kind of a directory, and what it holds."""
    from flowloom import comparisons, outputs, results, sweeps
    from flowloom._native import ScenarioError

    for kind, command in ((outputs.FIGURE, "flowloom paper run PAPER/FIGURE"), (outputs.THRESHOLDS, "flowloom thresholds")):
        if (directory / kind.marker).exists():
            raise ScenarioError(f"{directory} holds {kind.about}, which the command that made it draws again: {command}")
    if not (directory / outputs.SWEEP.marker).exists():
        return outputs.RESULT, results.load(directory)
    load = comparisons.load_comparison if comparisons.is_saved(directory) else sweeps.load_sweep
    return outputs.SWEEP, load(directory)


def _changed(what: Results | Comparison | Sweep, metrics: list[str], beside: dict[str, Path]) -> Results | Comparison | Sweep:
    """Return what is drawn with other metrics, and with other tools' results beside it."""
    from flowloom._native import ScenarioError
    from flowloom.comparisons import Comparison
    from flowloom.sweeps import Sweep

    if metrics:
        if not (isinstance(what, Sweep) or (isinstance(what, Comparison) and what.over)):
            raise ScenarioError("--metrics selects what is drawn over the values of a key, but there is none; leave it out")
        what = what.with_metrics(metrics)
    if beside and not isinstance(what, Comparison):
        raise ScenarioError("--with lays another tool's results beside a comparison, but this is none; leave it out")
    return what.beside_files(beside) if isinstance(what, Comparison) else what
