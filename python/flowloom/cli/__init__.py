"""The command line. Commands import what they need when they run, so that `--help` is there at once."""

from __future__ import annotations

from typing import Annotated

import typer

from flowloom import signals
from flowloom.cli import inspect, paper, running, thresholds

app = typer.Typer(
    name="flowloom",
    help="Data-center transports on the same fabric, workloads and metrics: run, compare, sweep, and get papers' figures back.",
    no_args_is_help=True,
    # Without rich's markup, help needs no import of rich: it is there in a tenth of a second.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # Every command takes its parent's names for help.
    context_settings={"help_option_names": ["-h", "--help"]},
)
running.register(app)
app.add_typer(paper.app, name="paper")
paper.register(app)
inspect.register(app)
thresholds.register(app)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version

    try:
        from flowloom._native import DEBUG_ASSERTIONS

        build = "built with assertions" if DEBUG_ASSERTIONS else "optimised build"
    except ImportError:
        build = "the simulator is not built here"
    typer.echo(f"flowloom {version('flowloom')} ({build})")
    raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    signals.end_as_interrupt()
    app(prog_name="flowloom")  # also as `python -m flowloom`
