"""Commands for papers: their figures, and the ledger of their claims."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowloom.cli import common
from flowloom.cli.common import Jobs, Json

if TYPE_CHECKING:
    from flowloom.figures.schema import Figure

app = typer.Typer(help="Get papers' figures back.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="PAPER/FIGURE", help="For example phost/fig3; `paper list` has them all.")]


def register(top: typer.Typer) -> None:
    """Add the commands; those on figures go below `flowloom paper`."""
    app.command("list")(common.reported(list_figures))
    app.command("show")(common.reported(show))
    app.command("run")(common.reported(run))
    top.command("claims")(common.reported(claims))


def list_figures(paper: Annotated[str | None, typer.Argument(help="Only this paper's.")] = None) -> None:
    """List the figures there are, with the claims that each answers."""
    from flowloom.figures import catalogue, reader

    rows = []
    for path in catalogue.figures(paper):
        figure = reader.read(path)
        rows.append([figure.name, figure.title, " ".join(c.id.partition("/")[2] for c in figure.claims)])
    common.print_table(["figure", "title", "claims"], rows)


def show(name: Name) -> None:
    """Say what a figure runs, draws and claims."""
    from flowloom.figures import catalogue, reader

    print_figure(reader.read(catalogue.figure_path(name)))


def print_figure(figure: Figure) -> None:
    """Print a figure's definition."""
    from flowloom.figures.grid import points

    typer.echo(f"{figure.name}: {figure.title}\n")
    if figure.about:
        typer.echo(f"{figure.about}\n")
    for axis in figure.axes:
        typer.echo(f"  {axis.name} ({axis.key or 'as the rules say'}): {', '.join(axis.labels)}")
    for tune in figure.tunes:
        typer.echo(f"  tuned for least {tune.minimise}: {', '.join(tune.keys)}")
    for name, scale in figure.scales.items():
        typer.echo(f"  scale {name}: {len(points(figure.axes))} points, {scale.seeds} seed(s)")
    for claim in figure.claims:
        typer.echo(f"\n  {claim.id}: {claim.says}")
        for check in claim.checks:
            words = ", ".join(f"{k} {v}" for k, v in check.parameters.items())
            typer.echo(f"    {check.kind}: {words}")
    if figure.notes:
        typer.echo(f"\n{figure.notes}")


def run(
    name: Name,
    scale: Annotated[str, typer.Option(help="quick: minutes; full: as the paper, hours.")] = "quick",
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where data and pictures go; results/PAPER/FIGURE by default.")
    ] = None,
    runs: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where finished runs are kept, to be shared by figures and later starts."),
    ] = Path("results/runs"),
) -> None:
    """Run a figure: its grid on all cores, its data and drawing, its claims into the ledger.

    Interrupted, it goes on where it stopped when started again.
    """
    from flowloom import progress
    from flowloom.claims.ledger import DIFFERS
    from flowloom.figures import catalogue, reader
    from flowloom.figures.paper import run_figure

    figure = reader.read(catalogue.figure_path(name))
    out = out or Path("results") / figure.name
    with common.resumable(runs), progress.reporter() as reporter:
        outcome = run_figure(figure, scale, out=out, runs=runs, workers=jobs, reporter=reporter)
    for claim in figure.claims:
        found = outcome.claims[claim.id]
        typer.echo(f"\n{claim.id} {found['verdict']}: {claim.says}")
        for check in found["checks"]:
            mark = "holds  " if check["holds"] else DIFFERS
            typer.echo(f"  {mark} {check['measured']}   [{check['band']}]")
    if outcome.warnings:
        typer.echo("")
    for line in outcome.warnings:
        typer.echo(f"warning: {line}")
    typer.echo(f"\npicture: {outcome.pictures[0]}\ndata: {out / 'data.csv'}")


def claims(
    paper: Annotated[str | None, typer.Argument(help="Only this paper's claims.")] = None,
    scale: Annotated[str | None, typer.Option(help="Only what was found at this scale; the largest by default.")] = None,
    json: Json = False,
) -> None:
    """Print the ledger: each claim of the papers, and whether it holds here."""
    from flowloom.claims import ledger
    from flowloom.figures import catalogue, reader

    entries = ledger.entries([reader.read(path) for path in catalogue.figures(paper)], scale)
    if json:
        keys = ("id", "verdict", "paper", "measured", "band", "scale", "seconds", "cause")
        common.print_json([{k: e[k] for k in keys if k in e} for e in entries])
        return
    for entry in entries:
        _print_entry(entry)
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry["verdict"]] = counts.get(entry["verdict"], 0) + 1
    typer.echo(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))


def _print_entry(entry: dict[str, Any]) -> None:
    scale = f" ({entry['scale']})" if entry["scale"] else ""
    typer.echo(f"{entry['id']}  {entry['verdict']}{scale}  [{', '.join(entry['figures'])}]\n  paper: {entry['paper']}")
    for check in entry["checks"]:
        typer.echo(f"  {'holds' if check['holds'] else 'differs'}: {check['measured']}   [{check['band']}]")
    width = min(shutil.get_terminal_size().columns, 120)
    wrapped = textwrap.TextWrapper(
        width, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    for name, text in entry.get("cause", {}).items():
        typer.echo(wrapped.fill(f"{name}: {' '.join(text.split())}"))
    typer.echo("")
