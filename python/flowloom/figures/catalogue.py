"""Finds the papers and their figures."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from flowloom._native import ScenarioError
from flowloom.words import suggestion

_INSTALLED = Path(__file__).resolve().parents[1] / "papers"
"""The papers in the package. In a checkout, this is a link to the checkout's papers folder."""


def folders() -> list[Path]:
    """Return the folders of papers, the most important one first.

    `$FLOWLOOM_PAPERS` alone, if it is set. Otherwise `papers` in this directory or one above, which belongs to the user, and
    the package's own.

    Raises:
        ScenarioError: There is no such folder.
    """
    if named := os.environ.get("FLOWLOOM_PAPERS"):
        if not Path(named).is_dir():
            raise ScenarioError(f"$FLOWLOOM_PAPERS is {named}, which is not a directory")
        return [Path(named)]
    here = Path.cwd()
    users = next((above / "papers" for above in (here, *here.parents) if _holds_papers(above / "papers")), None)
    found = [users] if users else []
    if _holds_papers(_INSTALLED) and (users is None or users.resolve() != _INSTALLED.resolve()):
        found.append(_INSTALLED)
    if not found:
        raise ScenarioError("no papers found: run this in a checkout of Flowloom, or set FLOWLOOM_PAPERS to its papers folder")
    return found


def _holds_papers(folder: Path) -> bool:
    return any(folder.glob("*/*.toml"))


def scenario(name: str) -> Path:
    """Return the file of a scenario beside the figures: `pias/default.toml`."""
    places = [folder / name for folder in folders()]
    return next((place for place in places if place.exists()), places[0])


def keeps_ledger(figure: Path) -> bool:
    """Return whether runs record a figure's claims beside it: in a checkout or a user's folder, but not in the package."""
    return _INSTALLED.is_symlink() or not figure.resolve().is_relative_to(_INSTALLED)


def papers() -> list[str]:
    """Return the papers' names: the folders that hold figures."""
    return sorted({path.parent.name for path in figures()})


def figures(paper: str | None = None) -> list[Path]:
    """Return the figure files of one paper or of all, in the order of their numbers; figures without a number come first.

    Of two figures of the same name, that of the user counts, and not that of the package; see `hidden`.

    Raises:
        ScenarioError: There is no such paper.
    """
    found = sorted(_found()[0].values(), key=_numbered)
    chosen = [path for path in found if paper in (None, path.parent.name)]
    if paper is not None and not chosen:
        raise ScenarioError(f'no paper "{paper}": {suggestion(paper, sorted({path.parent.name for path in found}))}')
    return chosen


def hidden() -> list[str]:
    """Return the names of the package's figures that do not count, because the user has figures of the same names."""
    return _found()[1]


def _found() -> tuple[dict[str, Path], list[str]]:
    """Return the figures by name, and the names that occur twice."""
    found: dict[str, Path] = {}
    twice = []
    for folder in folders():
        for path in filter(_is_figure, folder.glob("*/*.toml")):
            if found.setdefault(_name(path), path) != path:
                twice.append(_name(path))
    return found, sorted(twice)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


_TABLES = ("axis", "panel", "claim", "scale", "extends")
"""The keys by which a figure is told from the scenarios, networks and causes beside it, which have none of them."""
_MENTIONS = re.compile(rf"\b({'|'.join(_TABLES)})\b|\\u")


def _is_figure(path: Path) -> bool:
    """Return whether a file is a figure, even if it is not a valid one."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        # Most other files do not even mention a table of a figure, and reading TOML takes a hundred times as long.
        return bool(_MENTIONS.search(text)) and any(key in tomllib.loads(text) for key in _TABLES)
    except (OSError, ValueError, RecursionError):
        return True  # reading the figure will report the error


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
    for folder in folders():
        if name.count("/") == 1 and (path := folder / f"{name}.toml").is_file() and _is_figure(path):
            return path
    found = _found()[0]
    if name not in found:
        names = [_name(path) for path in sorted(found.values(), key=_numbered)]
        raise ScenarioError(f'no figure "{name}": {suggestion(name, names)}')
    return found[name]
