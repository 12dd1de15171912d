"""Shared by the commands: exit codes, options, errors, tables."""

from __future__ import annotations

import contextlib
import functools
import json
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from flowloom.cli import terminal
from flowloom.limits import SEED_MAX
from flowloom.signals import Ended
from flowloom.words import elided, listed, printable, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from flowloom.clusters import Cluster
    from flowloom.comparisons import Comparison
    from flowloom.outputs import Kind
    from flowloom.sweeps import IncompleteSweep, Sweep

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", "Sweep", "Comparison")

FAILED, BAD_INPUT = 1, 2
MESSAGE_MAX = 2500
"""The maximum number of characters of an error message."""

ScenarioFile = Annotated[str, typer.Argument(metavar="SCENARIO.toml", help="The scenario file.", show_default=False)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a scenario key, e.g. workload.load=0.8; may be repeated."),
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="Override run.seed, the seed of all random choices.", min=0, max=SEED_MAX)
]
Seeds = Annotated[
    int, typer.Option(metavar="N", help="Run N seeds (run.seed, run.seed + 1, ...) and print means with intervals.", min=1)
]
Jobs = Annotated[int | None, typer.Option(metavar="N", help="Number of worker processes; by default one per core.", min=1)]
ClusterAddress = Annotated[
    str | None,
    typer.Option("--cluster", metavar="tcp://HOST:PORT", help="Run on the workers of this Dask cluster; see docs/cluster.md."),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace an earlier, different result in --out. Files that Flowloom did not write stay."),
]
Metrics = Annotated[
    str | None,
    typer.Option(metavar="M1,M2,...", help="What to draw, a panel for each; by default slowdown.mean,slowdown.p99."),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="FILE:LABEL",
        help="Another tool's flows (bytes, and slowdown or fct_us) or points (x, y) beside ours; may be repeated.",
    ),
]
Plot = Annotated[bool, typer.Option("--plot/--no-plot", help="Draw the picture, or not.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON value on stdout.")]


