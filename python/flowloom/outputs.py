"""Directories of results: one process at a time writes to one, and each is whole or says that it is not.

A directory that is written here has a marker, a file that holds its key (what it is the result of) and its manifest (which
files were written). Only what the manifest lists is ever replaced or deleted; every other file is foreign and stays.

Files change places inside the directory, which itself is never renamed. A mount point, the working directory or the end of a
symbolic link is therefore as good as any other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import itertools
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flowloom import signals, storage, toml
from flowloom._native import ScenarioError
from flowloom.locks import HeldError, locked
from flowloom.scenario import engine_id

_OURS = ".flowloom"
"""What the names of the lock and of unfinished work begin with."""
_LOCK = f"{_OURS}.lock"
_DESKTOP = frozenset({".DS_Store", "Thumbs.db"})
"""Files that desktops leave everywhere."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of directory that is written here."""

    about: str
    """What it holds, for messages."""
    another: str
    """What it holds if its key is another."""
    marker: str
    """The file whose presence says that a directory is one, in JSON or TOML; it is written last."""
    names: tuple[str, ...]
    """Patterns of the other files that it may hold."""
    inner: str | None = None
    """A folder of results, each of which is a directory of its own."""


RESULT = Kind(
    "the result of a run",
    "the result of another scenario or seed",
    "provenance.json",
    ("summary.json", "scenario.toml", "flows.parquet", "flows.csv", "series/*.parquet"),
)
SWEEP = Kind("a sweep", "another sweep", "sweep.toml", ("sweep.parquet", "sweep.csv", "*.png", "*.svg"), inner="runs")
FIGURE = Kind("a figure", "another figure or scale", "claims.json", ("data.parquet", "*.csv", "*.png", "*.svg"))
THRESHOLDS = Kind(
    "thresholds", "the answer to another question", "manifest.json", ("thresholds.toml", "thresholds.json", "*.png", "*.svg")
)
_KINDS = (RESULT, SWEEP, FIGURE, THRESHOLDS)


@contextlib.contextmanager
def claim(
    target: str | os.PathLike[str], kind: Kind, key: str | None = None, *, force: bool = False, stored: bool = False
) -> Iterator[Output]:
    """Test a directory, make it if need be, and hold it until the block ends. Do so before a long simulation.

    Args:
        target: The directory: new, empty, or one that holds the same as is to be written.
        kind: What it is to hold.
        key: Names what it is the result of, build included. For None the caller compares what is there.
        force: Replace what was written here as the result of something else. Foreign files stay even then.
        stored: The directory lies in a folder of finished runs, under its key. It is ours even if it is damaged, and
            processes that write it write the same, so that one waits for the other.

    Raises:
        ScenarioError: It cannot be written to, holds something else, or another process writes to it.
    """
    shown = Path(target)
    try:
        output = Output(_reach(shown), shown, kind, key, force, stored)
        if not output.unfinished():
            output.check()
    except (OSError, ValueError) as error:
        raise _unwritable(shown, error) from error
    stack = contextlib.ExitStack()
    try:
        # A signal that comes while the directory is taken, or given back, is heard afterwards.
        with signals.held():
            output._take(stack)
        yield output
    finally:
        with signals.held():
            stack.close()


