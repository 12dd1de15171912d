"""Telling whoever waits how far it is: bars on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Protocol, Self

from flowloom.metrics import significant

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Reporter(Protocol):
    """Is told of runs; all methods may be called from any thread."""

    def prepare(self, text: str) -> None:
        """Nothing runs yet, and this is why; shown if it takes more than a second."""

    def begin(self, runs: int, *, kept: int) -> None:
        """So many runs are to be made; `kept` are there already."""

    def progress(self, key: str, label: str, done: float, sim_s: float, packet_hops: int) -> None:
        """A run is so far: share done, simulated seconds, packet-hops."""

    def finished(self, key: str, label: str) -> None:
        """A run is done and kept."""

    def failed(self, key: str, label: str) -> None:
        """A run has failed; why is said at the end."""

    def warn(self, text: str) -> None:
        """Something is not as it should be, and the work goes on."""


class Silent:
    """Says nothing."""

    def prepare(self, text: str) -> None: ...
    def begin(self, runs: int, *, kept: int) -> None: ...
    def progress(self, key: str, label: str, done: float, sim_s: float, packet_hops: int) -> None: ...
    def finished(self, key: str, label: str) -> None: ...
    def failed(self, key: str, label: str) -> None: ...
    def warn(self, text: str) -> None: ...
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class _Tally:
    """What all runs together have done; the basis of rates and of the estimate of the time left."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begun = time.monotonic()
        self.runs = 0
        self.running: dict[str, tuple[float, int]] = {}
        self.ended_keys: set[str] = set()
        self.hops_of_ended = 0

    def note(self, key: str, done: float, packet_hops: int) -> bool:
        """Take a run's progress; False if the news is older than the run's end."""
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
        # The first moments tell nothing: start-up of the workers would count as speed.
        return elapsed / self.share - elapsed if self.share > 0.005 and elapsed > 1 else None


def clock(seconds: float | None) -> str:
    """Write a span of time as `1:05` or `2:03:04`; `-:--` if it is not known."""
    if seconds is None:
        return "-:--"
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def si(value: float) -> str:
    """Write a number with three digits and k, M, G."""
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
            self._say(text)

    def begin(self, runs: int, *, kept: int) -> None:
        self._tally.runs = runs
        if runs + kept > 1:
            self._say(f"{runs} runs to make" + (f", {kept} kept from before" if kept else ""))

    def progress(self, key: str, label: str, done: float, sim_s: float, packet_hops: int) -> None:
        with self._tally.lock:
            tally = self._tally
            if not packet_hops and not tally.ended:
                self.prepare(f"{label}: {_NOTHING_SENT}")
            if not tally.note(key, done, packet_hops) or not packet_hops or time.monotonic() < self._next:
                return
            self._next = time.monotonic() + self._every_s
            runs = f"{tally.ended} of {tally.runs} runs done, " if tally.runs > 1 else ""
            self._say(
                f"{runs}{tally.share:4.0%}, {label} at {significant(sim_s * 1e3, 4)} ms, "
                f"{si(tally.hops_per_s)}packet-hops/s, {clock(tally.seconds_left)} left"
            )

    def finished(self, key: str, label: str) -> None:
        with self._tally.lock:
            self._tally.end(key)
            if self._tally.runs > 1 and self._tally.ended == self._tally.runs:
                self._say(f"{self._tally.runs} runs done in {clock(time.monotonic() - self._tally.begun)}")

    def failed(self, key: str, label: str) -> None:
        with self._tally.lock:
            self._tally.end(key)
            self._say(f"failed: {label}")

    def warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class Bars:
    """A bar for each running job, and one for the whole with the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bars: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>4.0f} %"),
            TextColumn("{task.fields[note]}", style="dim"),
            console=Console(stderr=True),
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
            self._bars.update(self._preparing, description=text)

    def begin(self, runs: int, *, kept: int) -> None:
        if self._preparing is not None:
            self._bars.remove_task(self._preparing)
            self._preparing = None
        self._tally.runs = runs
        if runs > 1:
            before = f" ({kept} kept)" if kept else ""
            self._total = self._bars.add_task(f"[bold]{runs} runs{before}", total=1.0, note="")

    def progress(self, key: str, label: str, done: float, sim_s: float, packet_hops: int) -> None:
        with self._tally.lock:
            tally = self._tally
            if not tally.note(key, done, packet_hops):
                return
            if key not in self._tasks:
                self._tasks[key] = self._bars.add_task(label, total=1.0, note="")
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
        self._bars.console.print(f"warning: {text}", markup=False, highlight=False)

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


def reporter(quiet: bool = False) -> Silent | Plain | Bars:
    """Give the reporter that suits where stderr goes; it is a context manager."""
    if quiet:
        return Silent()
    return Bars() if sys.stderr.isatty() else Plain()
