"""One run's results: flows, summary, scenario, provenance; in memory or in a directory."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom import columns, storage
from flowloom._native import ScenarioError

if TYPE_CHECKING:
    import pyarrow as pa

    from flowloom.diagnosis import Finding

MARKER = "provenance.json"
"""The file whose presence says that a directory is a results directory."""

# Differ from run to run, so they are kept apart from what is reproducible.
_OF_THE_MACHINE = ("wall_s", "peak_rss_mb")


@dataclasses.dataclass
class Results:
    """What a run leaves behind. Tables of a saved run are read on first use."""

    summary: dict[str, Any]
    """The numbers that `flowloom run --json` prints, without the warnings."""
    scenario: str
    """The resolved scenario, as TOML."""
    provenance: dict[str, Any]
    directory: Path | None = None
    """Where it was loaded from or saved to."""
    _flows: pa.Table | None = None
    _series: dict[str, pa.Table] | None = None

    @property
    def flows(self) -> pa.Table:
        """A row per flow: id, src, dst, bytes, start, finish, optimum, slowdown, and so on (docs/data-dictionary.md).

        Raises:
            ScenarioError: The run was saved without its flows.
        """
        if self._flows is None:
            import pyarrow.parquet as pq

            path = self._saved("flows.parquet")
            if not path.exists():
                raise ScenarioError(f"{self.directory} was saved without its flows")
            self._flows = pq.read_table(path)
        return self._flows

    @property
    def series(self) -> dict[str, pa.Table]:
        """Values over the course of the run, by name: `pending` and whatever else the run recorded."""
        if self._series is None:
            import pyarrow.parquet as pq

            folder = self._saved("series")
            self._series = {path.stem: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}
        return self._series

    @property
    def warnings(self) -> list[Finding]:
        """What keeps the numbers from meaning what they seem to: unfinished flows, a growing backlog, marks that never came.

        Each has a `flag`, the short name that tables show, and a `text`; none is good news.
        """
        from flowloom import diagnosis

        return diagnosis.warnings(self)

    def as_json(self) -> dict[str, Any]:
        """Give the summary with its `warnings`, as `flowloom run --json` prints it."""
        return self.summary | {"warnings": [{"flag": found.flag, "text": found.text} for found in self.warnings]}

    def _saved(self, name: str) -> Path:
        if self.directory is None:
            raise ScenarioError(f"this result has no {name}: it was neither simulated here nor loaded from a directory")
        return self.directory / name

    def save(self, directory: str | os.PathLike[str], *, flows: bool = True, csv: bool = False, replace: bool = True) -> Path:
        """Write a results directory; it appears whole or not at all.

        Args:
            directory: Is created; one that holds an earlier result is replaced, anything else is refused.
            flows: Write `flows.parquet`, about 40 bytes for each flow.
            csv: Write `flows.csv` as well.
            replace: Set to False to refuse even an earlier result.

        Raises:
            ScenarioError: The directory holds something else.
            OSError: The disk is full, or not ours to write.
        """
        target = Path(directory)
        if not replace and target.exists() and any(target.iterdir()):
            raise ScenarioError(f"{target} already holds a result")
        with storage.whole_directory(target, marker=MARKER) as folder:
            reproducible = {k: v for k, v in self.summary.items() if k not in _OF_THE_MACHINE}
            storage.write_json(folder / "summary.json", reproducible)
            (folder / "scenario.toml").write_text(self.scenario, encoding="utf-8")
            if flows:
                columns.write(self.flows, folder / "flows.parquet")
                if csv:
                    columns.write_csv(self.flows, folder / "flows.csv")
            if self.series:
                (folder / "series").mkdir()
                for name, table in self.series.items():
                    columns.write(table, folder / "series" / f"{name}.parquet")
            # Last, because it is what says that this is a result.
            storage.write_json(folder / MARKER, self.provenance)
        self.directory = target
        return target

    def without_flows(self) -> Results:
        """Give a copy that forgets its flows, to keep thousands of runs in memory."""
        return dataclasses.replace(self, _flows=None)


def load(directory: str | os.PathLike[str]) -> Results:
    """Read a results directory.

    Raises:
        ScenarioError: There is no result, or only a part of one.
    """
    folder = Path(directory)
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        scenario = (folder / "scenario.toml").read_text(encoding="utf-8")
        provenance = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{folder} is not a results directory: {_reason(error)}") from error
    machine = {k: provenance[k] for k in _OF_THE_MACHINE if k in provenance}
    return Results(summary | machine, scenario, provenance, directory=folder)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"{Path(error.filename or '').name}: {error.strerror}"
    return f"a file in it is damaged ({error})"


def seed_of(scenario: Mapping[str, Any]) -> int | None:
    """Give the seed of a resolved scenario."""
    seed = scenario.get("run", {}).get("seed")
    return seed if isinstance(seed, int) else None
