"""The controller of PIAS (section III-B1): it collects the sizes of flows, computes thresholds, and gives them to all hosts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence

from flowloom._native import RunError, ScenarioError
from flowloom.demotion import analytic, model
from flowloom.demotion.sizes import Sizes
from flowloom.demotion.snippet import quantities
from flowloom.metrics import size
from flowloom.tagging.agents import Status, Tagger


@dataclasses.dataclass(frozen=True)
class Settings:
    """How thresholds follow from sizes."""

    load: float = 0.8
    """The load of the bottleneck; thresholds depend little on it."""
    queues: int = model.QUEUES_MAX
    """The maximum number of classes, 2 to 8."""
    reading: str = "bursts"
    """What is minimised; see `flowloom thresholds`."""
    smoothing: float = 0.5
    """The weight of the latest period against all earlier ones, above 0 and at most 1."""
    least: int = 1000
    """Messages of a period, below which it goes on."""

    def check(self) -> None:
        """Raise ScenarioError if a value is out of range."""
        analytic.check([self.load], self.queues, self.reading, "worst")
        if self.queues < 2:
            raise ScenarioError(f"{self.queues} queues: give 2 to {model.QUEUES_MAX}; one queue needs no thresholds")
        if not 0 < self.smoothing <= 1:
            raise ScenarioError(f"smoothing {self.smoothing:g}: give a number above 0 and at most 1")


Counts = Counter[tuple[int, int]]
"""Messages by bin: above the first number of bytes, and at most the second."""


class Controller:
    """Computes the thresholds of some taggers. Each call of `step` ends a period."""

    def __init__(self, taggers: Sequence[Tagger], settings: Settings, log: Callable[[str], None]) -> None:
        """Take the taggers; `log` gets a line for each change and each problem.

        Raises:
            ScenarioError: A setting is out of range.
        """
        settings.check()
        self._taggers, self._settings, self._log = taggers, settings, log
        self._before: dict[str, Counts] = {}
        self.smoothed: dict[tuple[int, int], float] = {}
        """Messages by bin, in the mean over the periods."""
        self._thresholds: tuple[int, ...] | None = None

    def step(self) -> tuple[int, ...] | None:
        """Collect sizes, and give new thresholds to all taggers that have others; return them, None if there are none yet."""
        statuses = {tagger.name: status for tagger in self._taggers if (status := self._status(tagger))}
        if not statuses:
            return self._thresholds
        now = {name: Counter({(b.above, b.bytes): b.count for b in status.sizes}) for name, status in statuses.items()}
        period: Counts = sum((_since(counts, self._before.get(name)) for name, counts in now.items()), Counter())
        if period.total() >= self._settings.least:
            self._before |= now
            self._smooth(period)
            self._thresholds = self._computed() or self._thresholds
        else:
            self._log(f"{period.total():,} messages since the last change are too few (less than {self._settings.least:,})")
        if self._thresholds:
            for tagger in self._taggers:
                if tagger.name in statuses:
                    self._give(tagger, statuses[tagger.name], self._thresholds)
        return self._thresholds

    def _status(self, tagger: Tagger) -> Status | None:
        try:
            return tagger.status()
        except (RunError, ScenarioError) as error:
            self._log(f"{tagger.name} gives no sizes: {error}")
            return None

    def _smooth(self, period: Counts) -> None:
        weight = self._settings.smoothing if self.smoothed else 1.0
        for bin_ in self.smoothed.keys() | period.keys():
            self.smoothed[bin_] = (1 - weight) * self.smoothed.get(bin_, 0.0) + weight * period[bin_]

    def _computed(self) -> tuple[int, ...]:
        sizes = Sizes.through("the measured messages", points(self.smoothed))
        queues = min(self._settings.queues, sizes.queues)
        found = analytic.thresholds(sizes, self._settings.load, queues, reading=self._settings.reading).thresholds
        best = _shown(found) if found else "one class is best for them, so thresholds stay"
        self._log(f"{sum(self.smoothed.values()):,.0f} messages of {size(sizes.mean)} on average: {best}")
        return found

    def _give(self, tagger: Tagger, status: Status, thresholds: tuple[int, ...]) -> None:
        if status.thresholds == thresholds:
            return
        try:
            tagger.set(thresholds)
        except (RunError, ScenarioError) as error:
            self._log(f"{tagger.name} keeps its thresholds: {error}")
        else:
            self._log(f"{tagger.name} has {_shown(thresholds)} instead of {_shown(status.thresholds)}")


def _since(now: Counts, before: Counts | None) -> Counts:
    """Return what was counted since then. A tagger that was attached anew counts from 0."""
    if before is None or any(now[bin_] < count for bin_, count in before.items()):
        return now
    return now - before


def points(counts: dict[tuple[int, int], float]) -> list[tuple[float, float]]:
    """Return the cumulative distribution of sizes by bin, spread evenly over each bin, as points (bytes, share)."""
    total, running = sum(counts.values()), 0.0
    found = [(0.0, 0.0)]
    for above, most in sorted(counts):
        found += [(float(above), running / total), (float(most), (running := running + counts[above, most]) / total)]
    return found


def _shown(thresholds: Sequence[int]) -> str:
    return ",".join(quantities(thresholds))
