"""Commands for taggers in the kernels of hosts, which give the packets of unmodified programs the classes of PIAS."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from flowloom.cli import common
from flowloom.cli.common import Json, Set

app = typer.Typer(
    help="Tag the packets of unmodified programs with classes, in the kernel of this host. All of it needs Linux and root.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Device = Annotated[str, typer.Argument(metavar="DEVICE", help="A network device, such as eth0.")]
_Thresholds = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="One to seven ascending sizes, such as 20kB,100kB,1MB.")
]
_Scenario = Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Take the thresholds of this scenario.")]
_IdleGap = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="A message begins when its program was silent for longer, and nothing is unacknowledged; 500us by default.",
    ),
]
_Timeouts = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="A flow counts as new after N consecutive timeouts; 0: never; 2 by default.", min=0, max=255
    ),
]
_Ecn = Annotated[
    bool | None,
    typer.Option(
        "--ecn/--no-ecn",
        help="Make all packets of TCP connections with ECN ECN-capable (the default), or leave their ECN field.",
    ),
]
_Netns = Annotated[str | None, typer.Option(metavar="NAME", help="The device is in this network namespace of `ip netns`.")]
_KeyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The key that agents and controller share, of at least 16 bytes.")
]


def register(top: typer.Typer) -> None:
    """Add the commands, as subcommands of `flowloom pias`."""
    for command in (attach, set_, status, detach, serve, controller):
        app.command(command.__name__.rstrip("_"))(common.reported(command))
    top.add_typer(app, name="pias")


def attach(
    device: _Device,
    thresholds: _Thresholds = None,
    scenario: _Scenario = None,
    overrides: Set = None,
    idle_gap: _IdleGap = None,
    timeouts: _Timeouts = None,
    ecn: _Ecn = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="One packet per burst for new TCP connections, so that no packet has an earlier one's class."
        ),
    ] = False,
    table_size: Annotated[
        int | None,
        typer.Option(metavar="N", help="Flows that are remembered at once; 65536 by default.", min=1024, max=1 << 24),
    ] = None,
    clsact: Annotated[
        bool, typer.Option("--clsact", help="Use a filter of the qdisc clsact also where the kernel has TCX (6.6 or later).")
    ] = False,
    netns: _Netns = None,
) -> None:
    """Attach a tagger to a device. It stays until it is detached.

    A flow begins in class 0 (DSCP CS7), and each threshold that its message exceeds takes it one class down.
    """
    words = [*(["--exact"] if exact else []), *(["--clsact"] if clsact else []), *_option("--table-size", table_size)]
    _print("attach", device, _rules(thresholds, scenario, overrides, idle_gap, timeouts, ecn) + words, netns)


def set_(
    device: _Device,
    thresholds: _Thresholds = None,
    scenario: _Scenario = None,
    overrides: Set = None,
    idle_gap: _IdleGap = None,
    timeouts: _Timeouts = None,
    ecn: _Ecn = None,
    netns: _Netns = None,
) -> None:
    """Change a tagger while it runs. What is not given stays."""
    _print("set", device, _rules(thresholds, scenario, overrides, idle_gap, timeouts, ecn), netns)


def status(
    device: Annotated[str | None, typer.Argument(metavar="DEVICE", help="By default, list the devices with taggers.")] = None,
    json: Json = False,
    netns: _Netns = None,
) -> None:
    """Print the rules of a tagger and what it has counted."""
    _print("status", device, ["--json"] if json else [], netns)


def detach(
    device: Annotated[str | None, typer.Argument(metavar="DEVICE", help="The device, unless --all is given.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Detach all taggers of this host.")] = False,
    netns: _Netns = None,
) -> None:
    """Detach a tagger, and restore what it has changed."""
    _print("detach", device, ["--all"] if every else [], netns)


def serve(
    device: _Device,
    listen: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where to listen, such as 127.0.0.1:7171.")],
    key_file: _KeyFile = None,
    netns: _Netns = None,
) -> None:
    """Let a controller on another host read a tagger's counts and set its thresholds, until Ctrl-C."""
    import subprocess

    from flowloom.tagging import command

    key = [] if key_file is None else ["--key-file", str(key_file)]
    words = [command.path(command.TAG), "serve", device, "--listen", listen, *key, *_option("--netns", netns)]
    raise typer.Exit(subprocess.call(words))


def controller(
    taggers: Annotated[
        list[str],
        typer.Argument(metavar="DEVICE|HOST:PORT...", help="Devices of this host, and agents (`flowloom pias serve`)."),
    ],
    period: Annotated[float, typer.Option(metavar="SECONDS", help="The time between two computations.", min=1.0)] = 60.0,
    load: Annotated[float, typer.Option(metavar="L", help="The load of the bottleneck, above 0 and below 1.")] = 0.8,
    queues: Annotated[int, typer.Option(metavar="N", help="Maximum number of classes, 2 to 8.")] = 8,
    reading: Annotated[str, typer.Option(metavar="NAME", help="What is minimised; see `flowloom thresholds`.")] = "bursts",
    smoothing: Annotated[
        float, typer.Option(metavar="W", help="The weight of the latest period; with 1, only the latest counts.")
    ] = 0.5,
    least: Annotated[
        int, typer.Option(metavar="N", help="Wait for another period if fewer messages have ended.", min=1)
    ] = 1000,
    once: Annotated[bool, typer.Option("--once", help="Compute thresholds once, from all messages so far, and end.")] = False,
    key_file: _KeyFile = None,
    netns: _Netns = None,
) -> None:
    """Compute thresholds from the messages that taggers have counted, as `flowloom thresholds` does, and give them to all.

    It runs until Ctrl-C, and prints a line for each change.
    """
    from flowloom.tagging import agents
    from flowloom.tagging.controller import Controller, Settings

    key = agents.read_key(key_file) if key_file else None
    found = [agents.parse(name, key, netns) for name in taggers]
    looping = Controller(found, Settings(load, queues, reading, smoothing, least), _log)
    while True:
        thresholds = looping.step()
        if once:
            raise typer.Exit(0 if thresholds else common.FAILED)
        time.sleep(period)


def _log(line: str) -> None:
    from flowloom.words import printable

    typer.echo(printable(f"{time.strftime('%H:%M:%S')} {line}"))


def _print(name: str, device: str | None, words: list[str], netns: str | None) -> None:
    from flowloom.tagging import command

    devices = [] if device is None else [device]
    typer.echo(command.run([name, *devices, *words, *_option("--netns", netns)]), nl=False)


def _rules(
    thresholds: str | None,
    scenario: Path | None,
    overrides: list[str] | None,
    idle_gap: str | None,
    timeouts: int | None,
    ecn: bool | None,
) -> list[str]:
    """Return the options of `flowloom-tag` that set rules."""
    import dataclasses

    from flowloom._native import ScenarioError

    if overrides and not scenario:
        raise ScenarioError("--set changes keys of a scenario; give --scenario, too")
    if scenario:
        from flowloom.scenario import Scenario
        from flowloom.tagging import command

        if thresholds:
            raise ScenarioError("--thresholds and --scenario both give thresholds; leave one of them out")
        read = dataclasses.replace(Scenario.of(scenario), overrides=common.overrides(overrides, None))
        thresholds = command.thresholds_of(read)
    on = None if ecn is None else "on" if ecn else "off"
    return [
        *_option("--thresholds", thresholds),
        *_option("--idle-gap", idle_gap),
        *_option("--timeouts", timeouts),
        *_option("--ecn", on),
    ]


def _option(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]
