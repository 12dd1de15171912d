"""The ledger for Python and notebooks: `flowloom.ledger`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flowloom._native import ScenarioError
from flowloom.claims import ledger as ledger_
from flowloom.claims.entries import VERDICTS, Entry
from flowloom.figures import catalogue, reader
from flowloom.frames import Framed
from flowloom.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("id", "verdict", "stale", "paper", "measured", "band", "scale", "seeds", "date", "commit", "seconds")


@dataclasses.dataclass(frozen=True, repr=False)
class Ledger(Framed, Sequence[Entry]):
    """The claims of papers with their verdicts, in the order of their names. Its data frame is its `table`."""

    entries: list[Entry]

    def __getitem__(self, at: Any) -> Any:
        """Return an entry by its number, or by the name of the claim, such as `phost/7`.

        Raises:
            KeyError: There is no such claim.
            IndexError: There is no such number.
        """
        if not isinstance(at, str):
            return self.entries[at]
        found = next((entry for entry in self.entries if entry.id == at), None)
        if found is None:
            raise KeyError(at)
        return found

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @property
    def counts(self) -> dict[str, int]:
        """How many claims have each verdict, and how many are stale."""
        verdicts = [entry.verdict for entry in self.entries]
        found = {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}
        return found | {"stale": sum(entry.stale for entry in self.entries)}

    def __str__(self) -> str:
        """Return the counts as a text: `12 holds, 1 differs, 0 stale`."""
        return ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items())

    def __repr__(self) -> str:
        return f"<Ledger of {len(self)} claims: {self}>"

    def _repr_html_(self) -> str:
        from flowloom import display

        rows = [
            [entry.id, entry.verdict + (", stale" if entry.stale else ""), entry.paper, entry.measured, _cause(entry)]
            for entry in self.entries
        ]
        return display.page([Table(["claim", "verdict", "the paper says", "measured", "cause"], rows, title=repr(self)[1:-1])])

    def table(self) -> pa.Table:
        """Return a table with a row per claim."""
        import pyarrow as pa

        rows = [entry.content() for entry in self.entries]
        return pa.table({name: pa.array([row[name] for row in rows], _type(name)) for name in _COLUMNS})

    def _framed(self) -> pa.Table:
        return self.table()


def _type(name: str) -> str:
    return {"stale": "bool", "seeds": "int64", "seconds": "float64"}.get(name, "string")


def _cause(entry: Entry) -> str:
    return " ".join(entry.cause.cause.split()) if entry.cause else ""


def ledger(paper: str | None = None, scale: str | None = None) -> Ledger:
    """Return the verdict of each claim, as `flowloom claims` prints it.

    Whether an entry is stale follows from short runs, which take a minute or more the first time, and are remembered.

    Args:
        paper: Only the claims of this paper, such as `phost`.
        scale: Only entries of this scale; by default each figure's largest scale that was run.

    Raises:
        ScenarioError: There is no such paper or scale, or a figure or a ledger is damaged.
    """
    figures, errors = reader.read_all(catalogue.figures(paper))
    figures, damaged = ledger_.read_all(figures)
    if errors or damaged:
        raise ScenarioError("\n".join([*errors, *damaged]))
    if scale is not None:
        reader.check_scale(figures, scale)
    return Ledger(ledger_.entries(figures, scale))
