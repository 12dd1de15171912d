"""A picture that a notebook shows, and that can be saved."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from flowloom._native import ScenarioError
from flowloom.plots import style
from flowloom.words import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


class Picture:
    """A drawing. It is shown where it is the last value of a notebook's cell; matplotlib's settings stay as they are."""

    def __init__(self, name: str, figure: Canvas) -> None:
        """Store a drawing with the name of its file."""
        self.name = name
        self.figure = figure
        """Matplotlib's figure."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to a .png or .svg file, which is replaced if it exists.

        Raises:
            ScenarioError: The file has another suffix.
            OSError: The disk is full or cannot be written to.
        """
        target = Path(path)
        if target.suffix not in style.PICTURES:
            raise ScenarioError(f"{shown(target)}: give a {' or a '.join(style.PICTURES)} file")
        with style.settings():
            style.save(self.figure, target.with_suffix(""), [target.suffix])
        return target

    def _repr_png_(self) -> bytes:
        with style.settings():
            style.fit(self.figure)
            data = io.BytesIO()
            self.figure.savefig(data, dpi=100)
        return data.getvalue()

    def __repr__(self) -> str:
        return f"<Picture: {' '.join(self.figure.get_suptitle().split())}>"


def picture(draw: Callable[[], Iterator[tuple[str, Canvas]]], name: str = "") -> Picture:
    """Draw, and return the picture with this name; the last one without a name."""
    with style.settings():
        drawings = dict(draw())
    return Picture(name or list(drawings)[-1], drawings[name or list(drawings)[-1]])
