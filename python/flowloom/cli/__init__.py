"""The command line. Commands import what they need when they run, so that `--help` is there at once."""

from __future__ import annotations

import sys

import typer

from flowloom import signals
from flowloom.cli import inspect, paper, running, thresholds

app = typer.Typer(
    name="flowloom",
    help="Data-center transports on the same fabric, workloads and metrics: run, compare, sweep, and get papers' figures back.",
    no_args_is_help=True,
    add_completion=False,
    # Without rich's markup, help needs no import of rich: it is there in a tenth of a second.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
running.register(app)
app.add_typer(paper.app, name="paper")
paper.register(app)
inspect.register(app)
thresholds.register(app)


@app.callback(invoke_without_command=True)
def _top(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"flowloom {installed('flowloom')}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    signals.raise_ended()
    try:
        app()
    except signals.Ended as stop:  # before a command began, or after it ended
        sys.exit(128 + stop.number)
