"""Reads and checks a figure file. Errors name the file, the line, the key, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flowloom._native import ScenarioError
from flowloom.claims.checks import KINDS
from flowloom.figures.fields import Known
from flowloom.figures.grid import Unmeasured, untried
from flowloom.figures.schema import Figure
from flowloom.models import TomlFile
from flowloom.words import shown, suggestion


def read(path: Path) -> Figure:
    """Read a figure file. The figure's name consists of the names of the folder and the file: `phost/fig3`.

    Raises:
        ScenarioError: The file cannot be read or is not a valid figure.
    """
    return _read(path, ())


def read_all(paths: Sequence[Path]) -> tuple[list[Figure], list[str]]:
    """Read figure files; return the valid figures, and an error message for each of the others."""
    figures, errors = [], []
    for path in paths:
        try:
            figures.append(read(path))
        except ScenarioError as error:
            errors.append(str(error))
    return figures, errors


def check_scale(figures: Sequence[Figure], scale: str) -> None:
    """Raise ScenarioError if none of some figures has a scale."""
    known = dict.fromkeys(name for figure in figures for name in figure.scales)
    if known and scale not in known:
        raise ScenarioError(f'no scale "{shown(scale)}": {suggestion(scale, known)}')


def _read(path: Path, extending: tuple[Path, ...]) -> Figure:
    """Read a figure, which the figures `extending` extend."""
    file = TomlFile(path, "figure")
    parent = file.table.get("extends")
    inherited: dict[str, Any] = {}
    if isinstance(parent, str):
        if path.resolve() in extending:
            raise file.error(("extends",), "the figure extends itself")
        try:
            inherited = _inherited(_read(path.parent / parent, (*extending, path.resolve())), file.table)
        except ScenarioError as error:
            raise file.error(("extends",), str(error)) from None
    # Inherited parts are models already. They are not checked again, and errors are those of this file.
    merged = inherited | file.table
    if isinstance(scales := file.table.get("scale"), dict):
        merged["scale"] = inherited.get("scale", {}) | scales
    try:
        figure = Figure.model_validate(merged, context=Known(path))
    except ValidationError as error:
        raise file.invalid(error, merged) from None
    _try(figure, file)
    return figure


def _inherited(parent: Figure, table: dict[str, Any]) -> dict[str, Any]:
    """Return what a figure inherits: runs, but no drawings and claims."""
    tunes = parent.tunes
    if isinstance(metric := table.get("minimise"), str):
        tunes = [tune.model_copy(update={"minimise": metric}) for tune in tunes]
    every = {
        "tool": parent.tool,
        "axis": parent.axes,
        "title": parent.title,
        "about": parent.about,
        "scenario": parent.scenario_file,
        "set": parent.rules,
        "tune": tunes,
        "scale": parent.scales,
    }
    return {key: value for key, value in every.items() if value is not None}


def _try(figure: Figure, file: TomlFile) -> None:
    """Check that each check and each tuning selects points, by trying them without numbers."""
    for reading in Unmeasured(figure).readings().values():
        for number, claim in enumerate(figure.claims):
            for at, check in enumerate(claim.checks):
                try:
                    KINDS[check.kind](reading, **check.parameters)
                except ScenarioError as error:
                    raise file.error(("claim", number, "check", at), str(error)) from None
    if point := untried(figure):
        raise file.error(("tune",), f"no trial selects the parameters of the point {point}; correct `when` or `at`")
