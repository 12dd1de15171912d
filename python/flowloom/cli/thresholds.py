"""The command that finds demotion thresholds."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flowloom.cli import common
from flowloom.cli.common import Force, Jobs, Json, Set

if TYPE_CHECKING:
    from flowloom.demotion.analytic import Solution
    from flowloom.demotion.simulated import Found
    from flowloom.outputs import Output
    from flowloom.scenario import Scenario

_PIAS = "pias/default.toml"

_Sizes = Annotated[
    str | None, typer.Option("--sizes", metavar="NAME|FILE", help="Flow sizes: the name of a workload, or a flow-size table.")
]
_Flows = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Flow sizes: a log of flows, CSV or Parquet, with a column `bytes`.")
]
_Histogram = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Flow sizes: a CSV file with a bin's upper edge in bytes and its number of flows."),
]
_Dialect = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT", help="The format of the file in --sizes, such as ns2_packets, flows or histogram; see docs/import.md."
    ),
]
_Load = Annotated[float | None, typer.Option(metavar="L", help="Offered load of the bottleneck, above 0 and below 1.")]
_Robust = Annotated[
    str | None, typer.Option(metavar="L1,L2,...", help="Find one set for all of these loads, instead of --load.")
]
_Over = Annotated[
    str,
    typer.Option(metavar="worst|mean", help="With --robust, minimise the worst or the mean ratio to the optimum of each load."),
]
_Queues = Annotated[int, typer.Option(metavar="N", help="Maximum number of priority queues, 1 to 8.")]
_Reading = Annotated[
    str,
    typer.Option(
        metavar="bursts|exact|bound|per_packet",
        help="What is minimised: the mean slowdown if a flow's packets arrive together, or a reading of the paper's objective: "
        "the exact number of packets in each queue, the paper's upper bound on it, or a delay for each packet instead of each "
        "flow.",
    ),
]
_Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Write a picture, a TOML snippet and JSON here.")]
_Published = Annotated[
    bool, typer.Option("--published", help="List the published thresholds; with TABLE and --load, print one set.")
]
_Objective = Annotated[
    str,
    typer.Option(
        metavar="analytic|simulated",
        help="Minimise a queueing model, which takes seconds, or the metric of simulations, which takes many runs.",
    ),
]
_Scenario = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.toml",
        help=f"The scenario to simulate on, under pias; by default a small fabric, and with simulated papers/{_PIAS}.",
    ),
]
_Metric = Annotated[
    str, typer.Option(metavar="METRIC", help="The metric of simulations that decides, less is better; see `flowloom explain`.")
]
_Check = Annotated[
    bool,
    typer.Option(
        "--check/--no-check", help="Simulate the thresholds, the equal split and the published set, and recommend the best."
    ),
]
_Budget = Annotated[int, typer.Option(metavar="RUNS", help="With simulated: the maximum number of runs.", min=1)]
_Runs = Annotated[
    Path, typer.Option(metavar="DIR", help="With simulated: a directory for finished runs, which are used again.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(common.reported(thresholds))


def thresholds(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="With --published: the workload whose thresholds to print.")
    ] = None,
    sizes: _Sizes = None,
    flows: _Flows = None,
    histogram: _Histogram = None,
    dialect: _Dialect = None,
    load: _Load = None,
    robust: _Robust = None,
    over: _Over = "worst",
    queues: _Queues = 8,
    reading: _Reading = "bursts",
    published: _Published = False,
    objective: _Objective = "analytic",
    scenario: _Scenario = None,
    set_: Set = None,
    check: _Check = True,
    metric: _Metric = "slowdown.mean",
    budget: _Budget = 120,
    runs: _Runs = Path("results/runs"),
    jobs: Jobs = None,
    out: _Out = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find PIAS's demotion thresholds for given flow sizes and load.

    PIAS lowers a flow's priority each time that its bytes sent exceed a threshold. The result can be pasted into a scenario.
    """
    from flowloom import outputs
    from flowloom._native import ScenarioError
    from flowloom.cli import threshold_tables as tables
    from flowloom.words import suggestion

    if published:
        _print_published(table or sizes, load, json)
        return
    if table:
        raise ScenarioError(f'"{table}" needs --published; to find thresholds for it, give --sizes {table}')
    if objective not in ("analytic", "simulated"):
        raise ScenarioError(f'unknown objective "{objective}": {suggestion(objective, ("analytic", "simulated"))}')
    loads = _loads(load, robust)
    asked = (sizes, flows, histogram, dialect, loads, over, queues, reading, objective, scenario, set_, check, metric, budget)
    # From the search to the last line of the output, an interrupt loses no finished run.
    with common.resumable(runs) if objective == "simulated" else contextlib.nullcontext():
        with outputs.claim(out, outputs.THRESHOLDS, _key(asked), force=force) if out else contextlib.nullcontext() as output:
            found: Solution | Found
            if objective == "simulated":
                if flows or histogram:
                    raise ScenarioError(
                        "--flows and --histogram are for --objective analytic; convert the file with `flowloom import`, and "
                        "give the table with --sizes FILE"
                    )
                base = _scenario(scenario, set_, sizes, dialect)
                found = _simulated(base, queues, metric, loads, over, reading, budget, runs, jobs)
            else:
                found = _analytic([(sizes, dialect), (flows, "flows"), (histogram, "histogram")], loads, queues, over, reading)
                if check:
                    found = _checked(found, scenario, set_, metric, jobs)
                elif scenario or set_:
                    raise ScenarioError("--scenario and --set are for simulations; leave out --no-check, or them")
            pictures = _save(found, output) if output else []
        if json:
            common.print_json(found.as_json())
            return
        tables.print_found(found)
        typer.echo(found.snippet)
        for picture in pictures[:1]:
            typer.echo(f"picture: {picture}")


