"""What notebooks show: tables as HTML. Names from files are escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable

from flowloom.tables import Table
from flowloom.words import printable

ROWS_MAX = 60
"""The maximum number of rows of a table. A notebook with more is slow."""


def page(found: Iterable[Table], notes: Iterable[str] = ()) -> str:
    """Return tables, and notes below them, as HTML without colours of its own, so that it suits light and dark pages."""
    return "".join([*map(_table, found), *(f"<p>{_text(note)}</p>" for note in notes)])


def _table(found: Table) -> str:
    lines = [f"<caption style='text-align: left'>{_text(found.title)}</caption>"] if found.title else []
    if any(found.head):
        lines.append(f"<thead>{_row('th', found.head, found.right)}</thead>")
    lines.append(f"<tbody>{''.join(_row('td', row, found.right) for row in found.rows[:ROWS_MAX])}</tbody>")
    more = f"<p>and {len(found.rows) - ROWS_MAX} more rows</p>" if len(found.rows) > ROWS_MAX else ""
    notes = "".join(f"<p>{_text(note)}</p>" for note in found.notes)
    return f"<table>{''.join(lines)}</table>{more}{notes}"


def _row(tag: str, cells: Iterable[str], right: Iterable[int]) -> str:
    sides = {True: "right", False: "left"}
    shown = (f"<{tag} style='text-align: {sides[n in right]}'>{_text(cell)}</{tag}>" for n, cell in enumerate(cells))
    return f"<tr>{''.join(shown)}</tr>"


def _text(text: str) -> str:
    return html.escape(printable(text, keep=""))
