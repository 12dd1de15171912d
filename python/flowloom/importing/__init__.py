"""Imports what users of other tools have: networks, flows, coflows and sizes of flows become a scenario that runs.

`formats` lists the formats. The module of each recognises a file by its first lines, and reads it into one of the
`parts`; `joining` makes a network that the simulator can run, and `scenario` puts a network and flows together and
writes them. Files are read line by line (`source`), and errors say what a file was taken for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flowloom._native import ScenarioError
from flowloom.importing.parts import BYTES_MAX
from flowloom.importing.sizes import Table, read
from flowloom.importing.source import opened
from flowloom.words import listed, shown

if TYPE_CHECKING:
    from flowloom.importing.scenario import Made

__all__ = ["BYTES_MAX", "Table", "make", "read"]


def make(
    paths: Sequence[Path], out: Path, named: Mapping[str, str] | None = None, command: str = "", *, force: bool = False
) -> Made:
    """Make a scenario from files of other tools.

    Args:
        paths: A file with a network, one with flows or their sizes, or both.
        out: The folder to write: `scenario.toml`, and the files that it names.
        named: By path, the name of a file's format (see `formats`). The others are recognised.
        command: What was typed, for the scenario's first line.
        force: Replace an import of other files, and one whose scenario was changed.

    Raises:
        ScenarioError: A file cannot be read or is broken, the files do not fit together, or `out` may not be replaced.
    """
    # Whoever reads sizes alone needs no formats of networks and no simulator.
    from flowloom.importing import formats, scenario

    named = dict(named or {})
    if unknown := sorted(set(named).difference(map(str, paths))):
        given = listed([shown(path) for path in paths])
        raise ScenarioError(f"--as: {shown(unknown[0])} is no file of the command; it has {given}")
    digest = hashlib.sha256()
    files = []
    for path in paths:
        name = named.get(str(path))
        with opened(path) as source:
            files.append(scenario.Read(source, formats.read(source, name)))
            digest.update(f"{path.name} {name}\n{source.digest()}\n".encode())
    return scenario.write(files, out, digest.hexdigest()[:20], command, force=force)