@dataclasses.dataclass(frozen=True)
class Output:
    """A directory that this process holds; see `claim`."""

    path: Path
    """Where it really is."""
    shown: Path
    """As it was given, for messages."""
    kind: Kind
    key: str | None
    force: bool
    stored: bool

    def _take(self, stack: contextlib.ExitStack) -> None:
        try:
            _make_and_lock(self.path, self.stored, stack)
            stack.callback(self.recover)
            self.recover()
            self.check()
        except HeldError as error:
            raise refusal(self.shown, f"another run writes to it: {error}", "wait, or give another directory") from None
        except OSError as error:
            raise _unwritable(self.shown, error) from error

    def check(self) -> None:
        """Raise ScenarioError unless all that writing would replace may be replaced."""
        if self.stored or not self.path.exists():
            return
        for kind in _KINDS:
            if kind is not self.kind and os.path.lexists(self.path / kind.marker):
                why = f"it holds {kind.about}, and {self.kind.about} is to be written"
                raise refusal(self.shown, why, "give another directory")
        ours = self._ours()
        if self.force:
            self._check_clashes(self._existing(), ours)
            return
        foreign = list(itertools.islice(self._foreign(ours), 4))
        if foreign:
            some = ", ".join(foreign[:3]) + (", ..." if len(foreign) > 3 else "")
            way_out = "give a directory that is new or empty"
            if ours:
                way_out += ", or --force to write beside it"
            raise refusal(self.shown, f"it holds something else ({some})", way_out)
        if ours and (difference := self._difference()):
            raise refusal(self.shown, difference, "give another directory, or --force to replace what was written there")

    def _difference(self) -> str | None:
        """Say why what is there is not what is to be written again; None if it is."""
        found = self.marker()
        if found is None or not isinstance(found.get("files"), list):
            return f"its {self.kind.marker} is damaged, or of an earlier version"
        if self.kind.inner or (self.key is not None and found.get("key") == self.key):
            return None
        if found.get("engine", engine_id()) != engine_id():
            return f"it holds {self.kind.about} by another build of the simulator ({found.get('commit')}, {found.get('date')})"
        return f"it holds {self.kind.another} ({found.get('command') or found.get('key')})"

    def marker(self) -> Mapping[str, Any] | None:
        """Give what the marker says, None if there is none that can be read."""
        return _read(self.path / self.kind.marker)

    def _ours(self) -> set[str]:
        """Give the names of the files here that we wrote."""
        if not os.path.lexists(self.path / self.kind.marker) and not self.stored:
            return set()
        listed = (self.marker() or {}).get("files")
        if self.stored or not isinstance(listed, list):
            names = self._existing()
        else:
            # Never what such a directory cannot hold, whatever a manifest from elsewhere says.
            names = {name for name in listed if isinstance(name, str) and self._may_hold(name)} | {self.kind.marker}
        return {name for name in names if not _is_folder(self.path / name)}

    def _may_hold(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, p) and name.count("/") == p.count("/") for p in self.kind.names)

    def _existing(self) -> set[str]:
        """Give what is here by the names of what we write, or in the place of a folder that we need."""
        found = {str(path.relative_to(self.path)) for p in (*self.kind.names, self.kind.marker) for path in self.path.glob(p)}
        folders = {p.rpartition("/")[0] for p in self.kind.names if "/" in p}
        return found | {f for f in folders if os.path.lexists(self.path / f) and not _is_folder(self.path / f)}

    def _foreign(self, ours: set[str]) -> Iterator[str]:
        def skip(name: str) -> bool:
            return name.startswith(_OURS) or name in _DESKTOP or bool(ours and name == self.kind.inner)

        return (name for name in storage.files_below(self.path, skip) if name not in ours)

    def _check_clashes(self, names: Iterable[str], ours: set[str]) -> None:
        """Raise ScenarioError if something that is not ours is in the place of one of these, or of a folder it is in."""
        for name in names:
            for place in (name, *map(str, Path(name).parents[:-1])):
                found = self.path / place
                # A folder of ours goes into a folder that is there, and a file of ours takes the place of an empty one.
                harmless = _is_folder(found) and (place != name or not any(found.iterdir()))
                if place not in ours and os.path.lexists(found) and not harmless:
                    why = f"{place} in it was not written by Flowloom, and would be lost"
                    raise refusal(self.shown, why, "move it, or give another directory")

    @contextlib.contextmanager
    def replace(self, about: Mapping[str, Any]) -> Iterator[Path]:
        """Lend a new folder; when the block ends well, what is in it takes the place of all that we wrote here before.

        A full disk or an interrupt leaves what was there. A process that is killed while files change places leaves no marker,
        and what was there before returns as soon as the directory is claimed again.

        Args:
            about: What the marker says besides key and manifest.

        Raises:
            OSError: The disk is full, or not ours to write.
        """
        with self._staging() as staging:
            yield staging / "new"
            names = self._staged(staging)
            _write(staging / "new" / self.kind.marker, self._marked(about, names))
            _sync(staging / "new", [*names, self.kind.marker])
            with signals.held():
                self._exchange(staging, names)

    def _exchange(self, staging: Path, names: list[str]) -> None:
        old, marker = staging / "old", self.kind.marker
        ours = self._ours()
        old.mkdir()
        storage.sync(staging)
        # From here on there is no result, until the new marker says so.
        for name in (marker, *sorted(ours - {marker})):
            _move(name, self.path, old)
        for name in names:
            _move(name, staging / "new", self.path)
        _sync_folders(self.path, names)
        _move(marker, staging / "new", self.path)
        storage.sync(self.path)

    def _restore(self, staging: Path) -> None:
        """Undo an exchange that did not come to its end."""
        old, new, marker = staging / "old", staging / "new", self.kind.marker
        manifest = (_read(new / marker) or {}).get("files")
        if not old.exists() or not isinstance(manifest, list):
            return  # it had not begun, or it was done: the marker is the last to move
        for name in manifest:
            if not os.path.lexists(new / name):
                _move(name, self.path, new)
        returning = list(storage.files_below(old))
        for name in sorted(returning, key=lambda name: name == marker):
            _move(name, old, self.path)

    @contextlib.contextmanager
    def add(self) -> Iterator[Path]:
        """Lend a new folder; when the block ends well, what is in it joins what is here. Needs `mark` before.

        Raises:
            OSError: The disk is full, or not ours to write.
        """
        with self._staging() as staging:
            yield staging / "new"
            names = self._staged(staging)
            _sync(staging / "new", names)
            with signals.held():
                self.mark(self.marker() or {}, names)
                for name in names:
                    _move(name, staging / "new", self.path)
                _sync_folders(self.path, names)

    def mark(self, about: Mapping[str, Any], names: list[str] | None = None) -> None:
        """Write the marker alone; what we wrote here before, and `names`, are its manifest."""
        written = self._ours() - {self.kind.marker}
        with storage.whole_file(self.path / self.kind.marker) as fresh:
            _write(fresh, self._marked(about, sorted(written.union(names or ()))))

    def _marked(self, about: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
        key = {} if self.key is None else {"key": self.key}
        return {**about, **key, "files": names}

    @contextlib.contextmanager
    def _staging(self) -> Iterator[Path]:
        """Make a folder for unfinished work, with an empty folder `new` in it. `recover` undoes work that is cut short."""
        staging = Path(tempfile.mkdtemp(prefix=f"{_OURS}-", dir=self.path))
        (staging / "new").mkdir()
        yield staging
        shutil.rmtree(staging, ignore_errors=True)

    def _staged(self, staging: Path) -> list[str]:
        """Give the files in `new`; raise ScenarioError if one of them, or the marker, would replace a foreign file."""
        names = list(storage.files_below(staging / "new"))
        self._check_clashes([*names, self.kind.marker], self._ours())
        return names

    def unfinished(self) -> list[Path]:
        """Give the folders of work that was killed before its end, or is still going on."""
        return [path for path in self.path.glob(f"{_OURS}-*") if path.is_dir()] if self.path.is_dir() else []

    def recover(self) -> None:
        """Undo work that did not come to its end, of this process or of one that was killed, and clean up after it."""
        for staging in self.unfinished():
            self._restore(staging)
            shutil.rmtree(staging, ignore_errors=True)


def refusal(target: Path, why: str, way_out: str) -> ScenarioError:
    """Make the error that says why nothing can be written somewhere, and what to do."""
    return ScenarioError(f"cannot write to {target}: {why}; {way_out}")


def _unwritable(target: Path, error: OSError | ValueError) -> ScenarioError:
    why = str(error)
    if isinstance(error, OSError):
        at = f" ({error.filename})" if error.filename and Path(error.filename) != target else ""
        why = (error.strerror or why) + at
    return refusal(target, why, "give another directory")


def _reach(target: Path) -> Path:
    """Follow links, and find whether a directory is or can be made there.

    Raises:
        ScenarioError: A file or a dangling link is in the way.
        OSError: It cannot be looked at, or a link leads back to itself.
        ValueError: It is no path.
    """
    for place in (target, *target.parents):
        if place.is_symlink() and not place.exists():
            why = f"{place} is a link to {place.readlink()}, which does not exist"
            raise refusal(target, why, "mend it, or give another directory")
        if place.exists():
            if not place.is_dir():
                it = "it" if place == target else place
                raise refusal(target, f"{it} is a file", "give a directory that is new or empty")
            break
    return Path(os.path.realpath(target, strict=target.exists()))


def _make_and_lock(path: Path, wait: bool, stack: contextlib.ExitStack) -> None:
    for _ in range(100):
        if not path.exists():
            path.mkdir(parents=True, exist_ok=True)
            # If nothing is written to it, it goes again; what has files in it cannot be removed this way.
            stack.callback(_remove_empty, path)
        with contextlib.suppress(FileNotFoundError):  # another process has just done that
            stack.enter_context(locked(path / _LOCK, wait=wait))
            return
    raise HeldError("others make and remove it again and again")


def _remove_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir()


def _read(marker: Path) -> Mapping[str, Any] | None:
    try:
        text = marker.read_text(encoding="utf-8")
        found = tomllib.loads(text) if marker.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, Mapping) else None


def _write(marker: Path, value: Mapping[str, Any]) -> None:
    # The suffix of a file that is not yet in place is that of the file.
    if marker.suffix == ".toml":
        marker.write_text(toml.document(value), encoding="utf-8")
    else:
        storage.write_json(marker, value)


def _move(name: str, source: Path, target: Path) -> None:
    """Move a file, if it is there, and remove the folder it was the last in."""
    if not os.path.lexists(source / name):
        return
    (target / name).parent.mkdir(parents=True, exist_ok=True)
    if _is_folder(target / name):
        _remove_empty(target / name)
    (source / name).replace(target / name)
    if (parent := (source / name).parent) != source:
        _remove_empty(parent)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _sync(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        storage.sync(folder / name)
    _sync_folders(folder, names)


def _sync_folders(folder: Path, names: Iterable[str]) -> None:
    for parent in {folder, *((folder / name).parent for name in names)}:
        storage.sync(parent)
