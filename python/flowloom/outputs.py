"""Output directories: one process at a time writes to a directory, and its content is complete or marked as incomplete.

Each directory has a marker file with a key (which input it is the result of) and a manifest (which files were written). Only
files in the manifest are ever replaced or deleted. All others are foreign and stay.

Files are moved within the directory, which itself is never renamed. It may therefore be a mount point, the working directory
or the target of a symbolic link.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import itertools
import json
import os
import re
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
from flowloom.words import is_text

_OURS = ".flowloom"
"""The first characters of the names of the lock file and of folders of unfinished work."""
_LOCK = f"{_OURS}.lock"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_DESKTOP = frozenset({".DS_Store", "Thumbs.db"})
"""Files that desktop systems create in any directory."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of output directory."""

    about: str
    """Its content, for messages."""
    another: str
    """Its content if the key differs, for messages."""
    marker: str
    """The marker file, in JSON or TOML; it is written last."""
    names: tuple[str, ...]
    """Patterns of the other files that it may have."""
    inner: str | None = None
    """A folder in it whose entries are output directories themselves."""


RESULT = Kind(
    "the result of a run",
    "the result of another scenario or seed",
    "provenance.json",
    (
        "summary.json", "scenario.toml", "flows.parquet", "flows.csv", "series/*.parquet", "trace/*", "flows.png", "flows.svg",
        "series-*.png", "series-*.svg",
    ),
)  # fmt: skip
_PICTURES = ("*.png", "*.svg")
SWEEP = Kind(
    "a sweep", "another sweep", "sweep.toml", ("sweep.parquet", "sweep.csv", "beside-*.parquet", *_PICTURES), inner="runs"
)
FIGURE = Kind(
    "a figure",
    "another figure or scale, or other keys",
    "claims.json",
    ("data.parquet", "quantiles.parquet", "*.csv", "*.png", "*.svg"),
)
THRESHOLDS = Kind(
    "thresholds", "thresholds for other arguments", "manifest.json", ("thresholds.toml", "thresholds.json", "*.png", "*.svg")
)
IMPORT = Kind(
    "an imported scenario", "the import of other files", "import.json",
    ("scenario.toml", "network.toml", "flows.csv", "coflows.txt", "sizes.csv"),
)  # fmt: skip
DEPLOYMENT = Kind(
    "a deployment", "a deployment of another scenario or target", "deployment.json",
    ("*.sh", "*.config_db.json", "*.sources.txt", "*.eos", "summary.txt"),
)  # fmt: skip
_KINDS = (RESULT, SWEEP, FIGURE, THRESHOLDS, IMPORT, DEPLOYMENT)


def kinds_in(folder: Path) -> list[Kind]:
    """Return the kinds whose markers a directory has: one, as long as nobody else puts files into it."""
    return [kind for kind in _KINDS if os.path.lexists(folder / kind.marker)]


@contextlib.contextmanager
def claim(
    target: str | os.PathLike[str], kind: Kind, key: str | None = None, *, force: bool = False, stored: bool = False
) -> Iterator[Output]:
    """Check a directory, create it if it does not exist, and lock it until the block ends. Call this before a simulation.

    Args:
        target: The directory: a new one, an empty one, or one with an earlier result of the same input.
        kind: The kind of directory to write.
        key: Identifies the input and the build. If it is None, the caller compares the directory's content itself.
        force: Replace the result of another input. Foreign files stay even then.
        stored: The directory is in a folder of finished runs, and its name is its key. It may be replaced even if it is
            damaged. Processes that write it write the same content, so they wait for each other.

    Raises:
        ScenarioError: The directory cannot be written to, holds something else, or is locked by another process.
    """
    shown = Path(target)
    try:
        check_place(shown)
        output = Output(_reach(shown), shown, kind, key, force, stored)
        if not output.unfinished():
            output.check()
    except (OSError, ValueError) as error:
        raise _unwritable(shown, error) from error
    stack = contextlib.ExitStack()
    try:
        # Signals take effect only after the directory has been locked or released.
        with signals.held():
            output._take(stack)
        yield output
    finally:
        with signals.held():
            stack.close()


