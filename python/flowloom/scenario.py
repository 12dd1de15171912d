"""A scenario on its way to the simulator: where it was read, what was overridden, and the key of its result."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from flowloom import _native, toml
from flowloom.words import shown

Progress: TypeAlias = Callable[[float, float, int], None]
"""`progress(done, sim_s, packet_hops)`: share done in 0..1, simulated seconds, packet-hops; raises to stop the run."""

Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Scenario"
"""What a scenario can be given as: a path, TOML text, a dict, or one already read."""

SIZE_MOST = 64_000_000
"""Bytes of the largest scenario file: what is longer is a mistake, and reading a device would never end."""

_SURROGATE = re.compile("[\ud800-\udfff]")

# Scenario keys that name a file, whose content is part of what the run depends on.
_FILE_KEYS = frozenset({"file", "cdf"})


@dataclasses.dataclass(frozen=True)
class Scenario:
    """TOML text with overrides; nothing is checked until it is resolved or run."""

    text: str
    path: str = ""
    """Where the text came from: for messages, and to find the files it names. Empty for text made in memory."""
    overrides: tuple[str, ...] = ()
    """`key.path=value`, later ones win."""

    def __post_init__(self) -> None:
        """Refuse what is not Unicode: the command line hands over other bytes as lone surrogates, which no TOML can hold."""
        for what in (self.path, *self.overrides, self.text):
            if not what.isascii() and _SURROGATE.search(what):
                raise _native.ScenarioError(f"{shown(what)}: this is not UTF-8 text")

    @classmethod
    def of(cls, source: Source) -> Scenario:
        """Make one of a path, a dict, TOML text (anything with a line break or a `=`), or another Scenario.

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
            with path.open("rb") as file:
                read = file.read(SIZE_MOST + 1)
            if len(read) > SIZE_MOST:
                raise _native.ScenarioError(f"{path} is not a scenario: it has more than {SIZE_MOST / 1e6:g} MB")
            return cls(read.decode(), str(path))
        except OSError as error:
            raise _native.ScenarioError(f"cannot read the scenario {shown(path, 200)}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise _native.ScenarioError(f"{path} is not a scenario: it is not UTF-8 text") from error
        except ValueError as error:  # a NUL in the name
            raise _native.ScenarioError(f"cannot read the scenario {shown(path, 200)}: {error}") from error

    def set(self, changes: Mapping[str, Any]) -> Scenario:
        """Add overrides; keys are dotted (`workload.load`) or joined with `__`. A dict replaces the whole table it names."""
        added = tuple(f"{key.replace('__', '.')}={_written(toml.value, value)}" for key, value in changes.items())
        return dataclasses.replace(self, overrides=self.overrides + added)

    def resolve(self, progress: Progress | None = None) -> str:
        """Give the scenario with every default filled in, as TOML; `progress` is called meanwhile, and may raise to stop.

        Raises:
            ScenarioError: It is not valid; the message is the paragraph to print.
        """
        return _native.check(self.text, self.path, list(self.overrides), progress)

    def key(self, progress: Progress | None = None) -> str:
        """Give the name of this scenario's result: a hash of all that it depends on.

        That is the resolved scenario, the content of the files it names, and the simulator itself.
        """
        return self.key_of(self.resolve(progress))

    def key_of(self, resolved: str) -> str:
        """Give `key` for what `resolve` gave before."""
        digest = hashlib.sha256(f"{engine_id()}\n{resolved}".encode())
        folder = Path(self.path).parent
        for name in sorted(named_files(tomllib.loads(resolved))):
            digest.update(f"\n{name}\n".encode())
            digest.update((folder / name).read_bytes())
        return digest.hexdigest()[:20]


def _written(write: Callable[[Any], str], value: Any) -> str:
    try:
        return write(value)
    except RecursionError:
        raise _native.ScenarioError("the scenario is nested too deeply, or holds itself") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise _native.ScenarioError(shown(error, 200)) from error


def named_files(table: Any) -> Iterator[str]:
    """Give the names of the files that a scenario's table refers to."""
    if isinstance(table, Mapping):
        for name, value in table.items():
            if name in _FILE_KEYS and isinstance(value, str):
                yield value
            else:
                yield from named_files(value)
    elif isinstance(table, list):
        for value in table:
            yield from named_files(value)


@functools.cache
def engine_id() -> str:
    """Give a hash of the simulator's machine code: a result is only ever reused for the code that made it."""
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()[:16]
