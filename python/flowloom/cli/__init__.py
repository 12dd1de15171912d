"""The command line. Commands import what they need when they run, so that `--help` is there at once."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from flowloom import signals
from flowloom.cli import inspect, paper, running, thresholds
from flowloom.words import shown


class _Commands(TyperGroup):
    """The commands; what is wrong with the words of a command line is told without repeating all of a long one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _short_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _short_errors():
            return super().invoke(ctx)


@contextlib.contextmanager
def _short_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Usage errors are known by what they have: typer brings a parser, with its classes, of its own.
        problem: Any = error
        if hasattr(problem, "format_message"):
            problem.message = shown(problem.message, 400)
        raise


app = typer.Typer(
    cls=_Commands,
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
    signals.raise_ended()
    try:
        app(prog_name="flowloom")  # also as `python -m flowloom`
    except signals.Ended as stop:  # before a command began, or after it ended
        sys.exit(128 + stop.number)
