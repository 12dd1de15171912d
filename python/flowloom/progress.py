"""Progress reports on stderr: bars on a terminal, and a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Protocol, Self

from flowloom.metrics import significant
from flowloom.words import printable, shown

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Reporter(Protocol):
    """Receives the progress of runs. All methods may be called from any thread."""

    def prepare(self, text: str) -> None:
        """Note why nothing runs yet. The reason is shown if this takes more than a second."""

    def begin(self, runs: int, *, kept: int) -> None:
        """Note that a batch of `runs` runs begins, besides `kept` runs that are finished already.

        A command may have several batches, one after the other. Shares, rates and the remaining time are those of this one.
        """

    def progress(self, key: str, label: str, done: float, sim_s: float, packet_hops: int) -> None:
        """Note the state of a run: share done (0 to 1), simulated seconds, packet-hops."""

    def finished(self, key: str, label: str) -> None:
        """Note that a run has finished and is saved."""

    def failed(self, key: str, label: str) -> None:
        """Note that a run has failed; the error follows when all runs have ended."""

    def warn(self, text: str) -> None:
        """Show a warning; the work continues."""

    def note(self, text: str) -> None:
        """Show what was chosen for the user; the work continues."""


class Silent:
    """Reports nothing."""

    def prepare(self, text: str) -> None: ...
    def begin(self, runs: int, *, kept: int) -> None: ...
    def progress(self, key: str, label: str, done: float, sim_s: float, packet_hops: int) -> None: ...
    def finished(self, key: str, label: str) -> None: ...
    def failed(self, key: str, label: str) -> None: ...
    def warn(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class _Tally:
    """The progress of the runs of one batch, from which rates and the remaining time are estimated."""

    def __init__(self, runs: int = 0) -> None:
        self.lock = threading.Lock()
        self.begun = time.monotonic()
        self.runs = runs
        self.running: dict[str, tuple[float, int]] = {}
        self.ended_keys: set[str] = set()
        self.hops_of_ended = 0

    def note(self, key: str, done: float, packet_hops: int) -> bool:
        """Record a run's progress; return False if the run has ended already."""
        if key in self.ended_keys:
            return False
        self.running[key] = (done, packet_hops)
        return True

    def end(self, key: str) -> None:
        _, hops = self.running.pop(key, (0.0, 0))
        self.hops_of_ended += hops
        self.ended_keys.add(key)

    @property
    def ended(self) -> int:
        return len(self.ended_keys)

    @property
    def share(self) -> float:
        return (self.ended + sum(done for done, _ in self.running.values())) / max(self.runs, 1)

    @property
    def hops_per_s(self) -> float:
        hops = self.hops_of_ended + sum(hops for _, hops in self.running.values())
        return hops / max(time.monotonic() - self.begun, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        elapsed = time.monotonic() - self.begun
        # There is no estimate in the first moments, in which workers start.
        return elapsed / self.share - elapsed if self.share > 0.005 and elapsed > 1 else None


def clock(seconds: float | None) -> str:
    """Format a duration as `1:05` or `2:03:04`, or as `-:--` if it is unknown."""
    if seconds is None:
        return "-:--"
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def si(value: float) -> str:
    """Format a number with three digits and k, M or G."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= unit:
            return significant(value / unit, 3) + name
    return significant(value, 3) + " "


_NOTHING_SENT = "setting up, no packet is on its way yet"


class Plain:
    """Writes a line every few seconds, for logs and pipes."""

    def __init__(self, every_s: float = 5.0) -> None:
        self._every_s = every_s
        self._tally = _Tally()
        self._next = time.monotonic() + every_s
        self._next_of_preparing = time.monotonic() + 1

    def prepare(self, text: str) -> None:
        if time.monotonic() >= self._next_of_preparing:
            self._next_of_preparing = time.monotonic() + self._every_s
            self._print(text)

    def begin(self, runs: int, *, kept: int) -> None:
        self._tally = _Tally(runs)
        if runs + kept > 1:
            self._print(f"{runs} runs to simulate" + (f", {kept} finished before" if kept else ""))

    def progress(self, key: str, label: str, done: float, sim_s: float, packet_hops: int) -> None:
        with self._tally.lock:
            tally = self._tally
            if not packet_hops and not tally.ended:
                self.prepare(f"{label}: {_NOTHING_SENT}")
            if not tally.note(key, done, packet_hops) or not packet_hops or time.monotonic() < self._next:
                return
            self._next = time.monotonic() + self._every_s
            runs = f"{tally.ended} of {tally.runs} runs done, " if tally.runs > 1 else ""
            self._print(
                f"{runs}{tally.share:4.0%}, {label} at {significant(sim_s * 1e3, 4)} ms, "
                f"{si(tally.hops_per_s)}packet-hops/s, {clock(tally.seconds_left)} left"
            )

    def finished(self, key: str, label: str) -> None:
        with self._tally.lock:
            self._tally.end(key)
            if self._tally.runs > 1 and self._tally.ended == self._tally.runs:
                self._print(f"{self._tally.runs} runs done in {clock(time.monotonic() - self._tally.begun)}")

    def failed(self, key: str, label: str) -> None:
        with self._tally.lock:
            self._tally.end(key)
            self._print(f"failed: {label}")

    def warn(self, text: str) -> None:
        self._print(f"warning: {text}")

    def note(self, text: str) -> None:
        self._print(f"note: {text}")

    def _print(self, text: str) -> None:
        print(printable(text), file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class Bars:
    """Shows a bar for each running job, and a bar for all runs with the remaining time."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bars: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>4.0f} %"),
            TextColumn("{task.fields[note]}", style="dim"),
            # The command line's stderr lets no control sequences through, but for those of these bars.
            console=Console(file=getattr(sys.stderr, "bare", sys.stderr)),
            transient=True,
        )
        self._tally = _Tally()
        self._tasks: dict[str, TaskID] = {}
        self._total: TaskID | None = None
        self._preparing: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def prepare(self, text: str) -> None:
        with self._tally.lock:
            if self._preparing is None:
                self._preparing = self._bars.add_task("", total=None, note="")
            self._bars.update(self._preparing, description=_plain(text))

    def begin(self, runs: int, *, kept: int) -> None:
        if self._preparing is not None:
            self._bars.remove_task(self._preparing)
            self._preparing = None
        if self._total is not None:
            self._bars.remove_task(self._total)
            self._total = None
        self._tally = _Tally(runs)
        if runs > 1:
            before = f" ({kept} finished before)" if kept else ""
            self._total = self._bars.add_task(f"[bold]{runs} runs{before}", total=1.0, note="")

    def progress(self, key: str, label: str, done: float, sim_s: float, packet_hops: int) -> None:
        with self._tally.lock:
            tally = self._tally
            if not tally.note(key, done, packet_hops):
                return
            if key not in self._tasks:
                self._tasks[key] = self._bars.add_task(_plain(label), total=1.0, note="")
            whole = f"{si(tally.hops_per_s)}packet-hops/s, {clock(tally.seconds_left)} left"
            note = f"{significant(sim_s * 1e3, 4)} ms simulated"
            if self._total is None:
                note = f"{note}, {whole}"
            if not packet_hops:
                note = _NOTHING_SENT
            self._bars.update(self._tasks[key], completed=done, note=note)
            self._update_total(whole)

    def finished(self, key: str, label: str) -> None:
        self._end(key)

    def failed(self, key: str, label: str) -> None:
        self._end(key)

    def warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def _say(self, text: str) -> None:
        self._bars.console.print(printable(text), markup=False, highlight=False)

    def _end(self, key: str) -> None:
        with self._tally.lock:
            self._tally.end(key)
            if (task := self._tasks.pop(key, None)) is not None:
                self._bars.remove_task(task)
            self._update_total(f"{clock(self._tally.seconds_left)} left")

    def _update_total(self, note: str) -> None:
        if self._total is not None:
            runs = f"{self._tally.ended} of {self._tally.runs} done, {note}"
            self._bars.update(self._total, completed=self._tally.share, note=runs)


def _plain(text: str) -> str:
    """Return a label that rich shows as it is: names from files may contain brackets or control characters."""
    from rich.markup import escape

    return escape(shown(text, _LABEL_MAX))


_LABEL_MAX = 200


def reporter(quiet: bool = False) -> Silent | Plain | Bars:
    """Return bars if stderr is a terminal, else plain lines. The reporter is a context manager."""
    if quiet:
        return Silent()
    return Bars() if sys.stderr.isatty() else Plain()
