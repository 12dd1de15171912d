"""Commands for the figures of papers and the ledger of their claims."""

from __future__ import annotations

import shutil
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowloom import toml
from flowloom.cli import common
from flowloom.cli.common import ClusterAddress, Force, Jobs, Json, Set

if TYPE_CHECKING:
    from flowloom.claims.entries import Entry, OfCheck, Part
    from flowloom.clusters import Cluster
    from flowloom.figures.paper import Outcome
    from flowloom.figures.schema import Figure

app = typer.Typer(help="List, show and reproduce the figures of papers.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="PAPER/FIGURE", help="A figure, such as phost/fig3; see `flowloom paper list`.")]


def register(top: typer.Typer) -> None:
    """Add the commands; those for figures are subcommands of `flowloom paper`."""
    app.command("list")(common.reported(list_figures))
    app.command("show")(common.reported(show))
    app.command("run")(common.reported(run))
    top.command("claims")(common.reported(claims))


def _figures(paper: str | None) -> tuple[list[Figure], list[str]]:
    """Read all figures of a paper, or of all papers, and their ledgers. Errors are printed on stderr and returned."""
    from flowloom.claims import ledger
    from flowloom.figures import catalogue, reader

    paths = catalogue.figures(paper)
    if hidden := [name for name in catalogue.hidden() if paper in (None, name.partition("/")[0])]:
        typer.echo(f"note: your figures replace those of the package with the same names: {', '.join(hidden)}", err=True)
    figures, errors = reader.read_all(paths)
    figures, damaged = ledger.read_all(figures)
    for error in [*errors, *damaged]:
        typer.echo(f"error: {error} (other figures are not affected)", err=True)
    return figures, [*errors, *damaged]


def _fail(errors: list[str]) -> None:
    """Exit with status 1 if there was an error."""
    if errors:
        raise typer.Exit(common.FAILED)


def list_figures(
    paper: Annotated[str | None, typer.Argument(metavar="PAPER", help="List only this paper's figures.")] = None,
) -> None:
    """List the figures with their claims and estimated times."""
    from flowloom.engine import cores
    from flowloom.figures import cost

    def takes(figure: Figure, scale: str) -> str:
        seconds = cost.core_seconds(figure, scale)
        return "unknown" if seconds is None else _span(seconds / cores())

    figures, errors = _figures(paper)
    rows = []
    for figure in figures:
        asked = " ".join(c.id.partition("/")[2] for c in figure.claims)
        rows.append([figure.name, figure.title, asked, takes(figure, "quick"), takes(figure, "full")])
    common.print_table(["figure", "title", "claims", "quick", "full"], rows, right=[3, 4])
    typer.echo(f"Times are estimates for {cores()} core(s) from the runs in the ledger. Runs that figures share are made once.")
    _fail(errors)


def _span(seconds: float) -> str:
    """Format a duration with two digits in hours, minutes or seconds."""
    for unit, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.2g} {name}" if seconds / unit < 10 else f"{seconds / unit:.0f} {name}"
    return f"{max(seconds, 1):.0f} s"


def show(name: Name) -> None:
    """Print what a figure runs and claims."""
    from flowloom.figures import catalogue, reader

    print_figure(reader.read(catalogue.figure_path(name)))


def print_figure(figure: Figure) -> None:
    """Print a figure's definition."""
    from flowloom.figures.grid import points

    typer.echo(f"{figure.name}: {figure.title}\n")
    if figure.about:
        typer.echo(f"{figure.about}\n")
    for axis in figure.axes:
        typer.echo(f"  {axis.name} ({axis.key or 'set by rules'}): {', '.join(axis.labels)}")
        if axis.reading:
            typer.echo(f"    claims are judged by the first: {axis.reading}")
    for tune in figure.tunes:
        where = f" for {toml.value(tune.when)}" if tune.when else ""
        once = f" once at {toml.value(tune.at)}" if tune.at else ""
        typer.echo(f"  tuned{where}{once} to minimise {tune.minimise}: {', '.join(tune.keys)}")
    for name, scale in figure.scales.items():
        more = f" (up to {scale.seeds_max} while a claim is undecided)" if scale.seeds_max > scale.seeds else ""
        typer.echo(f"  scale {name}: {len(points(figure.axes))} points, {scale.seeds} seed(s){more}")
    for claim in figure.claims:
        typer.echo(f"\n  {claim.id}: {claim.says}")
        if claim.calibrated:
            typer.echo(f"    calibrated: {claim.calibrated}")
        for check in claim.checks:
            words = ", ".join(f"{k} {v}" for k, v in check.parameters.items())
            without = {"cannot fail, because": check.given, "does not count:": check.beside}
            notes = "".join(f" ({why} {text})" for why, text in without.items() if text)
            typer.echo(f"    {check.kind}: {words}{notes}")
    if figure.notes:
        typer.echo(f"\n{figure.notes}")


