"""The results of a run, in memory or in a directory: flows, summary, scenario, provenance."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowloom import columns, integrity, outputs, storage
from flowloom._native import ScenarioError
from flowloom.frames import Framed
from flowloom.outputs import Output
from flowloom.series import Series
from flowloom.traces import Trace

if TYPE_CHECKING:
    import pyarrow as pa

    from flowloom.diagnosis import Finding
    from flowloom.plots.picture import Picture

MARKER = outputs.RESULT.marker
"""The file that marks a directory as a results directory."""

MACHINE_KEYS = ("wall_s", "peak_rss_mb")
"""Keys of a summary that differ from run to run. They are saved apart from the reproducible ones, and not in JSON."""
_SHORT = ("slowdown.mean", "slowdown.p99")


@dataclasses.dataclass(repr=False)
class Results(Framed):
    """The results of a run. Tables of a saved run are read on first use. The data frame of a result has its flows."""

    summary: dict[str, Any]
    """The numbers that `flowloom run --json` prints, without the warnings, and MACHINE_KEYS."""
    scenario: str
    """The resolved scenario, as TOML."""
    provenance: dict[str, Any]
    directory: Path | None = None
    """The directory that it was loaded from or saved to."""
    _flows: pa.Table | None = None
    _series: Mapping[str, pa.Table] | None = None
    _trace: Trace | None = None

    @property
    def flows(self) -> pa.Table:
        """A row per flow: id, src, dst, bytes, start, finish, optimum, slowdown, and so on (docs/data-dictionary.md).

        Raises:
            ScenarioError: The run was saved without its flows, or the file is damaged.
        """
        if self._flows is None:
            path = self._saved("flows.parquet")
            if not path.exists():
                raise ScenarioError(f"{self.directory} was saved without its flows")
            self._flows = integrity.read_table(path)
        return self._flows

    @property
    def series(self) -> Mapping[str, pa.Table]:
        """What the run recorded over its course, by name: `pending`, and what [observe] asks for (docs/data-dictionary.md).

        A table is read when it is asked for, which raises ScenarioError if its file is damaged.
        """
        if self._series is None:
            self._series = Series(self._saved("series"))
        return self._series

    @property
    def trace(self) -> Mapping[str, bytes]:
        """The files of the packets that [trace] asks for, by name (docs/traces.md). A file is read when it is asked for."""
        if self._trace is None:
            self._trace = Trace(self._saved("trace") if self.directory else None)
        return self._trace

    @property
    def warnings(self) -> list[Finding]:
        """Reasons why the numbers may mislead: unfinished flows, a growing backlog, missing ECN marks, and so on.

        Each has a `flag`, the short name that tables show, and a `text`. The list is empty for a sound result.
        """
        from flowloom import diagnosis

        return diagnosis.warnings(self)

    def __repr__(self) -> str:
        from flowloom import metrics, tables
        from flowloom.transports import transport

        if not {"transport", "seed", "flows", "finished"} <= self.summary.keys():
            return f"<Results of a tool: {', '.join(self.summary)}>"
        slowdowns = (f"{metrics.label(m).lower()} {metrics.show(m, metrics.evaluate(m, self.summary))}" for m in _SHORT)
        warned = [f"warnings: {', '.join(found.flag for found in self.warnings)}"] if self.scenario and self.warnings else []
        name = f"{transport(self.summary['transport']).label}, seed {self.summary['seed']}"
        return f"<Results: {', '.join([name, tables.flows_finished([self]), *slowdowns, *warned])}>"

    def _repr_html_(self) -> str | None:
        from flowloom import display, tables

        if "transport" not in self.summary:
            return None
        notes = [f"warning: {found.flag}: {found.text}" for found in self.warnings]
        return display.page(tables.of_run(self), notes)

    @property
    def title(self) -> str:
        """The name of the scenario in pictures: that of its file. It is empty for a scenario that was not a file."""
        return str(self.provenance.get("scenario", ""))

    def plot(self, series: str | None = None) -> Picture:
        """Draw the flows as `flowloom run --plot` does, or a series that the run has recorded.

        Args:
            series: The name of a series; of samples, several with or without a column: `flows.window_bytes,queues.packets`.

        Raises:
            ScenarioError: There are no flows, or there is no such series or column.
        """
        from flowloom.plots import picture, pictures

        return picture.picture(lambda: pictures.of_series(self, series) if series else pictures.of_run(self))

    def _framed(self) -> pa.Table:
        return self.flows

    def as_json(self) -> dict[str, Any]:
        """Return the reproducible summary with its `warnings`, as `flowloom run --json` prints it."""
        return self._reproducible() | {"warnings": [{"flag": found.flag, "text": found.text} for found in self.warnings]}

    def _reproducible(self) -> dict[str, Any]:
        return {key: value for key, value in self.summary.items() if key not in MACHINE_KEYS}

    def _saved(self, name: str) -> Path:
        if self.directory is None:
            raise ScenarioError(f"this result has no {name}: it was neither simulated here nor loaded from a directory")
        return self.directory / name

    def save(self, directory: str | os.PathLike[str], *, flows: bool = True, csv: bool = False, force: bool = False) -> Path:
        """Write a results directory; after an error, nothing has changed.

        Args:
            directory: Is created if it does not exist. An earlier result of the same scenario and build is replaced.
            flows: Write `flows.parquet`, about 40 bytes per flow.
            csv: Write `flows.csv` as well.
            force: Also replace the result of another scenario or build. Files that Flowloom did not write stay.

        Raises:
            ScenarioError: The directory holds something else, or another process writes to it.
            OSError: The disk is full or cannot be written to.
        """
        with outputs.claim(directory, outputs.RESULT, self.provenance.get("key"), force=force) as output:
            return self.write(output, flows=flows, csv=csv)

    def write(self, output: Output, *, flows: bool = True, csv: bool = False) -> Path:
        """Save into a directory that `outputs.claim` has locked; see `save`."""
        with output.replace(self.provenance) as folder:
            storage.write_json(folder / "summary.json", self._reproducible())
            storage.write_text(folder / "scenario.toml", self.scenario)
            if flows:
                columns.write(self.flows, folder / "flows.parquet")
                if csv:
                    columns.write_csv(self.flows, folder / "flows.csv")
            if isinstance(self.series, Series):
                self.series.save(folder / "series")
            if isinstance(self.trace, Trace):
                self.trace.save(folder / "trace")
        self.directory = output.shown
        return output.shown

    def without_flows(self) -> Results:
        """Return a copy without flows in memory, so that thousands of runs fit."""
        return dataclasses.replace(self, _flows=None)


def load(directory: str | os.PathLike[str], *, whole: bool = False) -> Results:
    """Read the result of a simulation.

    Args:
        directory: The results directory.
        whole: Read all tables now, which finds all damage. By default only the end of each file is read now, and the rest
            on first use.

    Raises:
        ScenarioError: There is no result, or one of its files is missing or damaged.
    """
    found = read(Path(directory), whole=whole)
    if not _simulated(found):
        raise ScenarioError(f"{directory} holds the result of a tool, not of a simulation")
    return found


def read(folder: Path, *, whole: bool = False) -> Results:
    """Read the result of a simulation, or of a tool that a figure uses; see `load`."""
    if not folder.is_dir():
        raise ScenarioError(f"{folder} is not a results directory: it {'is a file' if folder.exists() else 'does not exist'}")
    if outputs.RESULT not in (kinds := outputs.kinds_in(folder)):
        if not kinds:
            raise ScenarioError(f"{folder} is not a results directory: it has no {MARKER}")
        runs = f"; `flowloom explain {folder}` lists its runs" if kinds[0] in (outputs.SWEEP, outputs.FIGURE) else ""
        raise ScenarioError(f"{folder} holds {kinds[0].about}, not the result of a run{runs}")
    provenance = integrity.read_json(folder / MARKER)
    integrity.check_provenance(folder / MARKER, provenance)
    # The manifest belongs to the directory, not to the result.
    manifest = integrity.manifest(folder / MARKER, provenance.pop("files", []))
    summary = integrity.read_json(folder / "summary.json")
    scenario = integrity.read_text(folder / "scenario.toml")
    machine = {k: provenance[k] for k in MACHINE_KEYS if k in provenance}
    found = Results(summary | machine, scenario, provenance, directory=folder)
    if _simulated(found):
        integrity.check_scenario(folder / "scenario.toml", scenario)
        integrity.check_summary(folder / "summary.json", summary)
        if "flows.parquet" in manifest or (folder / "flows.parquet").exists():
            integrity.check_flows(folder / "flows.parquet", summary["flows"])
    for name in manifest:
        if name.startswith("series/"):
            integrity.check_table(folder / name)
        if name.startswith("trace/"):
            integrity.check_exists(folder / name)
    if whole:
        for name in found.series:
            found.series[name]
        found._flows = found.flows if (folder / "flows.parquet").exists() else None
    return found


def _simulated(result: Results) -> bool:
    # The result of a tool has no seed.
    return result.provenance.get("seed") is not None


def seed_of(scenario: Mapping[str, Any]) -> int | None:
    """Return the seed of a resolved scenario."""
    seed = scenario.get("run", {}).get("seed")
    return seed if isinstance(seed, int) else None
