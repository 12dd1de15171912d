"""Commands that simulate: run, compare, sweep."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowloom.cli import common
from flowloom.cli.common import Force, Jobs, Json, ScenarioFile, Seed, Set

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
    force: Force = False,
    json: Json = False,
) -> None:
    """Simulate one scenario and print what came out."""
    from flowloom import outputs, progress
    from flowloom.cli import tables
    from flowloom.engine import simulate

    wanted = _scenario(scenario, set_, seed)
    name = Path(scenario).stem
    with progress.reporter() as reporter:
        reporter.begin(1, kept=0)

        def tell(done: float, sim_s: float, packet_hops: int) -> None:
            reporter.progress("run", name, done, sim_s, packet_hops)

        key = wanted.key(tell)
        with outputs.claim(out, outputs.RESULT, key, force=force) if out else contextlib.nullcontext() as output:
            results = simulate(wanted, tell)
            reporter.finished("run", name)
            if output:
                results.write(output, csv=csv)
    if json:
        common.print_json(results.summary)
    else:
        tables.print_run(results)
        typer.echo(f"saved in {out}" if out else "not saved: give --out DIR to keep the flows")


def compare(
    scenario: ScenarioFile,
    transports: Annotated[str, typer.Option(metavar="A,B,C", help="The transports to run, by name, or `all`.")],
    ideal: Annotated[bool, typer.Option("--ideal", help="Add the bound that no transport can beat.")] = False,
    over: Annotated[str | None, typer.Option(metavar="KEY=V1,V2,...", help="Do so at each value of a scenario key.")] = None,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where runs, table and picture go.")] = Path("results/compare"),
    jobs: Jobs = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run several transports on the same flows; print a table and draw a picture. With --over, hold a tournament of rounds."""
    from flowloom import progress
    from flowloom.cli import tables
    from flowloom.plots.comparison import draw, draw_tournament
    from flowloom.sweeps import added
    from flowloom.sweeps import sweep as run_sweep

    chosen = _every_transport() if transports == "all" else common.split_list(transports)
    names = list(dict.fromkeys(chosen + (["ideal"] if ideal else [])))
    key, values = _axis(over, "--over") if over else ("run.seed", [None])
    base = _scenario(scenario, set_, seed)
    axes = ({key: values} if over else {}) | {"transport.name": names}
    with common.resumable(out / "runs"), progress.reporter() as reporter:
        done = run_sweep(base, axes, workers=jobs, out=out, force=force, reporter=reporter)
    if json:
        common.print_json([run.results.summary for run in done])
        return
    rounds = {
        value: {run.point["transport.name"]: run.results for run in done if run.point.get(key) == value} for value in values
    }
    pictures = []
    with added(out) as folder:
        for value, results in rounds.items():
            title = Path(scenario).stem + (f", {value}" if over else "")
            pictures.append(draw(results, folder / (f"compare-{value}" if over else "compare"), title)[0])
            if not over:
                tables.print_comparison(results)
        if over:
            tables.print_tournament(rounds)
            pictures.append(draw_tournament(rounds, tables.ranking(rounds), folder / "tournament", Path(scenario).stem)[0])
    typer.echo(f"picture: {', '.join(str(out / picture.name) for picture in pictures)}\nruns and their flows: {out / 'runs'}")


def sweep(
    scenario: ScenarioFile,
    vary: Annotated[list[str], typer.Option(metavar="KEY=V1,V2,...", help="A scenario key and its values; may be repeated.")],
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs of each point, with seeds from run.seed on.", min=1)] = 1,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where runs and the table go.")] = Path("results/sweep"),
    jobs: Jobs = None,
    force: Force = False,
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
        done = run_sweep(base, axes, seeds=seeds, workers=jobs, out=out, flows=flows, force=force, reporter=reporter)
    if json:
        common.print_json(done.table().to_pylist())
        return
    tables.print_sweep(done)
    typer.echo(f"table: {out / 'sweep.csv'}\nruns: {out / 'runs'}")


def _every_transport() -> list[str]:
    from flowloom.engine import catalogue

    return [transport["name"] for transport in catalogue()["transports"] if transport["name"] != "ideal"]


def _axis(text: str, option: str = "--vary") -> tuple[str, list[Any]]:
    from flowloom._native import ScenarioError

    key, equals, values = text.partition("=")
    found = [common.parse_value(value) for value in common.split_list(values)]
    if not equals or not found:
        raise ScenarioError(f"{option} {text}: give a key and its values, like {option} workload.load=0.5,0.6,0.7")
    return key.strip(), found
