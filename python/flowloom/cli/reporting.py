"""The command report: a page of HTML about what was saved, without a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flowloom.cli import common


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(common.reported(report))


def report(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Directories of runs, comparisons, sweeps or figures of papers.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The page; by default it is beside the first DIR, as DIR.html.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the page of other results. Files that Flowloom did not write stay.")
    ] = False,
) -> None:
    """Write a page of HTML about saved results, a section for each, to read and to pass on.

    It has the finding, plots with hover and zoom, tables that a click sorts, warnings, and the command that repeats the result.
    The page is one file that needs no network.
    """
    from flowloom.reports.pages import report as write

    typer.echo(f"page: {write(directories, out, force=force)}")
