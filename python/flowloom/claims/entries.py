"""What a ledger says, as typed values: the outcomes of checks, the facts about a run, causes, and a claim's entry."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from flowloom.claims.intervals import DIFFERS, HOLDS, UNDECIDED, Span
from flowloom.models import Model, Number, one_of

CALIBRATED, NOT_RUN = "calibrated", "not yet run"
VERDICTS = (HOLDS, DIFFERS, UNDECIDED, CALIBRATED, NOT_RUN)

_OfCheck = Annotated[str, one_of("verdict", (HOLDS, DIFFERS, UNDECIDED))]
_OfClaim = Annotated[str, one_of("verdict", (HOLDS, DIFFERS, UNDECIDED, CALIBRATED))]


class OfReading(Model):
    """What a check gives under another reading of the set-up."""

    verdict: _OfCheck
    measured: str


class OfCheck(Model):
    """The outcome of a check."""

    paper: str
    verdict: _OfCheck
    measured: str
    band: str
    value: Number | None = None
    """The value that decided the verdict, None if there is none."""
    interval: Annotated[list[Number | None], Field(min_length=2, max_length=2)] | None = None
    """Its 95 % interval; None with one seed. An end is None if nothing limits it, because some seeds have no value."""
    where: str = ""
    """The point of this value; empty if no point alone decides."""
    given: str = ""
    """Why the check cannot fail, if it cannot."""
    beside: str = ""
    """Why the check does not count, if it does not."""
    readings: dict[str, OfReading] = {}
    """By label, what it gives under the other readings of the set-up."""

    @property
    def counts(self) -> bool:
        """Whether the check has a part in the claim's verdict."""
        return not (self.given or self.beside)

    @property
    def text(self) -> str:
        """What was measured, with the point that decides."""
        if not self.where:
            return self.measured
        if self.value is None:
            span = "no value"
        else:
            low, high = self.interval or (self.value, self.value)
            span = str(Span(self.value, -math.inf if low is None else low, math.inf if high is None else high))
        decided = f"{span} at {self.where}"
        return decided if self.measured in (span, decided) else f"{decided}; all points: {self.measured}"


class OfClaim(Model):
    """The outcome of a claim's checks."""

    verdict: _OfClaim
    checks: list[OfCheck]


class About(Model):
    """Facts about the runs of a figure."""

    seeds: Annotated[int, Field(ge=1)]
    runs: Annotated[int, Field(ge=1)] | None = None
    seconds: Annotated[Number, Field(ge=0)]
    """The time of all runs on one core."""
    commit: str | None = None
    clean: bool = True
    """Whether the source tree had no changes."""
    date: str
    inputs: str | None = None
    """The digest of the scenarios and the checks; None if it could not be computed."""
    behaviour: str | None = None
    """The digest of what the simulator did in short runs."""


class Run(About, OfClaim):
    """An entry of the ledger's file: what a claim's checks gave when a figure was run at a scale."""


class Cause(Model):
    """Why a claim differs, with the experiment that shows it."""

    cause: str
    experiment: str = ""
    """What was done, and what it gave."""
    command: str = ""
    """The command of the experiment, if it is one."""


@dataclasses.dataclass(frozen=True)
class Part:
    """What one figure says about a claim."""

    figure: str
    verdict: str
    scale: str
    seeds: int
    seconds: float
    commit: str
    """The commit, with `+` if the source tree had changes."""
    date: str
    stale_because: str
    """Why the entry is not valid for today's simulator; empty if it is."""

    @property
    def stale(self) -> bool:
        """Whether the entry is not valid for today's simulator."""
        return bool(self.stale_because)

    def content(self) -> dict[str, Any]:
        """Return the part for JSON."""
        found = dataclasses.asdict(self)
        because = found.pop("stale_because")
        return found | {"stale": self.stale} | ({"stale_because": because} if because else {})


@dataclasses.dataclass(frozen=True)
class Entry:
    """A claim with its verdict, of all figures that concern it."""

    id: str
    verdict: str
    paper: str
    """What the paper says."""
    figures: Sequence[str]
    parts: Sequence[Part]
    checks: Sequence[OfCheck]
    calibrated: str
    cause: Cause | None
    folder: str = ""
    """The name of the folder of its figures."""

    @property
    def stale(self) -> bool:
        """Whether one of the parts is stale."""
        return any(part.stale for part in self.parts)

    @property
    def measured(self) -> str:
        """What the checks measured."""
        return "; ".join(check.text for check in self.checks)

    def content(self) -> dict[str, Any]:
        """Return the entry for JSON: the earliest date and the fewest seeds of its parts."""

        def together(values: Sequence[str]) -> str:
            return ", ".join(dict.fromkeys(values))

        found: dict[str, Any] = {
            "id": self.id,
            "verdict": self.verdict,
            "paper": self.paper,
            "measured": self.measured,
            "band": "; ".join(check.band for check in self.checks),
            "scale": together([part.scale for part in self.parts]),
            "seconds": round(sum(part.seconds for part in self.parts), 1),
            "commit": together([part.commit for part in self.parts]) or None,
            "date": min((part.date for part in self.parts), default=None),
            "seeds": min((part.seeds for part in self.parts), default=None),
            "stale": self.stale,
        }
        if self.calibrated:
            found["calibrated"] = self.calibrated
        if self.cause:
            found["cause"] = self.cause.model_dump(exclude_unset=True)
        return found | {"parts": [part.content() for part in self.parts]}
