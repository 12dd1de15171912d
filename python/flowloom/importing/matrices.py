"""Square matrices of numbers: which nodes are joined, or how far apart or how fast the links are.

Cells are separated by commas, semicolons, tabs or blanks. 0, an empty cell, `-`, `-1`, `inf` and `nan` say that there
is no link. The first line and the first column may have names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from flowloom.importing import joining, units
from flowloom.importing.parts import LINKS_MAX, Link, Network, duration, rate
from flowloom.importing.source import Source, is_number, is_whole, separator
from flowloom.words import shown

RATE_BPS = 10 * 10**9
"""The rate of links whose rate is not known."""
DELAY_PS = 1_000_000
"""The delay of links whose delay is not known."""
_NODES_MAX = 4096
_PARALLEL_MAX = 64
"""The most links between two nodes."""
_NO_LINK = ("", "-", "-1", "inf", "infinity", "nan", "na", "n/a", "none", "∞")


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What the number in a cell means."""

    link: Callable[[float], Link]
    """Return a link of this number between nodes 0 and 1."""
    about: Callable[[float], str]
    """Say what the largest number would mean."""
    note: str
    parallel: bool = False
    """Whether the number counts links."""


def _delay(scale: Callable[[float], int], unit: str) -> Meaning:
    def about(value: float) -> str:
        return f"{value:g} {unit} are a delay of {duration(scale(value))}"

    note = f"Cells are {unit}; all links have {rate(RATE_BPS)}."
    return Meaning(lambda value: Link(0, 1, RATE_BPS, scale(value)), about, note)


MEANINGS = {
    "adjacency": Meaning(
        lambda _: Link(0, 1, RATE_BPS, DELAY_PS),
        lambda value: f"{value:g} parallel links",
        f"Cells say which nodes are joined; all links have {rate(RATE_BPS)} and a delay of {duration(DELAY_PS)}.",
        parallel=True,
    ),
    "distances_km": _delay(units.distance_ps, "km"),
    "delays_ms": _delay(lambda value: round(value * 10**9), "ms"),
    "delays_us": _delay(lambda value: round(value * 10**6), "us"),
    "rates_gbps": Meaning(
        lambda value: Link(0, 1, max(units.RATE_BPS_MIN, round(value * 10**9)), DELAY_PS),
        lambda value: f"{value:g} Gb/s",
        f"Cells are Gb/s; all links have a delay of {duration(DELAY_PS)}.",
    ),
}
"""By format: what its cells mean."""
_LARGEST = {"distances_km": 200_000_000.0, "delays_ms": 1e6, "delays_us": 1e9, "rates_gbps": 1e6, "adjacency": _PARALLEL_MAX}
"""By format: the largest number that the simulator has a link for."""


def reason(source: Source) -> str | None:
    """Say why a file is a matrix; None if it is none."""
    rows = _first(source)
    if len(rows) < 2:
        return None
    labels = _labels(rows)
    if labels is not None:
        return f"its first line and its first column have the same names, such as {shown(labels[0])}"
    width = len(rows[0])
    if any(len(row) != width for row in rows) or len(rows) > width or width < 2:
        return None
    if not all(_is_cell(cell) for row in rows for cell in row):
        return None
    # Tables of sizes have two or three columns, and end with a share that is not 0.
    if width < 4 and (len(rows) != width or any(not _is_zero(row[at]) for at, row in enumerate(rows))):
        return None
    return f"it has {width} columns of numbers" + (f" and {width} rows" if len(rows) == width else "")


def read(source: Source, name: str | None) -> Network:
    """Read a matrix.

    Args:
        source: The file.
        name: The format, one of MEANINGS. Without it, the cells must be 0 and 1.
    """
    names, cells = _matrix(source)
    if not cells:
        raise source.wrong(None, "the matrix has no links: all cells are 0 or empty")
    if name is None:
        if any(value != 1 for value in cells.values()):
            raise source.wrong(None, f"the numbers could have several meanings: say {_readings(cells)}")
        name = "adjacency"
    meaning = MEANINGS[name]
    pairs, unequal = _pairs(cells)
    if (largest := max(pairs.values())) > _LARGEST[name]:
        raise source.wrong(None, f"{largest:g} is too large: the most for {name} is {_LARGEST[name]:g}")
    if meaning.parallel and (odd := next((value for value in pairs.values() if value != int(value)), None)):
        raise source.wrong(None, f"{odd:g} is no number of links; say {_readings(cells)}")
    # Numbers are names where the file has them, and otherwise places.
    numbered = all(map(is_whole, names))
    nodes = [joining.Node(name if numbered else str(at), name, host=False) for at, name in enumerate(names)]
    links = [
        meaning.link(value)._replace(a=a, b=b)
        for (a, b), value in pairs.items()
        for _ in range(int(value) if meaning.parallel else 1)
    ]
    found = joining.network(source, nodes, links, attach=Link(0, 0, 0, DELAY_PS))
    found.notes.append(meaning.note)
    if unequal:
        found.notes.append(
            f"Pairs of nodes whose two cells differ ({unequal:,}): links go both ways; the larger number counts."
        )
    return found


def _readings(cells: dict[tuple[int, int], float]) -> str:
    largest = max(cells.values())
    whole = all(value == int(value) for value in cells.values())
    fit = [name for name, most in _LARGEST.items() if largest <= most and (whole or name != "adjacency")]
    return " or ".join(f"--as {name} ({MEANINGS[name].about(largest)})" for name in fit) or "another format with --as"