def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAPER/FIGURE|PAPER",
            help="Figures such as phost/fig3, or papers such as phost for all of their figures.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all figures of all papers.")] = False,
    scale: Annotated[
        str, typer.Option(metavar="SCALE", help="quick takes minutes per figure; full has the paper's size and takes hours.")
    ] = "quick",
    again: Annotated[
        bool, typer.Option("--again", help="With --all or a paper, also run figures whose ledger entries are up to date.")
    ] = False,
    sets: Set = None,
    jobs: Jobs = None,
    cluster: ClusterAddress = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory for data and pictures; by default results/PAPER/FIGURE, or ...FIGURE-full."
        ),
    ] = None,
    runs: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Directory for finished runs, which figures and later commands share."),
    ] = Path("results/runs"),
    ledger: Annotated[
        bool,
        typer.Option("--ledger", help="Write the verdicts to the ledger beside the figure, too, also with --out."),
    ] = False,
    force: Force = False,
) -> None:
    """Reproduce figures of papers: simulate, draw, and check claims.

    The runs of a figure use all cores. Its data, its picture and the verdicts on its claims (claims.json) go to --out. Without
    --out, the verdicts also go to the ledger beside the figure (see `flowloom claims`), unless the figure belongs to the
    installed package. After an interrupt, the same command continues. With --all or a paper, figures whose ledger entries
    are up to date are left out, and a figure that fails does not stop the others. With --set, the ledger is not written.
    """
    from flowloom._native import ScenarioError
    from flowloom.engine import cores
    from flowloom.figures import catalogue, reader

    given = (pair.partition("=") for pair in common.overrides(sets, None))
    changes = {key.strip(): common.parse_value(value) for key, _, value in given}
    if changes and ledger:
        raise ScenarioError("--ledger and --set: verdicts on changed scenarios cannot go to the ledger; leave out one of them")
    known = catalogue.papers()
    papers = [name for name in names or [] if name in known]
    if bool(names) == every:
        raise ScenarioError("give figures (phost/fig3), papers (phost), or --all alone; `flowloom paper list` prints them")
    asked = [reader.read(catalogue.figure_path(name)) for name in names or [] if name not in papers]
    swept, errors = [], []
    for paper in known if every else papers:
        figures, wrong = _figures(paper)
        swept += figures
        errors += wrong
    reader.check_scale([*asked, *swept], scale)
    if out and len(asked) + len(swept) > 1:
        raise ScenarioError("--out is for one figure; leave it out to write several to results/PAPER/FIGURE")
    if swept and not again and not changes:
        swept = _without_fresh(swept, scale)
    todo = list({figure.name: figure for figure in [*asked, *swept]}.values())

    def one(figure: Figure) -> None:
        into_ledger = ledger or (out is None and not changes and catalogue.keeps_ledger(figure.path))
        _run_one(figure, scale, changes, executor, jobs, out, runs, force, into_ledger)

    with common.resumable(runs), common.executor(cluster, jobs) as executor:
        if len(todo) == 1 and asked:
            one(todo[0])
            return
        failed = _run_each(todo, scale, jobs or (executor.threads if executor else cores()), one)
    if failed or errors:
        typer.echo(f"{len(failed) + len(errors)} figure(s) failed: {', '.join(failed) or 'see above'}", err=True)
        raise typer.Exit(common.FAILED)


def _without_fresh(figures: list[Figure], scale: str) -> list[Figure]:
    from flowloom.claims import ledger

    fresh = ledger.fresh(figures, scale, _today)
    if fresh:
        typer.echo(
            f"{len(fresh)} of {len(figures)} figures are up to date at scale {scale} and left out (--again runs them)", err=True
        )
    return [figure for figure in figures if figure.name not in fresh]


def _run_each(figures: list[Figure], scale: str, workers: int, one: Callable[[Figure], None]) -> list[str]:
    """Run figures one after the other and print the remaining time; return the names of figures that failed."""
    from flowloom._native import RunError, ScenarioError
    from flowloom.figures.cost import Remaining

    remaining, failed = Remaining([f for f in figures if scale in f.scales], scale), []
    if remaining.unknown:
        typer.echo(f"the time of these figures is unknown: {', '.join(remaining.unknown)}", err=True)
    for count, figure in enumerate(figures):
        left = _span(remaining.core_seconds / workers)
        typer.echo(f"\n{figure.name}: {count} of {len(figures)} figures done, about {left} left on {workers} core(s)", err=True)
        try:
            one(figure)
        except (RunError, ScenarioError) as error:
            typer.echo(f"error: {figure.name}: {error}", err=True)
            failed.append(figure.name)
        remaining.done(figure)
    return failed


def _run_one(
    figure: Figure,
    scale: str,
    changes: dict[str, Any],
    executor: Cluster | None,
    jobs: int | None,
    out: Path | None,
    runs: Path,
    force: bool,
    into_ledger: bool,
) -> None:
    from flowloom import progress
    from flowloom.figures.paper import default_directory, run_figure

    where = out or default_directory(figure, scale, changes)
    with progress.reporter() as reporter:
        outcome = run_figure(
            figure,
            scale,
            out=where,
            runs=runs,
            changes=changes,
            executor=executor,
            workers=jobs,
            force=force,
            into_ledger=into_ledger,
            reporter=reporter,
        )
    _print_outcome(figure, outcome)
    if outcome.ledger:
        typer.echo(f"ledger: {outcome.ledger}")
    elif figure.claims:
        why = "of --set" if changes else "of --out" if out else "this figure belongs to the installed package"
        typer.echo(f"ledger: unchanged, because {why}" + ("" if changes else "; --ledger writes it"))


