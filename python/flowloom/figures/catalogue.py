"""Finds the papers and their figures."""

from __future__ import annotations

import os
from pathlib import Path

from flowloom._native import ScenarioError
from flowloom.words import suggestion

_INSTALLED = Path(__file__).resolve().parents[1] / "papers"
"""The papers in the package. In a checkout, this is a link to the checkout's papers folder."""


def papers_folder() -> Path:
    """Return the papers folder: `$FLOWLOOM_PAPERS`, `papers` in this directory or one above, or the package's own.

    Raises:
        ScenarioError: There is no such folder.
    """
    if named := os.environ.get("FLOWLOOM_PAPERS"):
        if not Path(named).is_dir():
            raise ScenarioError(f"$FLOWLOOM_PAPERS is {named}, which is not a directory")
        return Path(named)
    here = Path.cwd()
    for folder in (*(above / "papers" for above in (here, *here.parents)), _INSTALLED):
        if any(folder.glob("*/default.toml")):
            return folder
    raise ScenarioError("no papers found: run this in a checkout of Flowloom, or set FLOWLOOM_PAPERS to its papers folder")


def keeps_ledger(figure: Path) -> bool:
    """Return whether runs record a figure's claims beside it: in a checkout or a user's folder, but not in the package."""
    return _INSTALLED.is_symlink() or not figure.resolve().is_relative_to(_INSTALLED)


def papers() -> list[str]:
    """Return the papers' names: the folders that hold figures."""
    return sorted({path.parent.name for path in figures()})


def figures(paper: str | None = None) -> list[Path]:
    """Return the figure files of one paper or of all, in the order of their numbers; figures without a number come first.

    Raises:
        ScenarioError: There is no such paper.
    """
    found = sorted(filter(_is_figure, papers_folder().glob("*/*.toml")), key=_numbered)
    chosen = [path for path in found if paper in (None, path.parent.name)]
    if paper is not None and not chosen:
        raise ScenarioError(f'no paper "{paper}": {suggestion(paper, {path.parent.name for path in found})}')
    return chosen


def _is_figure(path: Path) -> bool:
    """Return whether a file is a figure. Unlike the scenarios and causes beside it, a figure has panels."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # reading the figure will report the error
    return any(line.startswith("[[panel]]") for line in text.splitlines())


def _numbered(path: Path) -> tuple[str, int, str]:
    digits = "".join(c for c in path.stem if c.isdigit())
    return path.parent.name, int(digits or 0), path.stem


def figure_path(name: str) -> Path:
    """Return the file of a figure, given its name (`phost/fig3`) or its path.

    Raises:
        ScenarioError: There is no such figure.
    """
    if name.endswith(".toml"):
        return Path(name)
    known = {f"{path.parent.name}/{path.stem}": path for path in figures()}
    if name not in known:
        raise ScenarioError(f'no figure "{name}": {suggestion(name, known)}')
    return known[name]
