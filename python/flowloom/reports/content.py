"""What a page shows, before it is HTML: sections with sentences, facts, plots and tables of plain texts."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from flowloom import axes, metrics, tables

ROWS_MAX = 2000
"""The maximum number of rows of a table. A page with many more is slow."""


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    order: float | None = None
    """Its place when the table is sorted by its column; None for a text among texts."""
    depth: float | None = None
    """How dark its colour is, from 0 for the best of its column to 1; None without a colour."""
    note: str = ""
    """A second line in small print."""


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of cells, which a click on a head sorts."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    right: frozenset[int] = frozenset()
    """The columns that are aligned to the right."""
    note: str = ""
    """What is said below the title."""
    folded: bool = False
    """Whether the reader has to unfold it."""

    @classmethod
    def of(cls, found: tables.Table, title: str = "", note: str = "", *, folded: bool = False) -> Table:
        """Create a table from one of texts, as the command line prints it. Its title becomes the note."""
        shown, note = found.rows[:ROWS_MAX], note or found.title
        if len(found.rows) > len(shown):
            note = ", ".join(
                filter(None, (note, f"of which the first {ROWS_MAX:,} are here; the files of the result have all"))
            )
        columns = [ordered([row[at] for row in shown]) for at in range(len(found.head))]
        rows = [[Cell(text, orders[down]) for text, orders in zip(row, columns, strict=True)] for down, row in enumerate(shown)]
        return cls(title, found.head, rows, frozenset(found.right), note, folded)


class Fact(NamedTuple):
    """One thing that was run, or how."""

    name: str
    text: str


class Bullet(NamedTuple):
    """A measured value against its band, in percent of the width of a drawing."""

    band: tuple[float, float]
    """Where the band begins and how wide it is."""
    value: float
    interval: tuple[float, float] | None
    """Where the interval begins and how wide it is; None if there is none."""


class Checked(NamedTuple):
    """A check of a claim."""

    verdict: str
    measured: str
    band: str
    paper: str
    why: str
    """Why it cannot fail or does not count; empty if it counts."""
    bullet: Bullet | None
    readings: Sequence[str]
    """What it gives under the other readings of the paper's set-up."""


class Claim(NamedTuple):
    """A claim of a paper with its verdict."""

    id: str
    verdict: str
    says: str
    checks: Sequence[Checked]


class Key(NamedTuple):
    """An entry of the legend that several plots share."""

    name: str
    light: str
    dark: str
    """Its colour on a light and on a dark page."""
    shape: str
    """What is shown beside the name: `line`, `bar` or `mark`."""


@dataclasses.dataclass(frozen=True)
class Plots:
    """Plots side by side that share a legend."""

    title: str
    keys: Sequence[Key]
    panels: Sequence[dict[str, Any]]
    """What `report.js` draws: numbers, labels, and the numbers of keys."""
    note: str = ""
    image: str = ""
    """A picture as a `data:` address, in place of panels."""


@dataclasses.dataclass(frozen=True)
class Section:
    """One result."""

    id: str
    kind: str
    """What it is, in a word: `Run`, `Comparison`."""
    title: str
    finding: Sequence[str]
    """What the numbers say, in a sentence or two."""
    facts: Sequence[Fact]
    command: str = ""
    """What repeats it."""
    about: Sequence[str] = ()
    """Paragraphs that explain the numbers."""
    warnings: Sequence[str] = ()
    plots: Sequence[Plots] = ()
    tables: Sequence[Table] = ()
    claims: Sequence[Claim] = ()
    scenario: str = ""
    """The scenario with every default filled in, as TOML."""
    meanings: Sequence[Fact] = ()
    """The definitions of the numbers in its tables."""


_FIRST = re.compile(r"(?:up to |over |seed )?([+-]?(?:\d[\d,]*)?\.?\d+(?:[eE][+-]?\d+)?)\s*([a-zA-Zµ/%]*)")
_MISSING = ("", "-", "–", "none", "failed")


def ordered(texts: Sequence[str]) -> list[float | None]:
    """Return the numbers by which the cells of a column are sorted; all None if one of them has none.

    A cell counts with its first number, in its unit: `1.56 ± 0.03`, `10 kB to 100 kB`, `200 of 200`.
    """
    known = [text for text in texts if text not in _MISSING]
    found = {text: _number(text) for text in known}
    if not known or None in found.values():
        return [None] * len(texts)
    return [found.get(text) for text in texts]


def _number(text: str) -> float | None:
    match = _FIRST.match(text)
    if match is None:
        return None
    value = axes.quantity(match[1].replace(",", "") + match[2])
    if value is None or not value.unit:
        return float(match[1].replace(",", ""))
    return next((number for base in ("B", "s", "b/s") if (number := value.into(base)) is not None), value.number)


def meanings(found: Iterable[Table]) -> list[Fact]:
    """Return the definitions of the metrics that tables name, each once."""
    about = {metric.label: metric.about for metric in reversed(metrics.METRICS.values())}
    every = list(found)
    names = [name for table in every for name in (*table.head, *(row[0].text for row in table.rows if row))]
    return [Fact(name, about[name]) for name in dict.fromkeys(names) if name in about]
