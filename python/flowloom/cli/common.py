"""What the commands share: exit codes, options, tables."""

from __future__ import annotations

import contextlib
import functools
import json
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from flowloom.signals import Ended

P = ParamSpec("P")
R = TypeVar("R")

FAILED, BAD_INPUT = 1, 2
MESSAGE_MOST = 2500
"""Characters of the longest message, with its lists of what would be right."""

ScenarioFile = Annotated[str, typer.Argument(metavar="SCENARIO.toml", help="The scenario file.", show_default=False)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a scenario key, e.g. workload.load=0.8; may be repeated."),
]
Seed = Annotated[int | None, typer.Option(help="Override run.seed.", min=0)]
Seeds = Annotated[int, typer.Option(metavar="N", help="Runs of each point, with seeds from run.seed on.", min=1)]
Jobs = Annotated[int | None, typer.Option(metavar="N", help="Worker processes; one per core by default.", min=1)]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace in --out what Flowloom wrote for something else; other files stay."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout and nothing else there.")]


def reported(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors that a user can cause into a paragraph on stderr and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            from flowloom._native import RunError, ScenarioError
        except ImportError as error:
            raise _end(
                f"error: the simulator is not built here ({error}); run `make demo` or `pip install .`", FAILED
            ) from None
        try:
            return command(*args, **kwargs)
        except ScenarioError as error:
            raise _end(f"error: {error}", BAD_INPUT) from None
        except RunError as error:
            raise _end(f"error: {error}", FAILED) from None
        except BrokenPipeError:
            raise  # whoever reads our output has seen enough
        except OSError as error:
            raise _end(_about(error), FAILED) from None
        except (KeyboardInterrupt, Ended) as stop:
            raise _interrupted(stop) from None

    return wrapped


@contextlib.contextmanager
def resumable(runs: Path) -> Iterator[None]:
    """Say, when many runs are interrupted, that those which are finished are kept."""
    try:
        yield
    except (KeyboardInterrupt, Ended) as stop:
        raise _interrupted(stop, f"; finished runs are kept in {runs}: the same command goes on from there") from None


def _interrupted(stop: KeyboardInterrupt | Ended, more: str = "") -> typer.Exit:
    """Give the exit code that shells give for a signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    number = stop.number if isinstance(stop, Ended) else signal.SIGINT
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    return _end(f"interrupted{by}{more}", 128 + number)


def _end(message: str, code: int) -> typer.Exit:
    from flowloom.words import elided

    typer.echo(elided(message, MESSAGE_MOST), err=True)
    return typer.Exit(code)


def _about(error: OSError) -> str:
    place = f" {error.filename}" if error.filename else ""
    return f"error: cannot read or write{place}: {error.strerror or error}. Nothing half-written was left behind."


def overrides(pairs: Sequence[str] | None, seed: int | None) -> tuple[str, ...]:
    """Check the form of --set; what the keys mean is for the simulator to say."""
    from flowloom._native import ScenarioError
    from flowloom.words import shown

    for pair in pairs or ():
        key, equals, _ = pair.partition("=")
        if not equals or not key.strip():
            raise ScenarioError(f"--set {shown(pair)}: give a key and a value, like --set workload.load=0.8")
    return (*(pairs or ()), *(() if seed is None else (f"run.seed={seed}",)))


def split_list(text: str) -> list[str]:
    """Split at commas that are not inside quotes, brackets or braces."""
    parts, depth, quote, begin = [], 0, "", 0
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [part.strip() for part in (*parts, text[begin:]) if part.strip()]


def parse_value(text: str) -> Any:
    """Read a value as TOML where it is some, else as the text it is: `0.8`, `true`, `web_search`, `10Gb/s`."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def print_json(value: Any) -> None:
    """Print one JSON value."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = (), title: str = "") -> None:
    """Print a table; columns in `right` are aligned to the right. Nothing is cut off, whatever stdout is."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]

    def text(line: Sequence[str]) -> str:
        cells = (c.rjust(w) if n in right else c.ljust(w) for n, (c, w) in enumerate(zip(line, widths, strict=True)))
        return "  ".join(cells).rstrip()

    if title:
        typer.echo(title)
    if any(head):
        typer.echo(text(head))
    typer.echo("-" * (sum(widths) + 2 * (len(widths) - 1)))
    for line in lines[1:]:
        typer.echo(text(line))
    typer.echo("")