def _checked(solution: Solution, scenario: str | None, pairs: list[str] | None, metric: str, jobs: int | None) -> Solution:
    """Simulate a solution and its rivals."""
    import dataclasses

    from flowloom import progress
    from flowloom.demotion import check
    from flowloom.scenario import Scenario

    base = Scenario.of(Path(scenario) if scenario else check.FABRIC)
    base = dataclasses.replace(base, overrides=common.overrides(pairs, None))
    with progress.reporter() as reporter:
        made = check.check_thresholds(solution, base, metric=metric, workers=jobs, reporter=reporter)
    return dataclasses.replace(solution, check=made)


def _loads(load: float | None, robust: str | None) -> list[float] | None:
    from flowloom._native import ScenarioError

    if load is not None and robust is not None:
        raise ScenarioError("--load is for one load and --robust for several loads; give one of them")
    if robust is None:
        return None if load is None else [load]
    try:
        return [float(word) for word in common.split_list(robust)]
    except ValueError:
        raise ScenarioError(f"--robust {robust}: give loads, such as --robust 0.5,0.6,0.7,0.8") from None


def _analytic(
    sources: list[tuple[str | Path | None, str | None]], loads: list[float] | None, queues: int, over: str, reading: str
) -> Solution:
    from flowloom._native import ScenarioError
    from flowloom.demotion.analytic import thresholds as find

    given = [(source, dialect) for source, dialect in sources if source is not None]
    if len(given) != 1:
        raise ScenarioError(
            "give flow sizes with one of --sizes NAME (see `flowloom list workloads`), --sizes FILE, --flows FILE and "
            "--histogram FILE"
        )
    if loads is None:
        raise ScenarioError("give a load, such as --load 0.8, or several loads, such as --robust 0.5,0.6,0.7,0.8")
    ((source, dialect),) = given
    return find(source, loads, queues, reading=reading, over=over, dialect=dialect)


def _scenario(path: str | None, pairs: list[str] | None, sizes: str | None, dialect: str | None) -> Scenario:
    import dataclasses

    from flowloom.engine import catalogue
    from flowloom.figures import catalogue as figures
    from flowloom.scenario import Scenario

    base = Scenario.of(Path(path) if path else figures.scenario("pias/default.toml"))
    base = dataclasses.replace(base, overrides=common.overrides(pairs, None))
    if sizes is None:
        return base
    if dialect is None and sizes in (table["name"] for table in catalogue()["workloads"]):
        return base.set({"workload.sizes": sizes})
    # Files in a scenario are relative to its folder, but this one is relative to the working directory.
    file = {"cdf": str(Path(sizes).resolve())} | ({"dialect": dialect} if dialect else {})
    return base.set({"workload.sizes": file})


def _simulated(
    base: Scenario,
    queues: int,
    metric: str,
    loads: list[float] | None,
    over: str,
    reading: str,
    budget: int,
    runs: Path,
    jobs: int | None,
) -> Found:
    from flowloom import progress
    from flowloom.demotion.simulated import search_thresholds

    with progress.reporter() as reporter:
        return search_thresholds(
            base, queues, metric=metric, loads=loads, over=over, reading=reading, budget=budget, workers=jobs, runs=runs,
            reporter=reporter,
        )  # fmt: skip


def _key(asked: tuple[object, ...]) -> str:
    """Return the key of the result: a hash of the arguments, of the files among them, and of the build."""
    import hashlib

    from flowloom.scenario import engine_id

    digest = hashlib.sha256(f"{engine_id()}\n{asked}".encode())
    for word in asked:
        if isinstance(word, str | Path) and Path(word).is_file():
            digest.update(Path(word).read_bytes())
    return digest.hexdigest()[:20]


def _save(found: Solution | Found, output: Output) -> list[Path]:
    from flowloom import storage
    from flowloom.plots.thresholds import draw

    with output.replace({}) as folder:
        storage.write_json(folder / "thresholds.json", found.as_json())
        storage.write_text(folder / "thresholds.toml", found.snippet)
        drawn = draw(found.sizes, found.sets, folder / "thresholds", found.about)
    return [output.shown / picture.name for picture in drawn]


def _print_published(table: str | None, load: float | None, json: bool) -> None:
    from flowloom.cli import threshold_tables as tables
    from flowloom.demotion import published
    from flowloom.demotion.snippet import snippet

    if table is not None:
        found = published.get(table, load)
        if json:
            common.print_json(found._asdict())
        else:
            typer.echo(snippet(found.thresholds, f"{table}, load {found.load:g}, as published ({found.source})"), nl=False)
        return
    if json:
        common.print_json([each._asdict() for each in published.sets()])
        return
    tables.print_published(published.sets())
    typer.echo("`flowloom thresholds --published TABLE --load LOAD` prints one set for a scenario.")
