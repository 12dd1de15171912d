"""Where the papers' figures are."""

from __future__ import annotations

import os
from pathlib import Path

from flowloom._native import ScenarioError
from flowloom.words import suggestion

_INSTALLED = Path(__file__).resolve().parents[1] / "papers"
"""The papers that come with the package; in a checkout, a link to its own."""


def papers_folder() -> Path:
    """Give the folder that holds the papers: `$FLOWLOOM_PAPERS`, `papers` here or above, or what came with the package.

    Raises:
        ScenarioError: There is none.
    """
    if named := os.environ.get("FLOWLOOM_PAPERS"):
        if not Path(named).is_dir():
            raise ScenarioError(f"$FLOWLOOM_PAPERS names {named}, which is not a folder")
        return Path(named)
    here = Path.cwd()
    for folder in (*(above / "papers" for above in (here, *here.parents)), _INSTALLED):
        if any(folder.glob("*/default.toml")):
            return folder
    raise ScenarioError("no papers here: run this in a checkout of Flowloom, or set FLOWLOOM_PAPERS to its papers folder")


def keeps_ledger(figure: Path) -> bool:
    """Whether a figure's claims are recorded beside it: yes in a checkout or a folder of the user's, not in the package."""
    return _INSTALLED.is_symlink() or not figure.resolve().is_relative_to(_INSTALLED)


def papers() -> list[str]:
    """Give the papers' names."""
    return sorted(path.parent.name for path in papers_folder().glob("*/default.toml"))


def figures(paper: str | None = None) -> list[Path]:
    """Give the figure files of one paper or of all, in the order of their numbers; what has none comes first.

    Raises:
        ScenarioError: There is no such paper.
    """
    if paper is not None and paper not in papers():
        raise ScenarioError(f'no paper "{paper}": {suggestion(paper, papers())}')
    found = [path for name in ([paper] if paper else papers()) for path in papers_folder().joinpath(name).glob("*.toml")]
    return sorted(filter(_is_figure, found), key=_numbered)


def _is_figure(path: Path) -> bool:
    """Tell figures from the scenarios and causes beside them: they draw something."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # whoever reads it will say what is wrong
    return any(line.startswith("[[panel]]") for line in text.splitlines())


def _numbered(path: Path) -> tuple[str, int, str]:
    digits = "".join(c for c in path.stem if c.isdigit())
    return path.parent.name, int(digits or 0), path.stem


def figure_path(name: str) -> Path:
    """Give the file of a figure named `phost/fig3`, or given as a path.

    Raises:
        ScenarioError: There is no such figure.
    """
    if name.endswith(".toml"):
        return Path(name)
    known = {f"{path.parent.name}/{path.stem}": path for path in figures()}
    if name not in known:
        raise ScenarioError(f'no figure "{name}": {suggestion(name, known)}')
    return known[name]
