"""The command compare: transports and variants of a scenario side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowloom.cli import common
from flowloom.cli.common import ClusterAddress, Force, Jobs, Json, Metrics, Plot, ScenarioFile, Seed, Seeds, Set, With
from flowloom.cli.running import axis_of, scenario_of

if TYPE_CHECKING:
    from flowloom.scenario import Scenario

_VARIANT = "'shallow: transport.name=dctcp, fabric.buffer=12kB'"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(common.reported(compare))


def compare(
    scenario: ScenarioFile,
    transports: Annotated[
        str, typer.Option(metavar="A,B,C", help="Names of transports to run, or `all` that can run the scenario.")
    ] = "",
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'LABEL: KEY=VALUE, ...'",
            help=f"Scenario keys to compare with the others under a label: {_VARIANT}; may be repeated.",
        ),
    ] = None,
    ideal: Annotated[
        bool, typer.Option("--ideal", help="Add `ideal`, a lower bound on the mean flow completion time of any transport.")
    ] = False,
    over: Annotated[
        str | None,
        typer.Option(metavar="KEY=V1,V2,...", help="Compare at each value of a scenario key, and rank the variants."),
    ] = None,
    metrics: Metrics = None,
    with_: With = None,
    seeds: Seeds = 1,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for runs, table and picture.")] = Path("results/compare"),
    jobs: Jobs = None,
    cluster: ClusterAddress = None,
    force: Force = False,
    plot: Plot = True,
    json: Json = False,
) -> None:
    """Run transports and variants side by side and compare them.

    Give --transports, --variant or both. The output is a table, a picture in --out and, with --over, a ranking over all values
    of the key.
    """
    from flowloom import comparisons, outputs, overlays, progress
    from flowloom._native import ScenarioError
    from flowloom.cli import tables
    from flowloom.plots import pictures

    if metrics is not None and over is None:
        raise ScenarioError("--metrics selects what is drawn over the values of a key; give --over KEY=V1,V2,... as well")
    key, values = axis_of(over, "--over") if over else ("", [])
    more = common.by_label("--variant", map(_variant, variant or []))
    later = [*_set_by_all(bool(transports) or ideal, more), *([(f"--over {key}", key)] if over else [])]
    base = scenario_of(scenario, set_, seed, later)
    names, left_out = _transports(transports, ideal, base, needed=not more)
    others = common.by_label("--with", map(overlays.split, with_ or []))
    with common.resumable(out / "runs"):
        with common.executor(cluster, jobs) as executor, progress.reporter() as reporter:
            begin = time.monotonic()
            done, failed = common.swept(
                lambda: comparisons.compare(
                    base,
                    names,
                    variants=more,
                    over={key: values} if over else None,
                    beside=others,
                    metrics=None if metrics is None else common.split_list(metrics),
                    seeds=seeds,
                    executor=executor,
                    workers=jobs,
                    out=out,
                    force=force,
                    reporter=reporter,
                )
            )
            took = time.monotonic() - begin
        if json:
            common.print_json(done.as_json())
            tables.print_warnings(done.sweep, err=True)
        elif done.sweep.runs:
            tables.print_comparison(done, left_out)
            drawn = common.drawn(out, outputs.SWEEP, pictures.of_comparison(done)) if plot else []
            tables.print_warnings(done.sweep)
            typer.echo(f"{len(done.sweep)} runs in {took:.0f} s")
            if drawn:
                typer.echo(f"picture: {', '.join(map(str, drawn))}")
            typer.echo(f"runs and their flows: {out / 'runs'}")
        common.end_incomplete(failed)


def _variant(text: str) -> tuple[str, dict[str, Any]]:
    """Parse --variant: a label, a colon, and keys with their values."""
    from flowloom._native import ScenarioError
    from flowloom.words import shown

    label, colon, keys = text.partition(":")
    label = label.strip()
    if not colon or not label:
        raise ScenarioError(f"--variant {shown(text)}: give a label, a colon and keys with values, such as {_VARIANT}")
    found: dict[str, Any] = {}
    for part in common.split_list(keys):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not key or not value:
            raise ScenarioError(
                f'--variant "{shown(label)}": {shown(part)} is not a key with a value; give some, such as {_VARIANT}'
            )
        if key in found:
            raise ScenarioError(f'--variant "{shown(label)}": {shown(key)} is given twice; give each key once')
        found[key] = common.parse_value(value)
    return label, found


def _set_by_all(transports: bool, variants: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the keys that all that is compared sets, each with the option that does."""
    compared = [*([{"transport.name"}] if transports else []), *(set(keys) for keys in variants.values())]
    for key in sorted(set.intersection(*compared)) if compared else ():
        yield "--variant" if variants else "--transports", key


def _transports(text: str, ideal: bool, scenario: Scenario, *, needed: bool) -> tuple[list[str], dict[str, str]]:
    """Parse --transports; `all` stands for every transport that can run the scenario, without the bound `ideal`.

    Returns:
        The transports, and by name those that `all` leaves out, with the reasons.
    """
    from flowloom._native import ScenarioError
    from flowloom.transports import BOUND, transport, transports
    from flowloom.words import shown, suggestion

    known = ["all", *transports()]
    chosen = common.split_list(text)
    if not chosen and needed:
        raise ScenarioError("--transports is empty; give names, such as --transports phost,pfabric, `all`, or a --variant")
    for name in chosen:
        if name not in known:
            raise ScenarioError(f'--transports {shown(text)}: unknown transport "{shown(name)}"; {suggestion(name, known)}')
        if chosen.count(name) > 1:
            way_out = f"a --variant runs it again with other keys: 'LABEL: transport.name={name}, KEY=VALUE'"
            raise ScenarioError(f"--transports {shown(text)}: {shown(name)} is named twice; {way_out}")
    every = [name for name in known if name != "all" and not transport(name).bound]
    refused: dict[str, str] = {}
    if "all" in chosen:
        every, refused = _able(every, scenario)
    names = [each for name in chosen for each in (every if name == "all" else [name])]
    left_out = {name: why for name, why in refused.items() if name not in names}
    for name, why in left_out.items():
        typer.echo(f"left out: {name}: {why}", err=True)
    return list(dict.fromkeys(names + ([BOUND] if ideal else []))), left_out


def _able(names: list[str], scenario: Scenario) -> tuple[list[str], dict[str, str]]:
    """Return the transports that can run the scenario, and by name why the others cannot.

    Raises:
        ScenarioError: No transport can, so the scenario itself is wrong.
    """
    from flowloom._native import ScenarioError

    refused = scenario.refusals(names)
    able = [name for name in names if name not in refused]
    if not able:
        raise ScenarioError(refused[names[0]])
    return able, {name: why.splitlines()[0] for name, why in refused.items()}