def _print_outcome(figure: Figure, outcome: Outcome) -> None:
    for claim in figure.claims:
        found = outcome.claims[claim.id]
        typer.echo(f"\n{claim.id} {found.verdict}, {_seeds(outcome.seeds)}: {claim.says}")
        for check in found.checks:
            _print_check(check)
    if outcome.warnings:
        typer.echo("")
    for line in outcome.warnings:
        typer.echo(f"warning: {line}")
    typer.echo("")
    for picture in outcome.pictures[:1]:
        typer.echo(f"picture: {picture}")
    typer.echo(f"data: {outcome.directory / 'data.csv'}")
    typer.echo(f"verdicts: {outcome.directory / 'claims.json'}")


def _print_check(check: OfCheck) -> None:
    if check.given:
        typer.echo(f"  cannot fail, because {check.given}: {check.text}   [{check.band}]")
    elif check.beside:
        typer.echo(f"  does not count ({check.verdict}): {check.text}   [{check.band}]  {check.beside}")
    else:
        typer.echo(f"  {check.verdict}: {check.text}   [{check.band}]")
    for reading, found in check.readings.items():
        typer.echo(f"    {reading}: {found.verdict}, {found.measured}")


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def _today(wanted: Any) -> Any:
    """Compute today's digests, with progress if that takes more than two seconds."""
    from flowloom.claims import digests

    begun = told = time.monotonic()

    def progress(done: int, every: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= 2 or (done == every and told > begun):
            told = now
            typer.echo(f"comparing this build of the simulator with the ledger: {done} of {every} short runs", err=True)

    return digests.today(wanted, progress)


def claims(
    paper: Annotated[str | None, typer.Argument(metavar="PAPER", help="Print only this paper's claims.")] = None,
    scale: Annotated[
        str | None, typer.Option(metavar="SCALE", help="Use entries of this scale; by default the largest that was run.")
    ] = None,
    json: Json = False,
    report: Annotated[
        bool, typer.Option("--report", help="Write a page of HTML, with the measured values against their bands.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="With --report: the page; by default results/claims.html.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --report: replace a page about something else.")] = False,
) -> None:
    """Print each claim of the papers with its verdict.

    The verdict on Flowloom's runs is holds, differs, undecided (the confidence interval crosses a limit, or only some seeds
    have a value), calibrated (the claim holds, but depends on a value inferred from the paper's numbers), or not yet run. An
    entry is stale if the scenarios, the checks or the simulator's behaviour have changed since it was run.
    """
    from flowloom._native import ScenarioError
    from flowloom.claims import ledger
    from flowloom.claims.listing import Ledger
    from flowloom.figures import reader

    if out and not report:
        raise ScenarioError("--out is the page of --report; give --report as well, or leave --out out")
    figures, errors = _figures(paper)
    if scale is not None:
        reader.check_scale(figures, scale)
    entries = Ledger(ledger.entries(figures, scale, _today))
    if report:
        from flowloom.reports.pages import report as write

        typer.echo(f"{entries}\npage: {write(entries, out, force=force)}")
        return _fail(errors)
    if json:
        common.print_json([entry.content() for entry in entries])
        return _fail(errors)
    for entry in entries:
        _print_entry(entry)
    typer.echo(str(entries))
    return _fail(errors)


def _print_entry(entry: Entry) -> None:
    verdict = entry.verdict + (", stale" if entry.stale else "")
    typer.echo(f"{entry.id}  {verdict}  [{', '.join(entry.figures)}]\n  paper: {entry.paper}")
    for check in entry.checks:
        _print_check(check)
    width = min(shutil.get_terminal_size().columns, 120)
    wrapped = textwrap.TextWrapper(
        width, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    for text in dict.fromkeys(_run_of(part) for part in entry.parts):
        typer.echo(wrapped.fill(text))
    notes = {"calibrated": entry.calibrated}
    if entry.cause:
        notes |= {"cause": entry.cause.cause, "experiment": entry.cause.experiment}
    for name, text in notes.items():
        if text:
            typer.echo(wrapped.fill(f"{name}: {' '.join(text.split())}"))
    if entry.cause and entry.cause.command:
        typer.echo(f"  to repeat it:\n    {entry.cause.command}")  # on one line, to be copied
    typer.echo("")


def _run_of(part: Part) -> str:
    """Describe the runs of an entry."""
    stale = f"; stale: {part.stale_because}" if part.stale else ""
    return f"run: {part.scale}, {_seeds(part.seeds)}, commit {part.commit}, {part.date}{stale}"
