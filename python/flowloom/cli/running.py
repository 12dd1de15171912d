"""Commands that simulate: run and sweep; `comparing` has compare."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowloom.cli import common
from flowloom.cli.common import ClusterAddress, Force, Jobs, Json, Metrics, Plot, ScenarioFile, Seed, Seeds, Set
from flowloom.limits import THREADS_MAX

if TYPE_CHECKING:
    from flowloom.scenario import Scenario


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(common.reported(run))
    app.command()(common.reported(sweep))


def scenario_of(path: str, pairs: list[str] | None, seed: int | None, later: Iterable[tuple[str, str]] = ()) -> Scenario:
    """Read a scenario, with the overrides of the command line; see `common.overrides`."""
    import dataclasses

    from flowloom.scenario import Scenario

    return dataclasses.replace(Scenario.of(Path(path)), overrides=common.overrides(pairs, seed, later))


def run(
    scenario: ScenarioFile,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save the flows, the summary, the scenario and its provenance here.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Also write flows.csv to --out.")] = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw the flows to --out, which is results/SCENARIO if it is not given.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Spread the run over N threads, not one per core; results stay the same.",
            min=1,
            max=THREADS_MAX,
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Simulate one scenario and print the results."""
    from flowloom import diagnosis, outputs, progress
    from flowloom._native import ScenarioError
    from flowloom.cli import tables
    from flowloom.engine import cores, execute

    if csv and not out:
        raise ScenarioError("--csv writes flows.csv to --out; give --out DIR as well")
    wanted = scenario_of(scenario, set_, seed)
    if plot and not out:
        out = Path("results") / wanted.title
    with progress.reporter() as reporter:
        reporter.begin(1, kept=0)

        def tell(done: float, sim_s: float, packet_hops: int) -> None:
            reporter.progress("run", wanted.title, done, sim_s, packet_hops)

        plan = wanted.plan(tell)
        for finding in diagnosis.foreseen(plan.resolved, plan.misfits):
            reporter.warn(f"{finding.flag}: {finding.text}")
        with outputs.claim(out, outputs.RESULT, plan.key, force=force) if out else contextlib.nullcontext() as output:
            results = execute(plan, tell, threads or cores())
            reporter.finished("run", wanted.title)
            if output:
                results.write(output, csv=csv)
    drawn: list[Path] = []
    if plot and out:
        from flowloom.plots import pictures

        drawn = common.drawn(out, outputs.RESULT, pictures.of_run(results))
    if json:
        common.print_json(results.as_json())
    else:
        tables.print_run(results)
        for picture in drawn:
            typer.echo(f"picture: {picture}")
        kept = "the flows and the trace" if results.trace else "the flows"
        typer.echo(f"saved in {out}" if out else f"not saved; give --out DIR to keep {kept}")


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
    cluster: ClusterAddress = None,
    force: Force = False,
    flows: Annotated[bool, typer.Option(help="Keep each run's table of flows, or only its summary.")] = True,
    metrics: Metrics = None,
    plot: Plot = True,
    json: Json = False,
) -> None:
    """Run a scenario with every combination of values of some keys.

    The output is a table and a picture, which has a panel for each metric and, if a key has numbers, lines over them.

    After an interrupt, the same command continues with the runs that are missing.
    """
    from flowloom import outputs, progress
    from flowloom._native import ScenarioError
    from flowloom.cli import tables
    from flowloom.plots import pictures
    from flowloom.sweeps import sweep as run_sweep
    from flowloom.words import shown

    axes: dict[str, list[Any]] = {}
    for key, values in map(axis_of, vary):
        if key in axes:
            raise ScenarioError(f"--vary {shown(key)} is given twice; give all values in one option, such as --vary KEY=V1,V2")
        axes[key] = values
    base = scenario_of(scenario, set_, seed, [(f"--vary {key}", key) for key in axes])
    with common.resumable(out / "runs"):
        with common.executor(cluster, jobs) as executor, progress.reporter() as reporter:
            done, failed = common.swept(
                lambda: run_sweep(
                    base,
                    axes,
                    seeds=seeds,
                    executor=executor,
                    workers=jobs,
                    out=out,
                    flows=flows,
                    force=force,
                    reporter=reporter,
                    metrics=common.split_list(metrics or ""),
                )
            )
        if json:
            common.print_json(done.table().to_pylist())
            tables.print_warnings(done, err=True)
        elif done.runs:
            tables.print_sweep(done)
            tables.print_warnings(done)
            for picture in common.drawn(out, outputs.SWEEP, pictures.of_sweep(done)) if plot else []:
                typer.echo(f"picture: {picture}")
            typer.echo(f"table: {out / 'sweep.csv'}\nruns: {out / 'runs'}")
        common.end_incomplete(failed)


def axis_of(text: str, option: str = "--vary") -> tuple[str, list[Any]]:
    """Parse a key with its values: `workload.load=0.5,0.6`."""
    from flowloom._native import ScenarioError
    from flowloom.words import shown

    key, equals, values = text.partition("=")
    found = [common.parse_value(value) for value in common.split_list(values)]
    if not equals or not key.strip() or not found:
        raise ScenarioError(f"{option} {shown(text)}: give a key and its values, such as {option} workload.load=0.5,0.6,0.7")
    return key.strip(), found