def _matrix(source: Source) -> tuple[list[str], dict[tuple[int, int], float]]:
    """Return the names of nodes, and by row and column the cells that are not 0."""
    labels = _labels(_first(source))
    tabs = _tabs(source) if labels is None else 0  # a row with a name is not empty
    lines = ((number, _cells(line)) for number, line in source.rows() if _is_row(line, tabs))
    if labels is not None:
        next(lines)
    width, count = len(labels) if labels is not None else 0, 0
    closed = labels is None
    cells: dict[tuple[int, int], float] = {}
    for number, row in lines:
        if labels is not None:
            if count == len(labels) or row[0] != labels[count]:
                raise source.wrong(number, f'the row begins with "{shown(row[0])}"; rows have the names of line 1 in its order')
            row = row[1:]
            if len(row) == width + 1 and not row[-1]:
                del row[-1]
        width = width or len(row)
        if len(row) != width:
            raise source.wrong(number, f"the row has {len(row):,} cells, and the first one {width:,}")
        closed = closed and not row[-1]
        if width - closed > _NODES_MAX:
            raise source.wrong(number, f"the matrix has {width:,} columns; an import has at most {_NODES_MAX:,} nodes")
        if count == width:
            raise source.wrong(number, f"a matrix has as many rows as columns; this is row {count + 1:,} of {width:,} columns")
        for column, cell in _filled(source, number, row):
            cells[count, column] = cell
        count += 1
        if len(cells) > 2 * LINKS_MAX:
            raise source.wrong(number, f"the matrix has more than {LINKS_MAX:,} links")
    if closed and count == width - 1:
        width = count  # a separator ended each row, and no cell was behind it
    if count < width or width < 2:
        found = f"this one has {count:,} rows and {width:,} columns"
        raise source.wrong(None, f"a matrix has as many rows as columns, two at least; {found}")
    return labels or [f"n{at}" for at in range(width)], cells


def _filled(source: Source, number: int, row: list[str]) -> Iterator[tuple[int, float]]:
    for column, cell in enumerate(row):
        if cell.lower() not in _NO_LINK and not _is_zero(cell):
            yield column, float(source.number(number, cell, f"cell {column + 1}", 0, 1e15))


def _pairs(cells: dict[tuple[int, int], float]) -> tuple[dict[tuple[int, int], float], int]:
    """Return by pair of nodes the larger of its two cells, and how many pairs have two different ones."""
    pairs: dict[tuple[int, int], float] = {}
    unequal = 0
    for (row, column), value in cells.items():
        other = cells.get((column, row), 0.0)
        pair = (min(row, column), max(row, column))
        if pair not in pairs:
            unequal += value != other
            pairs[pair] = max(value, other)
    return pairs, unequal


def _first(source: Source) -> list[list[str]]:
    """Return the first rows, without the separators that end them if these are all rows of the matrix."""
    tabs = _tabs(source)
    rows = [_cells(line) for line in source.head_rows if _is_row(line, tabs)]
    # An empty last column of a square matrix is a node to which no link leads.
    closed = all(not row[-1] for row in rows) and bool(rows) and len(rows) == len(rows[-1]) - 1
    return [row[:-1] if closed else row for row in rows]


def _tabs(source: Source) -> int:
    """Return how many tabs are in the first row that does not consist of them; 0 if they do not separate its cells."""
    first = next((line for line in source.head_rows if _is_row(line, 0)), "")
    return first.count("\t") if separator(first) == "\t" else 0


def _is_row(line: str, tabs: int) -> bool:
    """Return whether a line is a row. One that consists of tabs has empty cells, if it has as many tabs as other rows."""
    return 0 < tabs == line.count("\t") if line.isspace() else not line.lstrip().startswith("#")


def _cells(line: str) -> list[str]:
    between = separator(line)
    return [cell.strip().strip('"') for cell in line.split(between)] if between else line.split()


def _labels(rows: list[list[str]]) -> list[str] | None:
    """Return the names in the first line if the first column has the same names."""
    rows = [row for row in rows if any(row)]
    header = rows[0][: None if rows[0][-1] else -1] if len(rows) > 1 else []
    if not header or (_is_cell(header[-1]) and not _are_numbered(rows)):
        return None
    first = [row[0] for row in rows[1:]]
    for names in (header[1:], header):
        if len(names) >= 2 and names[: len(first)] == first[: len(names)] and len(set(names)) == len(names):
            return names
    return None


def _are_numbered(rows: list[list[str]]) -> bool:
    """Return whether numbers from 0 or 1 on are the names of nodes, as tables are written that number their rows.

    They could be distances along a line, but then the cells from each node to itself are alike.
    """
    corner, *names = rows[0]
    counted = [[str(at + first) for at in range(len(names))] for first in (0, 1)]
    inner = [row[at] for at, row in enumerate(rows[1:], 1) if at < len(row)]
    return not corner and names in counted and any(inner)


def _is_cell(cell: str) -> bool:
    return is_number(cell) or cell.lower() in _NO_LINK


def _is_zero(cell: str) -> bool:
    return cell.lower() in _NO_LINK or (is_number(cell) and float(cell) == 0)
