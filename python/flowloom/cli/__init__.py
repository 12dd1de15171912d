"""The command line. Commands import their modules when they run, so that `--help` is fast."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from flowloom import signals
from flowloom.cli import (
    common,
    comparing,
    deploying,
    inspect,
    paper,
    pias,
    plotting,
    reporting,
    running,
    terminal,
    testbed,
    thresholds,
)
from flowloom.words import shown


class _Commands(TyperGroup):
    """The commands. Usage errors show long arguments shortened."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _short_errors():
            _check_names(args)
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _short_errors():
            return super().invoke(ctx)


def _check_names(args: list[str]) -> None:
    """Refuse directories without a name, such as that of a shell's variable that is not set: Python takes it for `.`."""
    words = args[: args.index("--")] if "--" in args else args
    for option, value in itertools.pairwise([*words, " "]):
        for name in ("--out", "--runs"):
            if (option == name and not value) or option == f"{name}=":
                raise typer.BadParameter(f"{name}: the name is empty; give a directory")


@contextlib.contextmanager
def _short_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Usage errors are recognised by this method, since typer contains its own copy of click's classes.
        problem: Any = error
        # A group without a command has its help as message.
        if hasattr(problem, "format_message") and type(problem).__name__ != "NoArgsIsHelpError":
            problem.message = shown(problem.message, 400)
        raise


app = typer.Typer(
    cls=_Commands,
    name="flowloom",
    help="Simulate and compare data-center transports on the same network and workloads, and reproduce papers' figures.",
    no_args_is_help=True,
    # Without rich's markup, help does not import rich, and takes a tenth of a second.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # Subcommands inherit these names.
    context_settings={"help_option_names": ["-h", "--help"]},
)
running.register(app)
comparing.register(app)
plotting.register(app)
reporting.register(app)
app.add_typer(paper.app, name="paper")
paper.register(app)
inspect.register(app)
thresholds.register(app)
pias.register(app)
deploying.register(app)
testbed.register(app)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version

    try:
        from flowloom._native import DEBUG_ASSERTIONS

        build = "built with assertions" if DEBUG_ASSERTIONS else "optimised build"
    except ImportError:
        build = "the simulator is not built"
    typer.echo(f"flowloom {version('flowloom')} ({build})")
    raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    try:
        terminal.guard()
        signals.raise_ended()
        app(prog_name="flowloom")  # the name for `python -m flowloom` too
    except OSError as error:  # help and errors of usage are printed outside of all commands
        sys.exit(common.ended(common.about(error), common.FAILED).exit_code)
    except KeyboardInterrupt:  # Ctrl-C came before there was a handler of ours
        signals.command_ended = True
        sys.exit(128 + signal.SIGINT)
    except signals.Ended as stop:  # the signal came before a command began, or after it ended
        signals.command_ended = True
        sys.exit(128 + stop.number)
    finally:
        signals.command_ended = True
