"""The command that makes configurations of switches and hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flowloom.cli import common
from flowloom.cli.common import Force, ScenarioFile, Set

if TYPE_CHECKING:
    from flowloom.deploy import Deployment
    from flowloom.outputs import Output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(common.reported(deploy))


def deploy(
    scenario: ScenarioFile,
    target: Annotated[
        str,
        typer.Option("--for", metavar="TARGET", help="The kind of switch: linux, sonic, eos or cumulus.", show_default=False),
    ],
    set_: Set = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the files here instead of printing them.")] = None,
    force: Force = False,
) -> None:
    """Print the switch and host configuration that a scenario means.

    Each setting has a comment with the scenario key that it comes from. A summary says what the switches cannot do, and why. If
    the transport does not work without that, a warning names what is missing; the exit code is 0 all the same.
    """
    from flowloom import deploy as deployments
    from flowloom import outputs
    from flowloom.cli.running import scenario_of
    from flowloom.words import printable

    deployments.target_of(target)
    wanted = scenario_of(scenario, set_, None)
    made = deployments.deploy(wanted, target)
    for finding in made.plan.warnings:
        typer.echo(printable(f"warning: {finding.flag}: {finding.text}"), err=True)
    if out:
        with outputs.claim(out, outputs.DEPLOYMENT, _key(made), force=force) as output:
            _save(made, output)
        for file in made.files:
            typer.echo(printable(f"{out / file.name}"))
        typer.echo("")
        typer.echo(printable(made.summary))
    else:
        for file in made.files:
            typer.echo(printable(f"# ==== {file.name}\n{file.text}"))
        typer.echo(printable("\n".join(f"# {line}" for line in ("==== summary", *made.summary.splitlines()))))
    if made.impossible:
        typer.echo(printable(f"warning: {made.conclusion}"), err=True)


def _key(made: Deployment) -> str:
    """Return the key of the directory: a hash of what is in it."""
    import hashlib

    texts = [made.summary, *(text for file in made.files for text in (file.name, file.text))]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:20]


def _save(made: Deployment, output: Output) -> None:
    from flowloom import storage

    with output.replace({"transport": made.plan.transport, "target": made.target.NAME}) as folder:
        for file in made.files:
            storage.write_text(folder / file.name, file.text)
            if file.executable:
                (folder / file.name).chmod(0o755)
        storage.write_text(folder / "summary.txt", f"{made.summary}\n")
