"""A figure's numbers from the files that `flowloom paper run` has written, without its runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from flowloom import integrity, outputs
from flowloom._native import ScenarioError
from flowloom.claims.entries import About, OfClaim
from flowloom.distributions import Distribution, Quantity
from flowloom.figures import catalogue, reader
from flowloom.figures.grid import TRIAL_SEED, Grid
from flowloom.figures.schema import Figure
from flowloom.models import problem

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_CLAIMS = TypeAdapter(dict[str, OfClaim])


class Saved(NamedTuple):
    """The directory of a figure."""

    directory: Path
    name: str
    """Its name, such as `phost/fig3`."""
    scale: str
    changes: dict[str, str]
    """The scenario keys that were set for this run of the figure, with their values as TOML."""
    about: About
    claims: dict[str, OfClaim]
    data: pa.Table
    """A row per run; see `Grid.rows`."""
    figure: Figure | None
    """What the figure's file says today; None if there is no such file."""

    def warnings(self) -> list[str]:
        """Return the flags of warnings, each with the number of runs that have it."""
        rows = self.data.to_pylist()
        counts: dict[str, int] = {}
        for flag in (flag for row in rows if row.get("warnings") for flag in row["warnings"].split(", ")):
            counts[flag] = counts.get(flag, 0) + 1
        return [f"{flag}: {count} of {len(rows)} runs" for flag, count in counts.items()]


def load(directory: Path) -> Saved:
    """Read the directory of a figure.

    Raises:
        ScenarioError: The directory has no figure, or a file is damaged.
    """
    path = directory / outputs.FIGURE.marker
    if not path.exists():
        raise ScenarioError(f"{directory} is not the directory of a figure: it has no {path.name}")
    found = integrity.read_json(path)
    name, scale = found.get("figure"), found.get("scale")
    if not isinstance(name, str) or not isinstance(scale, str):
        raise integrity.damaged(path, "it does not name the figure and its scale")
    given = {key: found[key] for key in About.model_fields if key in found}
    about = _valid(path, About.model_validate, given)
    claims = _valid(path, _CLAIMS.validate_python, found.get("claims", {}))
    changes = found.get("set", {})
    if not isinstance(changes, Mapping):
        raise integrity.damaged(path, "set is not a table")
    data = integrity.read_table(directory / "data.parquet")
    said = {str(key): str(value) for key, value in changes.items()}
    return Saved(directory, name, scale, said, about, claims, data, _figure(name))


def _valid(path: Path, validate: Callable[[Any], T], value: Any) -> T:
    try:
        return validate(value)
    except ValidationError as error:
        wrong = problem(error, value, "the file")
        place = ".".join(map(str, wrong.place))
        raise integrity.damaged(path, f"{place}: {wrong.message}" if place else wrong.message) from None


def _figure(name: str) -> Figure | None:
    try:
        return reader.read(catalogue.figure_path(name)) if not name.endswith(".toml") else None
    except ScenarioError:
        return None


class SavedGrid(Grid):
    """The numbers of a figure, from its directory. A point or a metric that the files do not have is a ScenarioError."""

    def __init__(self, figure: Figure, directory: Path, data: pa.Table) -> None:
        """Use a figure and its data."""
        super().__init__(figure, [], {})
        self._directory = directory
        self._rows = [row for row in data.to_pylist() if row["seed"] != TRIAL_SEED and row.get("shown", True)]

    def samples(self, metric: str, point: Mapping[str, Any]) -> list[float]:
        """Return a metric for each seed, in the order of seeds."""
        rows = sorted(self._find(self._rows, point, "data.parquet"), key=lambda row: row["seed"])
        if metric not in rows[0]:
            raise self._changed(f"data.parquet has no column {metric}")
        return [float("nan") if row[metric] is None else float(row[metric]) for row in rows]

    def distribution(self, quantity: Quantity, point: Mapping[str, Any]) -> Distribution:
        """Return the distribution of a quantity over the flows of all seeds."""
        import numpy as np

        rows = [
            row
            for row in self._find(self._read("quantiles.parquet"), point, "quantiles.parquet")
            if (row["quantity"], row["sizes"]) == (quantity.expression, quantity.range)
        ]
        if not rows:
            raise self._changed(f"quantiles.parquet has no {quantity}")
        rows.sort(key=lambda row: row["share"])
        return Distribution(rows[0]["flows"], np.array([row["value"] for row in rows], dtype=float))

    def recorded(self, series: str, columns: Sequence[str], point: Mapping[str, Any]) -> list[list[tuple[Any, ...]]]:
        """Return columns of a recorded series for each seed, row by row."""
        seeds: dict[int, list[tuple[Any, ...]]] = {}
        for row in self._find(self._read(f"{series}.csv"), point, f"{series}.csv"):
            if not row.keys() >= {*columns}:
                raise self._changed(f"{series}.csv has no columns {' and '.join(columns)}")
            seeds.setdefault(row["seed"], []).append(tuple(row[column] for column in columns))
        return list(seeds.values())

    def _find(self, rows: Sequence[Mapping[str, Any]], point: Mapping[str, Any], file: str) -> list[Mapping[str, Any]]:
        wanted = self._cells(point)
        found = [row for row in rows if all(name in row and _same(row[name], value) for name, value in wanted.items())]
        if not found:
            raise self._changed(f"{file} has no run of {self.name(point) or 'the figure'}")
        return found

    def _changed(self, what: str) -> ScenarioError:
        return ScenarioError(
            f"{self._directory}: {what}; the file of {self.figure.name} has changed since it was run: run it again"
        )

    @functools.cache  # noqa: B019, a grid lives as long as its page is made
    def _read(self, name: str) -> list[dict[str, Any]]:
        path = self._directory / name
        if path.suffix == ".parquet":
            rows: list[dict[str, Any]] = integrity.read_table(path).to_pylist()
            return rows
        import pyarrow as pa
        from pyarrow import csv

        texts = {a.name: pa.string() for a in self.figure.axes if any(isinstance(v, str) for v in self._texts(a.name))}
        try:
            with path.open("rb") as file:  # the library would take a relative path such as `a:b` for an address
                table = csv.read_csv(file, convert_options=csv.ConvertOptions(column_types=texts))
        except FileNotFoundError:
            raise integrity.damaged(path, "it is missing") from None
        except (OSError, ValueError) as error:
            raise integrity.damaged(path, f"it is not CSV ({error})") from None
        return list(table.to_pylist())

    def _texts(self, axis: str) -> list[Any]:
        """Return an axis's values as the columns of a table have them."""
        return [self._cells({axis: value})[axis] for value in self.values_of(axis)]


def _same(found: Any, wanted: Any) -> bool:
    """Return whether a cell has a value; numbers of a column may have become floats."""
    return bool(found == wanted) and isinstance(found, bool) == isinstance(wanted, bool)
