"""Commands that simulate: run, compare, sweep."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowloom.cli import common
from flowloom.cli.common import Force, Jobs, Json, ScenarioFile, Seed, Seeds, Set

if TYPE_CHECKING:
    from flowloom.results import Results
    from flowloom.scenario import Scenario
    from flowloom.sweeps import Sweep


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(common.reported(run))
    app.command()(common.reported(compare))
    app.command()(common.reported(sweep))


def _scenario(path: str, pairs: list[str] | None, seed: int | None) -> Scenario:
    import dataclasses

    from flowloom.scenario import Scenario

    return dataclasses.replace(Scenario.of(Path(path)), overrides=common.overrides(pairs, seed))


def run(
    scenario: ScenarioFile,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save the flows, the summary, the scenario and its provenance here.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Also write flows.csv to --out.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Simulate one scenario and print the results."""
    from flowloom import diagnosis, outputs, progress
    from flowloom._native import ScenarioError
    from flowloom.cli import tables
    from flowloom.engine import simulate

    if csv and not out:
        raise ScenarioError("--csv writes flows.csv to --out; give --out DIR as well")
    wanted = _scenario(scenario, set_, seed)
    name = Path(scenario).stem
    with progress.reporter() as reporter:
        reporter.begin(1, kept=0)

        def tell(done: float, sim_s: float, packet_hops: int) -> None:
            reporter.progress("run", name, done, sim_s, packet_hops)

        resolved, misfits = wanted.examine(tell)
        for finding in diagnosis.foreseen(resolved, misfits):
            reporter.warn(f"{finding.flag}: {finding.text}")
        key = wanted.key_of(resolved)
        with outputs.claim(out, outputs.RESULT, key, force=force) if out else contextlib.nullcontext() as output:
            results = simulate(wanted, tell)
            reporter.finished("run", name)
            if output:
                results.write(output, csv=csv)
    if json:
        common.print_json(results.as_json())
    else:
        tables.print_run(results)
        typer.echo(f"saved in {out}" if out else "not saved; give --out DIR to keep the flows")