def reported(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors that a user can cause into a message on stderr and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            from flowloom._native import RunError, ScenarioError
        except ImportError as error:
            raise ended(f"error: the simulator is not built ({error}); run `make build` or `pip install .`", FAILED) from None
        try:
            return command(*args, **kwargs)
        except ScenarioError as error:
            raise ended(f"error: {error}", BAD_INPUT) from None
        except RunError as error:
            raise ended(f"error: {error}", FAILED) from None
        except BrokenPipeError:
            raise  # the reader of stdout has closed it
        except OSError as error:
            raise ended(about(error), FAILED) from None
        except (KeyboardInterrupt, Ended) as stop:
            raise _interrupted(stop) from None

    return wrapped


@contextlib.contextmanager
def executor(address: str | None, jobs: int | None) -> Iterator[Cluster | None]:
    """Connect to the cluster at an address; without one, runs use local processes."""
    from flowloom._native import ScenarioError

    if address is None:
        yield None
        return
    if jobs is not None:
        raise ScenarioError("--jobs and --cluster: the cluster's workers say how many runs there are at a time; leave out one")
    from flowloom.clusters import Cluster

    with Cluster(address) as cluster:
        yield cluster


@contextlib.contextmanager
def resumable(runs: Path) -> Iterator[None]:
    """On an interrupt, print where finished runs are kept."""
    try:
        yield
    except (KeyboardInterrupt, Ended) as stop:
        raise _interrupted(stop, f"; finished runs are kept in {runs}; repeat the same command to continue") from None


def swept(make: Callable[[], M]) -> tuple[M, IncompleteSweep | None]:
    """Make a sweep or a comparison. Return what finished of it, and the error if some runs did not."""
    from flowloom.sweeps import IncompleteSweep

    try:
        return make(), None
    except IncompleteSweep as error:
        done: Any = error.sweep if error.comparison is None else error.comparison
        return done, error


def end_incomplete(failed: IncompleteSweep | None) -> None:
    """Name the runs that failed, with their reasons, and end the command, if there are any."""
    if failed is None:
        return
    head, *_ = str(failed).splitlines()
    typer.echo(f"error: {head}", err=True)
    for label, reason in failed.failures[:_FAILURES_MAX]:
        typer.echo(printable(f"{label}: {elided(reason, _REASON_MAX)}"), err=True)
    if left_out := failed.failures[_FAILURES_MAX:]:
        typer.echo(printable(f"failed too: {listed([label for label, _ in left_out], 100)}"), err=True)
    raise typer.Exit(FAILED)


_FAILURES_MAX, _REASON_MAX = 5, 500


def _interrupted(stop: KeyboardInterrupt | Ended, more: str = "") -> typer.Exit:
    """Return the exit code that shells use for a signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    number = stop.number if isinstance(stop, Ended) else signal.SIGINT
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    return ended(f"interrupted{by}{more}", 128 + number)


def ended(message: str, code: int) -> typer.Exit:
    """Print a message on stderr; return the exception that ends the command with this exit code."""
    typer.echo(printable(elided(message, MESSAGE_MAX)), err=True)
    return typer.Exit(code)


def about(error: OSError) -> str:
    """Return the message for an error of the system."""
    why = error.strerror or error
    if error.filename == terminal.STDOUT:
        return f"error: cannot write to {terminal.STDOUT}: {why}"
    place = f" {error.filename}" if error.filename else ""
    return f"error: cannot read or write{place}: {why}. No incomplete file was left behind."


def overrides(pairs: Sequence[str] | None, seed: int | None, later: Iterable[tuple[str, str]] = ()) -> tuple[str, ...]:
    """Return what --set and --seed override; the simulator checks keys and values. Those without effect are noted.

    Args:
        pairs: The values of --set, of which later ones take precedence.
        seed: The value of --seed, which takes precedence over them.
        later: Options that take precedence over both, each with the key that it sets.

    Raises:
        ScenarioError: A value of --set is not a key with a value.
    """
    from flowloom._native import ScenarioError
    from flowloom.scenario import within

    for pair in pairs or ():
        key, equals, _ = pair.partition("=")
        if not equals or not key.strip():
            raise ScenarioError(f"--set {shown(pair)}: give a key and a value, such as --set workload.load=0.8")
    given = [(f"--set {pair}", pair.partition("=")[0].strip()) for pair in pairs or ()]
    given += [] if seed is None else [(f"--seed {seed}", "run.seed")]
    last = list(later)
    for option, key in reversed(given):
        if (option, key) in last:
            continue
        if winner := next((other for other, set_ in last if within(key, set_)), None):
            typer.echo(f"note: {shown(option)} has no effect: {shown(winner)} replaces it", err=True)
        last.append((option, key))
    return (*(pairs or ()), *(() if seed is None else (f"run.seed={seed}",)))


def split_list(text: str) -> list[str]:
    """Split at commas that are not inside brackets, braces or quotes. As in TOML, quotes begin a value or a part of a key."""
    parts, depth, quote, begin, before, escaped = [], 0, "", 0, ",", False
    for at, character in enumerate(text):
        if quote:
            # Only strings in double quotes have escapes.
            ends = character == quote and not escaped
            escaped = quote == '"' and character == "\\" and not escaped
            quote = "" if ends else quote
        elif character in "\"'" and before in ",=[{.":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
        before = before if character.isspace() else character
    return [part.strip() for part in (*parts, text[begin:]) if part.strip()]


def by_label(option: str, given: Iterable[tuple[str, R]]) -> dict[str, R]:
    """Return by label what an option was given, and refuse a label that it was given twice."""
    from flowloom._native import ScenarioError

    found: dict[str, R] = {}
    for label, value in given:
        if label in found:
            raise ScenarioError(f'{option}: the label "{label}" is given twice; give each a label of its own')
        found[label] = value
    return found


def parse_value(text: str) -> Any:
    """Parse a value as TOML (`0.8`, `true`), or return it as a string if it is not TOML (`web_search`, `10Gb/s`)."""
    import tomllib

    from flowloom import toml

    try:
        found = tomllib.loads(f"value = {text}")
        toml.value(found["value"])  # a scenario has no dates
    except (tomllib.TOMLDecodeError, RecursionError, TypeError):
        return text
    return found["value"] if len(found) == 1 else text


def drawn(out: Path, kind: Kind, pictures: Iterable[tuple[str, Canvas]]) -> list[Path]:
    """Add pictures to a directory of results, each under its name; return the paths of the PNG files."""
    from flowloom import outputs
    from flowloom.plots import style

    with outputs.claim(out, kind, force=True) as output, output.add() as folder:
        return [out / style.save(drawing, folder / name)[0].name for name, drawing in pictures]


def print_json(value: Any) -> None:
    """Print one JSON value."""
    # What is not printable is inside texts, where JSON has escapes for it.
    text = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo(printable(text, escape=lambda character: json.dumps(character)[1:-1]))


def print_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    title: str = "",
    notes: Iterable[str] = (),
) -> None:
    """Print a table whose columns in `right` are aligned to the right, and notes below it. Cells are never cut off."""
    lines = [[printable(cell) for cell in line] for line in (head, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]

    def text(line: Sequence[str]) -> str:
        cells = (c.rjust(w) if n in right else c.ljust(w) for n, (c, w) in enumerate(zip(line, widths, strict=True)))
        return "  ".join(cells).rstrip()

    if title:
        typer.echo(printable(title))
    if any(head):
        typer.echo(text(head))
    typer.echo("-" * (sum(widths) + 2 * (len(widths) - 1)))
    for line in lines[1:]:
        typer.echo(text(line))
    for note in notes:
        typer.echo(printable(note))
    typer.echo("")