@dataclasses.dataclass(frozen=True)
class Output:
    """A directory that this process has locked; see `claim`."""

    path: Path
    """The directory, with links resolved."""
    shown: Path
    """The path that the user gave, for messages."""
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
            raise refusal(self.shown, f"it is in use: {error}", "wait, or give another directory") from None
        except OSError as error:
            raise _unwritable(self.shown, error) from error

    def check(self) -> None:
        """Raise ScenarioError if writing would replace a file that may not be replaced."""
        if self.stored or not self.path.exists():
            return
        for kind in kinds_in(self.path):
            if kind is not self.kind:
                why = f"it holds {kind.about}, not {self.kind.about}"
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
                way_out += ", or --force to keep these files and write beside them"
            raise refusal(self.shown, f"it holds something else ({some})", way_out)
        if ours and (difference := self._difference()):
            raise refusal(self.shown, difference, "give another directory, or --force to replace what was written there")

    def _difference(self) -> str | None:
        """Return why the content is not an earlier result of the same input; None if it is."""
        found = self.marker()
        if found is None or not isinstance(found.get("files"), list):
            return f"its {self.kind.marker} is damaged, or from an earlier version of Flowloom"
        if self.kind.inner or (self.key is not None and found.get("key") == self.key):
            return None
        if found.get("engine", engine_id()) != engine_id():
            return (
                f"it holds {self.kind.about} from another build of the simulator ({found.get('commit')}, {found.get('date')})"
            )
        return f"it holds {self.kind.another} ({found.get('command') or found.get('key')})"

    def marker(self) -> Mapping[str, Any] | None:
        """Return the marker's content, None if there is no readable marker."""
        return _read(self.path / self.kind.marker)

    def _ours(self) -> set[str]:
        """Return the names of the files in the directory that Flowloom wrote."""
        if not os.path.lexists(self.path / self.kind.marker) and not self.stored:
            return set()
        listed = (self.marker() or {}).get("files")
        if self.stored or not isinstance(listed, list):
            names = self._existing()
        else:
            # A manifest may come from elsewhere: it cannot make other files ours.
            names = {name for name in listed if isinstance(name, str) and self._may_hold(name)} | {self.kind.marker}
        return {name for name in names if not _is_folder(self.path / name)}

    def _may_hold(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, p) and name.count("/") == p.count("/") for p in self.kind.names)

    def _existing(self) -> set[str]:
        """Return what has the name of a file that we write, or is in the place of a folder that we need."""
        found = {str(path.relative_to(self.path)) for p in (*self.kind.names, self.kind.marker) for path in self.path.glob(p)}
        folders = {p.rpartition("/")[0] for p in self.kind.names if "/" in p}
        return found | {f for f in folders if os.path.lexists(self.path / f) and not _is_folder(self.path / f)}

    def _foreign(self, ours: set[str]) -> Iterator[str]:
        def skip(name: str) -> bool:
            return name.startswith(_OURS) or name in _DESKTOP or bool(ours and name == self.kind.inner)

        return (name for name in storage.files_below(self.path, skip) if name not in ours)

    def _check_clashes(self, names: Iterable[str], ours: set[str]) -> None:
        """Raise ScenarioError if a foreign file is in the place of one of these files, or of a folder above it."""
        for name in names:
            for place in (name, *map(str, Path(name).parents[:-1])):
                found = self.path / place
                # An existing folder can hold our files, and a file of ours may replace an empty folder.
                harmless = _is_folder(found) and (place != name or not any(found.iterdir()))
                if place not in ours and os.path.lexists(found) and not harmless:
                    why = f"{place} in it was not written by Flowloom and would be lost"
                    raise refusal(self.shown, why, "move it, or give another directory")

    @contextlib.contextmanager
    def replace(self, about: Mapping[str, Any]) -> Iterator[Path]:
        """Provide a new folder; when the block ends without an error, its files replace all that we wrote here before.

        After a full disk or an interrupt, the earlier files are unchanged. A process that is killed while it moves files
        leaves no marker; the next `claim` of the directory restores the earlier files.

        Args:
            about: The marker's content besides key and manifest.

        Raises:
            OSError: The disk is full or cannot be written to.
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
        # From here on the directory has no result, until the new marker is in place.
        for name in (marker, *sorted(ours - {marker})):
            _move(name, self.path, old)
        for name in names:
            _move(name, staging / "new", self.path)
        _sync_folders(self.path, names)
        _move(marker, staging / "new", self.path)
        storage.sync(self.path)

    def _restore(self, staging: Path) -> None:
        """Undo an exchange that was cut short."""
        old, new, marker = staging / "old", staging / "new", self.kind.marker
        manifest = (_read(new / marker) or {}).get("files")
        if not old.exists() or not isinstance(manifest, list):
            return  # the exchange had not begun, or it was complete: the marker is moved last
        for name in manifest:
            if not os.path.lexists(new / name):
                _move(name, self.path, new)
        returning = list(storage.files_below(old))
        for name in sorted(returning, key=lambda name: name == marker):
            _move(name, old, self.path)

    @contextlib.contextmanager
    def add(self) -> Iterator[Path]:
        """Provide a new folder; when the block ends without an error, its files are added. Call `mark` first.

        Raises:
            OSError: The disk is full or cannot be written to.
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
        """Write the marker alone. Its manifest has what we wrote here before, and `names`."""
        written = self._ours() - {self.kind.marker}
        with storage.whole_file(self.path / self.kind.marker) as fresh:
            _write(fresh, self._marked(about, sorted(written.union(names or ()))))

    def _marked(self, about: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
        key = {} if self.key is None else {"key": self.key}
        return {**about, **key, "files": names}

    @contextlib.contextmanager
    def _staging(self) -> Iterator[Path]:
        """Create a folder for unfinished work, with an empty folder `new` in it. `recover` undoes work that was cut short.

        Errors name the file by its place in the directory, or the directory itself.
        """
        staging = Path(tempfile.mkdtemp(prefix=f"{_OURS}-", dir=self.path))
        try:
            (staging / "new").mkdir()
            yield staging
        except OSError as error:
            name = Path(error.filename or self.path)
            for folder in (staging / "new", staging / "old", self.path):
                if name.is_relative_to(folder):
                    raise storage.at(error, self.shown / name.relative_to(folder)) from None
            raise
        shutil.rmtree(staging, ignore_errors=True)

    def _staged(self, staging: Path) -> list[str]:
        """Return the files in `new`. Raise ScenarioError if one of them, or the marker, would replace a foreign file."""
        names = list(storage.files_below(staging / "new"))
        self._check_clashes([*names, self.kind.marker], self._ours())
        return names

    def unfinished(self) -> list[Path]:
        """Return the folders of work that was cut short or is still in progress."""
        return [path for path in self.path.glob(f"{_OURS}-*") if path.is_dir()] if self.path.is_dir() else []

    def recover(self) -> None:
        """Undo work that was cut short in this process or in one that was killed."""
        for staging in self.unfinished():
            self._restore(staging)
            shutil.rmtree(staging, ignore_errors=True)


def check_file(target: Path, ours: str, mine: str, another: str, *, force: bool) -> None:
    """Raise ScenarioError unless a file is new, or Flowloom wrote it for the same input.

    Args:
        target: The file.
        ours: How each file of its kind begins that Flowloom has written.
        mine: How it begins if it is of the same input.
        another: What it is otherwise, for the message; `{}` stands for the rest of its first line.
        force: Replace a file of another input as well.
    """
    check_place(target)
    if not os.path.lexists(target):
        return
    if not target.exists():
        raise refusal(target, f"it is a link to {target.readlink()}, which does not exist", "give another file")
    if not target.is_file():
        raise refusal(target, "it is a directory" if target.is_dir() else "it is not a regular file", "give a file")
    try:
        with target.open(encoding="utf-8") as found:
            begin = found.read(1000)
    except (OSError, UnicodeDecodeError):
        begin = ""
    if not begin.startswith(ours):
        raise refusal(target, "it was not written by Flowloom, and would be lost", "give another file, or move it")
    if not begin.startswith(mine) and not force:
        rest = begin.removeprefix(ours).partition("\n")[0].strip()
        raise refusal(target, another.format(rest), "give another file, or --force")


def check_place(target: Path) -> None:
    """Raise ScenarioError if a path is an address such as `s3://bucket`, or its name is not text.

    Results name the files that they come from, and what writes them takes names as UTF-8.
    """
    # A folder may have such a name, too.
    if _ADDRESS.match(str(target)) and not Path(target.parts[0]).exists():
        raise refusal(target, "this is an address, and results go to this machine", "give a directory")
    if not is_text(whole := os.path.realpath(target)):
        raise refusal(Path(whole), "this is not UTF-8 text", "give another directory")


def refusal(target: Path, why: str, way_out: str) -> ScenarioError:
    """Return the error that explains why a place cannot be written to, and what to do."""
    return ScenarioError(f"cannot write to {target}: {why}; {way_out}")


def _unwritable(target: Path, error: OSError | ValueError) -> ScenarioError:
    why = str(error)
    if isinstance(error, OSError):
        at = f" ({error.filename})" if error.filename and Path(error.filename) != target else ""
        why = (error.strerror or why) + at
    return refusal(target, why, "give another directory")


def _reach(target: Path) -> Path:
    """Resolve links, and check that the path is a directory or can become one.

    Raises:
        ScenarioError: A file or a dangling link is in the way.
        OSError: The path cannot be read, or a link leads back to itself.
        ValueError: It is not a path.
    """
    for place in (target, *target.parents):
        if place.is_symlink() and not place.exists():
            why = f"{place} is a link to {place.readlink()}, which does not exist"
            raise refusal(target, why, "mend it, or give another directory")
        if place.exists():
            if not place.is_dir():
                it = "it" if place == target else place
                raise refusal(target, f"{it} is not a directory", "give a directory that is new or empty")
            break
    return Path(os.path.realpath(target, strict=target.exists()))


def _make_and_lock(path: Path, wait: bool, stack: contextlib.ExitStack) -> None:
    for tries_left in reversed(range(100)):
        # If nothing is written, the directories are removed again; a directory with files in it stays.
        for place in (*reversed(path.parents), path):
            if not place.exists():
                stack.callback(_remove_empty, place)
        try:
            path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(path / _LOCK, wait=wait))
            return
        except FileNotFoundError:  # another process has just removed one of them
            if not tries_left:
                raise


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
    # A file that is not yet in place has the suffix of its final name.
    if marker.suffix == ".toml":
        storage.write_text(marker, toml.document(value))
    else:
        storage.write_json(marker, value)


def _move(name: str, source: Path, target: Path) -> None:
    """Move a file, if it exists, and remove its folder if that is now empty."""
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