def compare(
    scenario: ScenarioFile,
    transports: Annotated[
        str, typer.Option(metavar="A,B,C", help="Names of the transports to run, or `all` that can run the scenario.")
    ],
    ideal: Annotated[
        bool, typer.Option("--ideal", help="Add `ideal`, a lower bound on the mean flow completion time of any transport.")
    ] = False,
    over: Annotated[
        str | None,
        typer.Option(metavar="KEY=V1,V2,...", help="Compare at each value of a scenario key, and rank the transports."),
    ] = None,
    seeds: Seeds = 1,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for runs, table and picture.")] = Path("results/compare"),
    jobs: Jobs = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run several transports on the same flows and compare them.

    The output is a table, a picture in --out and, with --over, a ranking over all values of the key.
    """
    from flowloom import progress
    from flowloom._native import ScenarioError
    from flowloom.cli import tables
    from flowloom.sweeps import sweep as run_sweep
    from flowloom.words import shown

    key, values = _axis(over, "--over") if over else ("", [])
    if key == "transport.name":
        raise ScenarioError(f"--over {shown(over)}: --transports selects the transports; vary another key")
    base = _scenario(scenario, set_, seed)
    names = _transports(transports, ideal, base)
    axes = ({key: values} if over else {}) | {"transport.name": names}
    with common.resumable(out / "runs"):
        with progress.reporter() as reporter:
            begin = time.monotonic()
            done, failed = common.swept(
                lambda: run_sweep(base, axes, seeds=seeds, workers=jobs, out=out, force=force, reporter=reporter)
            )
            took = time.monotonic() - begin
        if json:
            common.print_json([run.results.as_json() for run in done])
            tables.print_warnings(done, err=True)
        elif done.runs:
            pictures = _print_compared(done, key, Path(scenario).stem, out)
            tables.print_warnings(done)
            typer.echo(f"{len(done)} runs in {took:.0f} s\npicture: {', '.join(map(str, pictures))}")
            typer.echo(f"runs and their flows: {out / 'runs'}")
        common.end_incomplete(failed)


def _print_compared(done: Sweep, over: str, title: str, out: Path) -> list[Path]:
    """Print the table of a comparison, or that of a tournament over the values of a key, and draw its pictures."""
    from flowloom import toml
    from flowloom.cli import tables
    from flowloom.plots.comparison import draw, draw_tournament
    from flowloom.sweeps import added

    rounds: dict[str, dict[str, list[Results]]] = {}
    for point, results in done.points():
        round_ = toml.value(point[over]).strip('"') if over else ""
        rounds.setdefault(round_, {})[point["transport.name"]] = results
    pictures = []
    with added(out) as folder:
        for round_, results_of in rounds.items():
            stem = re.sub(r"[^\w.=+-]+", "-", f"compare-{round_}").strip("-")
            pictures.append(draw(results_of, folder / stem, title + (f", {round_}" if over else ""))[0])
            if not over:
                tables.print_comparison(results_of)
        if over:
            tables.print_tournament(rounds)
            pictures.append(draw_tournament(rounds, tables.ranking(rounds), folder / "tournament", title)[0])
    return [out / picture.name for picture in pictures]


def sweep(
    scenario: ScenarioFile,
    vary: Annotated[
        list[str],
        typer.Option(metavar="KEY=V1,V2,...", help="A scenario key and its values; repeat the option to vary several keys."),
    ],
    seeds: Seeds = 1,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the runs and the table.")] = Path("results/sweep"),
    jobs: Jobs = None,
    force: Force = False,
    flows: Annotated[bool, typer.Option(help="Keep each run's table of flows, or only its summary.")] = True,
    json: Json = False,
) -> None:
    """Run a scenario with every combination of values of some keys.

    After an interrupt, the same command continues with the runs that are missing.
    """
    from flowloom import progress
    from flowloom._native import ScenarioError
    from flowloom.cli import tables
    from flowloom.sweeps import sweep as run_sweep
    from flowloom.words import shown

    axes: dict[str, list[Any]] = {}
    for key, values in map(_axis, vary):
        if key in axes:
            raise ScenarioError(f"--vary {shown(key)} is given twice; give all values in one option, such as --vary KEY=V1,V2")
        axes[key] = values
    base = _scenario(scenario, set_, seed)
    with common.resumable(out / "runs"):
        with progress.reporter() as reporter:
            done, failed = common.swept(
                lambda: run_sweep(base, axes, seeds=seeds, workers=jobs, out=out, flows=flows, force=force, reporter=reporter)
            )
        if json:
            common.print_json(done.table().to_pylist())
            tables.print_warnings(done, err=True)
        elif done.runs:
            tables.print_sweep(done)
            tables.print_warnings(done)
            typer.echo(f"table: {out / 'sweep.csv'}\nruns: {out / 'runs'}")
        common.end_incomplete(failed)


def _transports(text: str, ideal: bool, scenario: Scenario) -> list[str]:
    """Parse --transports; `all` stands for every transport that can run the scenario, without the bound `ideal`."""
    from flowloom._native import ScenarioError
    from flowloom.transports import BOUND, transport, transports
    from flowloom.words import shown, suggestion

    known = ["all", *transports()]
    chosen = common.split_list(text)
    if not chosen:
        raise ScenarioError("--transports is empty; give names, such as --transports phost,pfabric, or `all`")
    for name in chosen:
        if name not in known:
            raise ScenarioError(f'--transports {shown(text)}: unknown transport "{shown(name)}"; {suggestion(name, known)}')
    every = [name for name in known if name != "all" and not transport(name).bound]
    if "all" in chosen:
        every = _able(every, scenario)
    names = [each for name in chosen for each in (every if name == "all" else [name])]
    return list(dict.fromkeys(names + ([BOUND] if ideal else [])))


def _able(names: list[str], scenario: Scenario) -> list[str]:
    """Return the transports that can run the scenario, and print why the others cannot.

    Raises:
        ScenarioError: No transport can, so the scenario itself is wrong.
    """
    from flowloom._native import ScenarioError

    able, refused = [], {}
    for name in names:
        try:
            scenario.set({"transport.name": name}).resolve()
            able.append(name)
        except ScenarioError as error:
            refused[name] = error
    if not able:
        raise next(iter(refused.values()))
    for name, why in refused.items():
        typer.echo(f"left out: {name}: {str(why).splitlines()[0]}", err=True)
    return able


def _axis(text: str, option: str = "--vary") -> tuple[str, list[Any]]:
    from flowloom._native import ScenarioError
    from flowloom.words import shown

    key, equals, values = text.partition("=")
    found = [common.parse_value(value) for value in common.split_list(values)]
    if not equals or not key.strip() or not found:
        raise ScenarioError(f"{option} {shown(text)}: give a key and its values, such as {option} workload.load=0.5,0.6,0.7")
    return key.strip(), found
