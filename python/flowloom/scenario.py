"""A scenario before it is run: its text, where it was read, its overrides, and the key of its result."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from flowloom import _native, storage, toml
from flowloom.words import is_text, shown

V = TypeVar("V")

Progress: TypeAlias = Callable[[float, float, int], None]
"""`progress(done, sim_s, packet_hops)`: share done (0 to 1), simulated seconds, packet-hops. It may raise to stop the run."""

Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Scenario"
"""The forms in which a scenario can be given: a path, TOML text, a dict, or a Scenario."""

SIZE_MAX = 64_000_000
"""The maximum size of a scenario file in bytes. A larger file is a mistake, and reading a device would never end."""

# Scenario keys whose value is the name of a file. The run depends on the file's content.
_FILE_KEYS = frozenset({"file", "cdf"})


@dataclasses.dataclass(frozen=True)
class Scenario:
    """TOML text with overrides. It is checked when it is resolved or run."""

    text: str
    path: str = ""
    """The file of the text, for messages and for the files that it refers to. Empty for text that is not from a file."""
    overrides: tuple[str, ...] = ()
    """`key.path=value`; a later override takes precedence."""

    def __post_init__(self) -> None:
        """Raise ScenarioError for text that is not Unicode."""
        for what in (self.path, *self.overrides, self.text):
            if not is_text(what):
                raise _native.ScenarioError(f"{shown(what)}: this is not UTF-8 text")

    @classmethod
    def of(cls, source: Source) -> Scenario:
        """Create a scenario from a path, a dict, TOML text (a string with a line break or `=`), or another Scenario.

        Raises:
            ScenarioError: The file cannot be read.
        """
        if isinstance(source, Scenario):
            return source
        if isinstance(source, Mapping):
            return cls(_written(toml.document, source))
        if isinstance(source, str) and ("\n" in source or "=" in source):
            return cls(source)
        path = Path(source)
        try:
            if storage.is_endless(path):
                raise _native.ScenarioError(f"cannot read the scenario {shown(path, 200)}: it is not a regular file")
            with path.open("rb") as file:
                read = file.read(SIZE_MAX + 1)
            if len(read) > SIZE_MAX:
                raise _native.ScenarioError(f"{shown(path, 200)} is not a scenario: it has more than {SIZE_MAX / 1e6:g} MB")
            return cls(read.decode(), str(path))
        except OSError as error:
            raise _native.ScenarioError(f"cannot read the scenario {shown(path, 200)}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise _native.ScenarioError(f"{shown(path, 200)} is not a scenario: it is not UTF-8 text") from error
        except ValueError as error:  # a NUL in the name
            raise _native.ScenarioError(f"cannot read the scenario {shown(path, 200)}: {error}") from error

    @property
    def title(self) -> str:
        """Its name in pictures: that of its file."""
        return Path(self.path).stem or "scenario"

    def set(self, changes: Mapping[str, Any]) -> Scenario:
        """Add overrides. Keys are as `dotted` takes them. A dict replaces a whole table."""
        added = tuple(f"{key}={_written(toml.value, value)}" for key, value in dotted(changes).items())
        return dataclasses.replace(self, overrides=self.overrides + added)

    def resolve(self) -> str:
        """Return the scenario with its defaults filled in, as TOML, but for what follows from the network: see `Plan.fitted`.

        Its keys, values and rules are checked, but not how they fit the network and the flows: see `plan`.

        Raises:
            ScenarioError: The scenario is not valid; the message can be printed as it is.
        """
        return _native.resolve(self.text, self.path, self.overrides)

    def plan(self, progress: Progress | None = None) -> Plan:
        """Return the scenario with its network, paths and flows, after a check of everything but the run itself.

        `progress` is called meanwhile, and may raise to stop.

        Raises:
            ScenarioError: The scenario is not valid; the message can be printed as it is.
        """
        return Plan(self, _native.plan(self.text, self.path, self.overrides, progress))

    def refusals(self, transports: Sequence[str]) -> dict[str, str]:
        """Return why transports cannot run the scenario: by name, those that cannot. One network and its flows serve for all.

        Raises:
            ScenarioError: No transport can, because of the network or the flows.
        """
        return _native.refusals(self.text, self.path, self.overrides, transports)

    def memories(self, variants: Sequence[Mapping[str, Any]]) -> list[tuple[int, str] | None]:
        """Return the memory of ports, and what it is for, of variants of this scenario that leave it open.

        Args:
            variants: The changes of each variant, as for `set`.

        Returns:
            By variant, the bytes and the reason; None for a variant that gives `fabric.buffer`, or that is wrong.
        """
        return _native.memories(self.text, self.path, [self.set(changes).overrides for changes in variants])

    def key(self) -> str:
        """Return the key of this scenario's result: a hash of everything that the result depends on.

        These are the resolved scenario without the tables of transports that do not run, the content of the files that it
        refers to, and the simulator.

        Raises:
            ScenarioError: The scenario is not valid, or a file that it refers to cannot be read.
        """
        return self.key_of(self.resolve())

    def key_of(self, resolved: str) -> str:
        """Return `key`, given the resolved scenario."""
        scenario = of_its_transport(tomllib.loads(resolved))
        digest = hashlib.sha256(f"{engine_id()}\n{json.dumps(scenario, sort_keys=True)}".encode())
        folder = Path(self.path).parent
        for name in sorted(named_files(scenario)):
            digest.update(f"\n{name}\n".encode())
            try:
                for part in storage.parts(folder / name):
                    digest.update(part)
            except OSError as error:
                self.plan()  # the simulator cannot read it either, and knows which key and line name it
                raise _native.ScenarioError(f"cannot read {shown(folder / name, 200)}: {error.strerror}") from error
        return digest.hexdigest()[:20]


class Plan:
    """A scenario with its network, paths and flows: what is to be known of it before it is run, and its run."""

    def __init__(self, scenario: Scenario, made: _native.Plan) -> None:
        """Keep what `Scenario.plan` has made."""
        self.scenario = scenario
        self.resolved = made.resolved
        """The scenario with a value for every key, as TOML."""
        self.misfits = made.misfits
        """A sentence for each value that does not suit the network or the flows."""
        self._made = made

    @functools.cached_property
    def key(self) -> str:
        """The key of the result: see `Scenario.key`."""
        return self.scenario.key()

    def fitted(self) -> dict[str, dict[str, Any]]:
        """Return what a run has where the scenario leaves it open: by key, its `value` and `why` it has it.

        These are the memory of ports, the routing, and parameters of the transport that follow from the network and the
        workload.
        """
        fitted: dict[str, dict[str, Any]] = json.loads(self._made.fitted())
        return fitted

    def data_queue_bounds(self) -> dict[str, Any] | None:
        """Return how many bytes of data can queue at a port where credits schedule all data; None if there is no such bound.

        `by_hop` has the largest bound of each kind of hop. Where the sizes of credits are random, `per_root_of_packets` times
        the square root of the number of packets that queue without a break comes on top. Data that waits for signals does not
        count.
        """
        bounds: dict[str, Any] | None = json.loads(self._made.data_queue_bounds())
        return bounds

    def deployment(self, *, for_datagrams: bool = False) -> str:
        """Return what the scenario means for switches and hosts, as JSON: see `flowloom.deploy.plan`.

        Args:
            for_datagrams: Whether ports are for the datagrams of `flowloom-node`: limits then go by their sizes.

        Raises:
            ScenarioError: The transport is a bound that no network can run.
        """
        return self._made.deployment(for_datagrams)

    def until(self, limit_ps: int) -> Plan:
        """Return the same plan with another time limit, in picoseconds. The network and the paths are shared."""
        return Plan(self.scenario, self._made.until(limit_ps))

    def flows(self) -> list[dict[str, Any]]:
        """Return the flows, for real hosts: see `flowloom.testbed.results.planned`.

        Raises:
            ScenarioError: Flows wait for others.
            ValueError: The plan was run before.
        """
        flows: list[dict[str, Any]] = json.loads(self._made.flows())
        return flows

    def judge(self, measured: str, progress: Progress | None = None) -> _native.Run:
        """Return the results of the flows on real hosts. The plan is used up.

        Args:
            measured: JSON, as `flowloom.testbed.results` makes it.
            progress: Is called while optima are measured in the simulator (`metrics.optimum = "solo"`).

        Raises:
            RunError: What was measured is not of these flows.
            ValueError: The plan was run before.
        """
        return self._made.judge(measured, progress)

    def run(self, progress: Progress | None = None, sink: _native.Sink | None = None, threads: int = 1) -> _native.Run:
        """Simulate the plan, which is used up.

        Args:
            progress: Is called with the share of flows that are done, the simulated time in seconds and the packet-hops.
            sink: Takes what the run records over its course.
            threads: How many threads the run is spread over, at most. Its results do not depend on it.

        Raises:
            RunError: The simulation failed.
            ValueError: The plan was run before.
        """
        try:
            return self._made.run(progress, sink, threads)
        except BaseException as error:
            # A panic of the simulator can be caught by this name only, and not be sent from one process to another.
            if type(error).__name__ != "PanicException":
                raise
            raise _native.RunError(f"an error in Flowloom itself, please report it: {error}") from None


def dotted(changes: Mapping[str, V]) -> dict[str, V]:
    """Return what is given for keys, by the keys as the simulator has them: dotted, where they may be joined with `__`.

    Raises:
        ScenarioError: A key is given twice, or before a table that replaces it.
    """
    found: dict[str, V] = {}
    for written, value in changes.items():
        key = written.strip().replace("__", ".")
        if key in found:
            raise _native.ScenarioError(f"{shown(key)} is given twice; give each key once")
        if lost := next((other for other in found if within(other, key)), None):
            whole = f"{shown(key)}, which comes after it, is the whole table"
            raise _native.ScenarioError(f"{shown(lost)} has no effect: {whole}; give {shown(key)} first")
        found[key] = value
    return found


def of_its_transport(table: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario without the parameters of transports that it does not run."""
    transports = table.get("transport", {})
    if not isinstance(transports, Mapping):
        return table
    name = transports.get("name")
    return table | {"transport": {k: v for k, v in transports.items() if k in ("name", name)}}


