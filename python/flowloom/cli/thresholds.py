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
    str | None, typer.Option("--sizes", metavar="NAME|FILE", help="Flow sizes: a table's name, or a file of a distribution.")
]
_Flows = Annotated[Path | None, typer.Option(metavar="FILE", help="Flow sizes: a log, CSV or Parquet with a column `bytes`.")]
_Histogram = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Flow sizes: a CSV of bytes (a bin's upper edge) and count.")
]
_Dialect = Annotated[str | None, typer.Option(help="How the columns of --sizes FILE are meant, as for `import`.")]
_Load = Annotated[float | None, typer.Option(help="Offered load of the bottleneck, above 0 and below 1.")]
_Robust = Annotated[str | None, typer.Option(metavar="L1,L2,...", help="One set that is good at all of these loads.")]
_Over = Annotated[str, typer.Option(help="With --robust, minimise the `worst` or the `mean` ratio to each load's own optimum.")]
_Queues = Annotated[int, typer.Option(help="How many priority queues there may be, 1 to 8.")]
_Reading = Annotated[
    str,
    typer.Option(
        help="exact: packets per queue as they are; bound: as the paper bounds them; per_packet: delay for each packet."
    ),
]
_Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Write the picture, the TOML snippet and the JSON here.")]
_Published = Annotated[bool, typer.Option("--published", help="List the published sets; with TABLE and --load, print one.")]
_Objective = Annotated[str, typer.Option(help="analytic: queueing theory, seconds; simulated: the simulator, many runs.")]
_Scenario = Annotated[
    str | None,
    typer.Option(metavar="FILE.toml", help=f"What to simulate; papers/{_PIAS} by default. Its transport becomes pias."),
]
_Metric = Annotated[str, typer.Option(help="What a simulated search minimises: a number of the summary.")]
_Budget = Annotated[int, typer.Option(metavar="RUNS", help="A simulated search makes no more runs than this.", min=1)]
_Runs = Annotated[Path, typer.Option(metavar="DIR", help="Where simulated runs are kept, to be used again.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(common.reported(thresholds))


def thresholds(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="With --published: the table whose set to print.")
    ] = None,
    sizes: _Sizes = None,
    flows: _Flows = None,
    histogram: _Histogram = None,
    dialect: _Dialect = None,
    load: _Load = None,
    robust: _Robust = None,
    over: _Over = "worst",
    queues: _Queues = 8,
    reading: _Reading = "exact",
    published: _Published = False,
    objective: _Objective = "analytic",
    scenario: _Scenario = None,
    set_: Set = None,
    metric: _Metric = "fct_us.mean",
    budget: _Budget = 120,
    runs: _Runs = Path("results/runs"),
    jobs: Jobs = None,
    out: _Out = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the demotion thresholds of PIAS for flow sizes and a load, ready to paste into a scenario."""
    from flowloom import outputs
    from flowloom._native import ScenarioError
    from flowloom.cli import threshold_tables as tables
    from flowloom.words import suggestion

    if published:
        _print_published(table or sizes, load, json)
        return
    if table:
        raise ScenarioError(f'"{table}" stands alone; to find thresholds for it give --sizes {table}')
    if objective not in ("analytic", "simulated"):
        raise ScenarioError(f'no objective "{objective}": {suggestion(objective, ("analytic", "simulated"))}')
    loads = _loads(load, robust)
    asked = (sizes, flows, histogram, dialect, loads, over, queues, reading, objective, scenario, set_, metric, budget)
    with outputs.claim(out, outputs.THRESHOLDS, _key(asked), force=force) if out else contextlib.nullcontext() as output:
        found: Solution | Found
        if objective == "simulated":
            if flows or histogram:
                raise ScenarioError(
                    "a simulation draws its own sizes: make a table of these with `flowloom import` for --sizes FILE"
                )
            base = _scenario(scenario, set_, sizes, dialect)
            found = _simulated(base, queues, metric, loads, over, reading, budget, runs, jobs)
        else:
            if scenario or set_:
                raise ScenarioError("--scenario and --set are for --objective simulated; analytic thresholds know no scenario")
            found = _analytic([(sizes, dialect), (flows, "flows"), (histogram, "histogram")], loads, queues, over, reading)
        pictures = _save(found, output) if output else []
    if json:
        common.print_json(found.as_json())
        return
    tables.print_found(found)
    typer.echo(found.snippet)
    for picture in pictures[:1]:
        typer.echo(f"picture: {picture}")


def _loads(load: float | None, robust: str | None) -> list[float] | None:
    from flowloom._native import ScenarioError

    if load is not None and robust is not None:
        raise ScenarioError("--load is for one load and --robust for several; give one of them")
    if robust is None:
        return None if load is None else [load]
    try:
        return [float(word) for word in common.split_list(robust)]
    except ValueError:
        raise ScenarioError(f"--robust {robust}: give loads, like --robust 0.5,0.6,0.7,0.8") from None


def _analytic(
    sources: list[tuple[str | Path | None, str | None]], loads: list[float] | None, queues: int, over: str, reading: str
) -> Solution:
    from flowloom._native import ScenarioError
    from flowloom.demotion.analytic import thresholds as find

    given = [(source, dialect) for source, dialect in sources if source is not None]
    if len(given) != 1:
        raise ScenarioError(
            "give the flow sizes in one way: --sizes NAME (see `flowloom list workloads`), --sizes FILE, --flows FILE or "
            "--histogram FILE"
        )
    if loads is None:
        raise ScenarioError("give the load that the thresholds are for: --load 0.8, or --robust 0.5,0.6,0.7,0.8 for several")
    ((source, dialect),) = given
    return find(source, loads, queues, reading=reading, over=over, dialect=dialect)


def _scenario(path: str | None, pairs: list[str] | None, sizes: str | None, dialect: str | None) -> Scenario:
    import dataclasses

    from flowloom.engine import catalogue
    from flowloom.figures.catalogue import papers_folder
    from flowloom.scenario import Scenario

    base = Scenario.of(Path(path) if path else papers_folder() / "pias" / "default.toml")
    base = dataclasses.replace(base, overrides=common.overrides(pairs, None))
    if sizes is None:
        return base
    if dialect is None and sizes in (table["name"] for table in catalogue()["workloads"]):
        return base.set({"workload.sizes": sizes})
    # A scenario's files are looked for beside it; this one is named from here.
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

    with common.resumable(runs), progress.reporter() as reporter:
        return search_thresholds(
            base, queues, metric=metric, loads=loads, over=over, reading=reading, budget=budget, workers=jobs, runs=runs,
            reporter=reporter,
        )  # fmt: skip


def _key(asked: tuple[object, ...]) -> str:
    """Name a question: a hash of the arguments, of the files they name, and of the build."""
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
        (folder / "thresholds.toml").write_text(found.snippet, encoding="utf-8")
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
    typer.echo("`flowloom thresholds --published TABLE --load LOAD` prints one for a scenario.")
