"""Runs the programs of crates/tagger."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from flowloom._native import RunError, ScenarioError
from flowloom.demotion import snippet
from flowloom.scenario import Scenario

TAG = "flowloom-tag"
"""The program that attaches taggers to the devices of hosts."""
PORT = "flowloom-port"
"""The program that lets the ports of switches mark packets."""
NODE = "flowloom-node"
"""The program that runs transports between hosts."""
_BAD_INPUT = 2


def path(name: str) -> str:
    """Return the path of a program: on the PATH, or beside the Python interpreter, where `make node` puts it.

    Raises:
        RunError: It is not built.
    """
    beside = str(Path(sys.executable).parent)
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), beside]))
    if found is None:
        raise RunError(f"{name} is not built; run `make node`, which needs Rust and Linux")
    return found


def run(words: Sequence[str]) -> str:
    """Run `flowloom-tag` with these arguments; return what it prints.

    Raises:
        ScenarioError: It refuses its input.
        RunError: It is not built, or the system refuses.
    """
    done = subprocess.run([path(TAG), *words], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        why = done.stderr.strip().removeprefix(f"{TAG}: ")
        raise (ScenarioError if done.returncode == _BAD_INPUT else RunError)(why)
    return done.stdout


def thresholds_of(scenario: Scenario) -> str:
    """Return the thresholds of a scenario in the form of the option `--thresholds`.

    Raises:
        ScenarioError: The scenario is bad, or its transport has no thresholds.
    """
    table, _, key = snippet.KEY.rpartition(".")
    _, _, name = table.rpartition(".")
    transport = tomllib.loads(scenario.resolve())["transport"]
    if transport["name"] != name:
        raise ScenarioError(
            f'{snippet.KEY} does not apply, since transport.name is "{transport["name"]}"; give a scenario with '
            f"transport.name = {name}, or add --set transport.name={name}"
        )
    given = transport[name][key]
    return ",".join(given if isinstance(given, list) else scenario.plan().fitted()[snippet.KEY]["value"])