def within(key: str, table: str) -> bool:
    """Return whether a dotted key is `table` or lies in it."""
    return f"{key}.".startswith(f"{table}.")


_OVERRIDE = re.compile(r"--set ([\w.-]+)=", re.ASCII)


def overridden(message: str) -> tuple[str, str] | None:
    """Return the key that an error of the simulator reports as an option `--set`, and the message without the option.

    Code that sets keys which the user did not type as options rewords such errors. None if the error is about no override.
    """
    found = _OVERRIDE.match(message)
    if found is None:
        return None
    # The message repeats the key after the option.
    root = found[1].partition(".")[0]
    return found[1], root + message[found.end() :].partition(f": {root}")[2]


def _written(write: Callable[[Any], str], value: Any) -> str:
    try:
        return write(value)
    except RecursionError:
        raise _native.ScenarioError("the scenario is nested too deeply, or contains itself") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise _native.ScenarioError(shown(error, 200)) from error


def named_files(table: Any) -> Iterator[str]:
    """Return the names of the files that a scenario's table refers to."""
    if isinstance(table, Mapping):
        for name, value in table.items():
            if name in _FILE_KEYS and isinstance(value, str):
                yield value
            else:
                yield from named_files(value)
    elif isinstance(table, list):
        for value in table:
            yield from named_files(value)


def located(resolved: str) -> str:
    """Return a resolved scenario as a result keeps it. If it names files by relative paths, its head says where they are.

    The folder itself is left out: the same scenario gives the same bytes wherever it is.
    """
    names = sorted({name for name in named_files(tomllib.loads(resolved)) if not Path(name).is_absolute()})
    if not names:
        return resolved
    files = ", ".join(shown(name) for name in names)
    return (
        f"# The names of these files are relative to the folder of the scenario that was run: {files}.\n"
        f"# To run this again, copy it there, or them here.\n{resolved}"
    )


@functools.cache
def engine_id() -> str:
    """Return a hash of the simulator's machine code. A result is reused only with the code that computed it."""
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()[:16]
