"""Commands for information and import: list, show, explain, doctor, import."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowloom.cli import common
from flowloom.words import printable, shown

if TYPE_CHECKING:
    from flowloom.scenario import Plan


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("list")(common.reported(list_all))
    app.command()(common.reported(show))
    app.command()(common.reported(explain))
    app.command()(common.reported(doctor))
    app.command("import")(common.reported(import_files))


def list_all(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND", help="transports, workloads, topologies, wires or figures; by default all."),
    ] = None,
) -> None:
    """List transports, workloads, topologies, wires and figures."""
    from flowloom import engine, metrics
    from flowloom._native import ScenarioError
    from flowloom.words import shown, suggestion

    catalogue = engine.catalogue()
    kinds = ("transports", "workloads", "topologies", "wires", "figures")
    if kind not in (None, *kinds):
        raise ScenarioError(f'cannot list "{shown(kind)}": {suggestion(str(kind), kinds)}')
    for section in kinds:
        if kind not in (None, section):
            continue
        entries = _figures() if section == "figures" else catalogue[section]
        typer.echo(section)
        width = max((len(entry["name"]) for entry in entries), default=0)
        for entry in entries:
            mean = entry.get("mean_bytes")
            size = f" (mean {metrics.size(mean)})" if mean else ""
            typer.echo(f"  {entry['name']:<{width}}  {entry.get('about', '')}{size}".rstrip())
        typer.echo("")
    if kind is None:
        typer.echo("`flowloom show NAME` prints the details of a transport, workload, topology or figure.")


def _figures() -> list[dict[str, Any]]:
    from flowloom._native import ScenarioError
    from flowloom.figures import catalogue, reader

    try:
        figures, errors = reader.read_all(catalogue.figures())
        for error in errors:
            typer.echo(f"error: {error}", err=True)
        return [{"name": f.name, "about": f.title} for f in figures]
    except ScenarioError:
        return []  # there is no papers folder


def show(
    name: Annotated[str, typer.Argument(metavar="NAME|SCENARIO.toml", help="A name from `flowloom list`, or a scenario file.")],
    set_: common.Set = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw a workload's flow sizes to a .png or .svg file.")
    ] = None,
) -> None:
    """Print a transport, workload, figure or scenario in detail.

    These are the parameters of a transport, the flow sizes of a workload, the definition of a figure, or a scenario with a
    value for every key, and with what follows from its transport and its network.
    """
    from flowloom import engine
    from flowloom._native import ScenarioError
    from flowloom.plots.style import PICTURES
    from flowloom.words import shown, suggestion

    if plot and plot.suffix not in PICTURES:
        raise ScenarioError(f"--plot {shown(plot)}: give a {' or a '.join(PICTURES)} file")
    catalogue = engine.catalogue()
    found = {entry["name"]: (kind, entry) for kind in ("transports", "workloads", "topologies") for entry in catalogue[kind]}
    if set_ and not name.endswith(".toml"):
        raise ScenarioError(f"--set overrides keys of a scenario, but {shown(name)} is none; leave --set out")
    if plot and found.get(name, ("", {}))[0] != "workloads":
        raise ScenarioError(f"--plot draws a workload's flow sizes, but {shown(name)} is not a workload; leave --plot out")
    if name in found:
        kind, entry = found[name]
        {"transports": _show_transport, "workloads": _show_workload, "topologies": _show_topology}[kind](entry)
        if plot:
            from flowloom.demotion.sizes import Sizes
            from flowloom.plots.sizes import draw

            drawn = draw(Sizes.through(name, entry["points"]), plot.with_suffix(""), f"{name}: {entry['about']}")
            typer.echo(f"picture: {next(picture for picture in drawn if picture.suffix == plot.suffix)}")
    elif "/" in name and not name.endswith(".toml"):
        from flowloom.cli.paper import print_figure
        from flowloom.figures import catalogue as figures
        from flowloom.figures import reader

        print_figure(reader.read(figures.figure_path(name)))
    elif name.endswith(".toml"):
        from flowloom.cli.running import scenario_of

        plan = scenario_of(name, set_, None).plan()
        # What is not printable is inside texts, where TOML has escapes for it.
        typer.echo(printable(plan.resolved.rstrip(), escape=lambda character: f"\\U{ord(character):08x}"))
        _show_fitted(plan)
        _show_data_queues(plan)
    else:
        raise ScenarioError(f'unknown name "{shown(name)}": {suggestion(name, found)}; `flowloom list` prints all names')


def _show_fitted(plan: Plan) -> None:
    """Print what a run has where the scenario leaves it open, as comments below the scenario."""
    if not (fitted := plan.fitted()):
        return
    typer.echo("\n# What the scenario leaves open:")
    for key, found in fitted.items():
        typer.echo(f"#   {key} = {_toml_value(found['value'])}: {found['why']}")


def _show_data_queues(plan: Plan) -> None:
    """Print how long queues of data can become, as comments below the scenario, where credits schedule all data."""
    from flowloom.metrics import size

    if (bounds := plan.data_queue_bounds()) is None:
        return
    typer.echo(
        "\n# The most data that can queue at one port by the routes and the limits of credits, besides what waits for signals:"
    )
    width = max(map(len, bounds["by_hop"]))
    for hop, bytes_ in bounds["by_hop"].items():
        typer.echo(f"#   {hop:<{width}}  {size(bytes_)}")
    if per_root := bounds["per_root_of_packets"]:
        root = "the square root of the number of packets that queue without a break"
        typer.echo(f"# Credits of random sizes add {size(round(per_root))} times {root}.")


def _show_transport(entry: dict[str, Any]) -> None:
    typer.echo(f"{entry['name']}: {entry['about']}\n\n[transport.{entry['name']}]")
    properties = entry["schema"].get("properties", {})
    for key, default in entry["defaults"].items():
        about = " ".join(properties.get(key, {}).get("description", "").split())
        typer.echo(f"{key} = {_toml_value(default)}" + (f"\n    {about}" if about else ""))


def _toml_value(value: Any) -> str:
    from flowloom import toml

    return toml.value(value) if value is not None else "(none)"


def _show_workload(entry: dict[str, Any]) -> None:
    from flowloom.metrics import size

    typer.echo(f"{entry['name']}: {entry['about']}\nsource: {entry['source']}\nmean: {size(entry['mean_bytes'])}")
    # All shares get the decimals of the one that needs most.
    decimals = max(len(f"{share:.10f}".rstrip("0").partition(".")[2]) for _, share in entry["points"])
    rows = [[size(bytes_), f"{share:.{decimals}f}"] for bytes_, share in entry["points"]]
    common.print_table(["flow size", "share no larger"], rows, right=(0, 1))


def _show_topology(entry: dict[str, Any]) -> None:
    typer.echo(f"{entry['name']}: {entry['about']}")


def explain(
    what: Annotated[
        str, typer.Argument(metavar="METRIC|DIR", help="A metric, such as slowdown.by_size[0].mean, or a results directory.")
    ],
) -> None:
    """Explain a metric or a result.

    For a metric, print its definition. For the result of a run, print what dominated its completion times. For a comparison, a
    sweep or a figure, list its runs.
    """
    from flowloom import explanations

    typer.echo(explanations.of_directory(Path(what)) if _is_directory(what) else explanations.of_metric(what))


def _is_directory(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # the name is too long
        return False


def doctor(
    what: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO.toml|DIR", help="A scenario or a results directory; by default the installation."),
    ] = None,
) -> None:
    """Check the installation, a scenario or a result.

    For a scenario (which is run with at most 2000 flows) or a result, report unfinished flows, overload, and mechanisms that
    were configured but had no effect. Exit with 1 if there is a problem.
    """
    from flowloom import diagnosis, results

    if what is None:
        findings = diagnosis.of_installation()
    elif _is_directory(what):
        findings = diagnosis.of_result(results.load(what, whole=True))
    else:
        findings = diagnosis.of_scenario(Path(what))
    for finding in findings:
        typer.echo(f"{finding.level:<7} {finding.text}")
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(common.FAILED)


def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="A file with a network, one with flows or their sizes, or both.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for scenario.toml and the files that it names.")],
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            metavar="FORMAT",
            help="The format of a file that is not recognised, or could have several; FILE=FORMAT for one of several files. "
            "docs/import.md lists all.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an import of other files, or one whose scenario was changed.")
    ] = False,
) -> None:
    """Make a scenario from the files of other tools.

    Files are recognised by their content: topologies and flows of the HPCC authors' ns-3, htsim's .topo and .cm, GraphML and
    GML, matrices, coflow traces, logs of flows, and tables of flow sizes. The scenario's comments say what could not be carried
    over.
    """
    from flowloom import importing

    named = _named_formats(files, formats or [])
    options = [word for name in formats or [] for word in ("--as", name)]
    command = shlex.join(["flowloom", "import", *(path.name for path in files), *options])
    made = importing.make(files, out, named, command, force=force)
    for line in [*made.about, "", "What the scenario has otherwise than the files, or what they do not say:"]:
        typer.echo(line)
    for note in made.notes:
        typer.echo(f"* {note}")
    typer.echo(f"\nRun it: flowloom run {made.path}")


def _named_formats(files: list[Path], words: list[str]) -> dict[str, str]:
    """Return by file the format that an option names."""
    from flowloom._native import ScenarioError

    named: dict[str, str] = {}
    for word in words:
        file, equals, name = word.rpartition("=")
        if not equals and len(files) > 1:
            example = f"--as {shown(files[0])}={shown(word)}"
            raise ScenarioError(f"--as {shown(word)}: there are several files, so say which one: {example}")
        path = str(Path(file)) if equals else str(files[0])
        if path in named:
            raise ScenarioError(f"--as: {shown(path)} has two formats, {shown(named[path])} and {shown(name)}")
        named[path] = name
    return named
