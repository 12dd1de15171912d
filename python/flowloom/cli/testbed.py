"""Commands for testbeds: the network of a scenario on this machine, with real switch ports."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flowloom.cli import common
from flowloom.cli.common import Force, Json, ScenarioFile, Seed, Set

if TYPE_CHECKING:
    from flowloom.testbed.checks import Line, Measured

app = typer.Typer(
    help="Set up the network of a scenario on this machine, with real switch ports. It needs Linux and root.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Profile = Annotated[
    str,
    typer.Option(metavar="NAME", help="How processes keep time: loopback, with the paper's rules, or batched, for high rates."),
]


def register(top: typer.Typer) -> None:
    """Add the commands, as subcommands of `flowloom testbed`."""
    for command in (up, status, down, check, run, compare):
        app.command()(common.reported(command))
    app.command("exec", context_settings={"allow_interspersed_args": False})(common.reported(exec_))
    top.add_typer(app, name="testbed")


def up(scenario: ScenarioFile, set_: Set = None) -> None:
    """Set up the network of a scenario.

    Each host and each switch is a network namespace. The ports of switches have the queues that `flowloom deploy --for linux`
    prints, at the rates of the scenario. The network stays until `flowloom testbed down`.
    """
    from flowloom.cli.running import scenario_of
    from flowloom.testbed import keeper

    keeper.up(scenario_of(scenario, set_, None))
    _print_status()
    typer.echo(
        "\n`flowloom testbed exec HOST COMMAND` runs a command on a host, and `flowloom testbed down` removes the network."
    )


def status(json: Json = False) -> None:
    """Print the hosts of the testbed, and what the ports of its switches have done."""
    if json:
        import dataclasses

        from flowloom.testbed import keeper

        view = keeper.view()
        hosts = [{"host": host.name, "address": host.address} for host in view.hosts]
        ports = [dataclasses.asdict(count) for count in view.counters()]
        common.print_json({"title": view.title, "marks": view.marks, "hosts": hosts, "ports": ports})
    else:
        _print_status()


def down() -> None:
    """Remove the testbed. Programs that run in it are ended."""
    from flowloom.testbed import keeper

    typer.echo("The testbed is removed." if keeper.down() else "No testbed is up.")


def exec_(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A host or a switch.")],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The command and its arguments.")],
) -> None:
    """Run a command on a host or a switch of the testbed. Hosts are known to it by their names."""
    from flowloom.testbed import keeper

    words = keeper.command(node, command)
    os.execvp(words[0], words)


def check(
    scenario: ScenarioFile,
    set_: Set = None,
    user_mode: Annotated[
        bool, typer.Option("--user-mode", help="In user-mode Linux, whose kernel has RED and DCTCP, instead of this kernel.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure whether the ports of a scenario do on this machine what switches do.

    Bulk flows of two hosts fill the port to a third one, in the lowest class. Meanwhile, echoes are measured in the highest and
    in the lowest class, also through a port with one FIFO. The exit code is 1 if the port does not serve in strict priority,
    marks nothing, drops packets that it could mark, or carries less than 75 % of its rate.
    """
    import dataclasses

    from flowloom.cli.running import scenario_of
    from flowloom.testbed import checks

    wanted = scenario_of(scenario, set_, None)
    found = (checks.check_in_machine if user_mode else checks.check)(wanted, _say)
    lines = checks.verdict(*found)
    if json:
        common.print_json([dataclasses.asdict(one) for one in found])
    else:
        _print_check(found, lines)
    if not all(line.good for line in lines):
        raise typer.Exit(common.FAILED)


def run(
    scenario: ScenarioFile,
    set_: Set = None,
    seed: Seed = None,
    profile: Profile = "loopback",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Save the result here, as `flowloom run` does.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run a scenario on a testbed: its flows, over UDP, between processes on its hosts.

    The result is that of `flowloom run`, but for what only a simulator sees.
    """
    from flowloom import outputs, progress
    from flowloom.cli import tables
    from flowloom.cli.running import scenario_of
    from flowloom.testbed import running

    wanted = scenario_of(scenario, set_, seed)
    key = running.keys(wanted)["testbed"]
    with outputs.claim(out, outputs.RESULT, key, force=force) if out else contextlib.nullcontext() as output:
        with progress.reporter() as reporter:
            results = running.run(wanted, profile, reporter)
        if output:
            results.write(output)
    if json:
        common.print_json(results.as_json())
        return
    tables.print_run(results)
    typer.echo(f"saved in {out}" if out else "not saved; give --out DIR to keep the flows")


def compare(
    scenario: ScenarioFile,
    transports: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Transports; by default that of the scenario.")
    ] = None,
    set_: Set = None,
    seed: Seed = None,
    profile: Profile = "loopback",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save the results in DIR/TRANSPORT/testbed and DIR/TRANSPORT/simulated.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run a scenario on a testbed and in the simulator, and print both side by side."""
    from flowloom import diagnosis, outputs, progress
    from flowloom.cli import tables
    from flowloom.cli.running import scenario_of
    from flowloom.testbed import running

    wanted = scenario_of(scenario, set_, seed)
    under = running.scenarios(wanted, common.split_list(transports) if transports else [])
    found = {}
    with progress.reporter() as reporter, contextlib.ExitStack() as stack:
        places = {
            (transport, world): stack.enter_context(outputs.claim(out / transport / world, outputs.RESULT, key, force=force))
            for transport, one in under.items()
            for world, key in running.keys(one).items()
            if out
        }
        for which, results in running.compare(under, profile, reporter):
            found[which] = results
            if out:
                results.write(places[which])
    if json:
        common.print_json([{"transport": one, "world": world} | results.as_json() for (one, world), results in found.items()])
        return
    named = {running.title(*key): results for key, results in found.items()}
    tables.print_side_by_side({title: [results] for title, results in named.items()})
    for line in diagnosis.grouped((title, results.warnings) for title, results in named.items()):
        typer.echo(f"warning: {line}")
    typer.echo(f"saved in {out}" if out else "not saved; give --out DIR to keep the flows")


def _say(what: str) -> None:
    typer.echo(f"{what} ...", err=True)


def _print_status() -> None:
    from flowloom.testbed import keeper

    view = keeper.view()
    title = f"{view.title}: {len(view.hosts)} hosts, {len(view.switches)} switches; {view.marks} marks packets"
    common.print_table(["host", "address"], [[host.name, host.address] for host in view.hosts], title=title)
    head = ["port", "packets", "bytes", "dropped", "marked", "queued bytes"]
    rows = [
        [f"{one.switch}-{one.to}", *(f"{n:,}" for n in (one.packets, one.bytes, one.dropped, one.marked, one.queued_bytes))]
        for one in view.counters()
    ]
    common.print_table(head, rows, right=range(1, 6))


def _print_check(found: Sequence[Measured], lines: Sequence[Line]) -> None:
    head = ["port", "echo, highest class (us)", "lowest class (us)", "bulk (Mb/s)", "marked", "dropped", "sent again"]
    rows = [
        [
            f"{one.port}, {one.rate_bps / 1e6:g} Mb/s",
            *(f"{value:.0f}" for value in one.medians),
            f"{one.goodput_bps / 1e6:.0f}",
            *(f"{value:,}" for value in (one.marked, one.dropped, one.retransmitted)),
        ]
        for one in found
    ]
    notes = [f"Echoes are medians. The bulk flows have the congestion control {found[0].control}."]
    common.print_table(head, rows, right=range(1, 7), notes=notes)
    for line in lines:
        typer.echo(f"{'ok ' if line.good else 'NOT'} {line.text}")
