"""Commands that simulate: run, compare, sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowloom.cli import common
from flowloom.cli.common import Jobs, Json, ScenarioFile, Seed, Set

if TYPE_CHECKING:
    from flowloom.scenario import Scenario


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
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Save flows, summary, scenario and provenance here.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write flows.csv beside flows.parquet.")] = False,
    json: Json = False,
) -> None:
    """Simulate one scenario and print what came out."""
    from flowloom import progress, storage
    from flowloom.cli import tables
    from flowloom.engine import simulate
    from flowloom.results import MARKER

    wanted = _scenario(scenario, set_, seed)
    wanted.resolve()
    if out:
        storage.check_replaceable(out, marker=MARKER)
    with progress.reporter() as reporter:
        reporter.begin(1, kept=0)
        name = Path(scenario).stem
        results = simulate(wanted, lambda done, sim_s, hops: reporter.progress("run", name, done, sim_s, hops))
        reporter.finished("run", name)
    if out:
        results.save(out, csv=csv)
    if json:
        common.print_json(results.summary)
    else:
        tables.print_run(results)
        typer.echo(f"saved in {out}" if out else "not saved: give --out DIR to keep the flows")


def compare(
    scenario: ScenarioFile,
    transports: Annotated[str, typer.Option(metavar="A,B,C", help="The transports to run, by name.")],
    ideal: Annotated[bool, typer.Option("--ideal", help="Add the bound that no transport can beat.")] = False,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where runs, table and picture go.")] = Path("results/compare"),
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Run several transports on the same flows; print a table and draw a picture."""
    from flowloom import progress
    from flowloom.cli import tables
    from flowloom.plots.comparison import draw
    from flowloom.sweeps import sweep as run_sweep

    names = list(dict.fromkeys(common.split_list(transports) + (["ideal"] if ideal else [])))
    base = _scenario(scenario, set_, seed)
    with common.resumable(out / "runs"), progress.reporter() as reporter:
        done = run_sweep(base, {"transport.name": names}, workers=jobs, out=out, reporter=reporter)
    results = {run.point["transport.name"]: run.results for run in done}
    pictures = draw(results, out / "compare", Path(scenario).stem)
    if json:
        common.print_json([r.summary for r in results.values()])
        return
    tables.print_comparison(results)
    typer.echo(f"picture: {pictures[0]}\nruns and their flows: {out / 'runs'}")


def sweep(
    scenario: ScenarioFile,
    vary: Annotated[list[str], typer.Option(metavar="KEY=V1,V2,...", help="A scenario key and its values; may be repeated.")],
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs of each point, with seeds from run.seed on.", min=1)] = 1,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where runs and the table go.")] = Path("results/sweep"),
    jobs: Jobs = None,
    flows: Annotated[bool, typer.Option(help="Keep each run's flow table.")] = True,
    json: Json = False,
) -> None:
    """Run every combination of the varied keys. Interrupted, it goes on where it stopped when started again."""
    from flowloom import progress
    from flowloom.cli import tables
    from flowloom.sweeps import sweep as run_sweep

    axes = dict(_axis(text) for text in vary)
    base = _scenario(scenario, set_, seed)
    with common.resumable(out / "runs"), progress.reporter() as reporter:
        done = run_sweep(base, axes, seeds=seeds, workers=jobs, out=out, flows=flows, reporter=reporter)
    if json:
        common.print_json(done.table().to_pylist())
        return
    tables.print_sweep(done)
    typer.echo(f"table: {out / 'sweep.csv'}\nruns: {out / 'runs'}")


def _axis(text: str) -> tuple[str, list[Any]]:
    from flowloom._native import ScenarioError

    key, equals, values = text.partition("=")
    found = [common.parse_value(value) for value in common.split_list(values)]
    if not equals or not found:
        raise ScenarioError(f"--vary {text}: give a key and its values, like --vary workload.load=0.5,0.6,0.7")
    return key.strip(), found
