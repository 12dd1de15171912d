"""The page of the claims ledger."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flowloom._native import ScenarioError
from flowloom.claims.entries import VERDICTS, Entry, Part
from flowloom.claims.listing import Ledger
from flowloom.figures import saved
from flowloom.reports import claims, figures
from flowloom.reports.content import Cell, Checked, Plots, Table


class Listed(NamedTuple):
    """A claim on the page."""

    id: str
    anchor: str
    paper: str
    verdict: str
    says: str
    checks: Sequence[Checked]
    deciding: Checked | None
    """The first of the checks that have its verdict."""
    order: float | None
    """The value of this check, by which it is sorted."""
    seeds: int | None
    scale: str
    commit: str
    stale: bool
    runs: Sequence[str]
    """How its entries were made."""
    calibrated: str
    cause: str
    experiment: str
    commands: Sequence[tuple[str, str]]
    """What each command does, and the command."""
    plots: Sequence[Plots]
    """The pictures of its figures that no claim above it shows."""


def context(ledger: Ledger) -> dict[str, Any]:
    """Return what the page shows."""
    drawn: set[str] = set()
    found = [_listed(entry, number, drawn) for number, entry in enumerate(ledger, 1)]
    papers = list(dict.fromkeys(claim.paper for claim in found))
    known = [verdict for verdict in VERDICTS if any(claim.verdict == verdict for claim in found)]
    counts = [_counted(paper, [claim for claim in found if claim.paper == paper], known) for paper in papers]
    head = ["Paper", "Claims", *(verdict.capitalize() for verdict in known), "Stale"]
    table = Table("", head, counts, frozenset(range(1, len(head))))
    return {
        "title": "Claims of papers and their verdicts",
        "finding": _finding(ledger, found),
        "papers": papers,
        "verdicts": known,
        "counts": table,
        "claims": found,
        "plots": any(plot.panels for claim in found for plot in claim.plots),
    }


def _finding(ledger: Ledger, found: Sequence[Listed]) -> list[str]:
    if not found:
        return ["There is no claim."]
    stale = ledger.counts["stale"]
    fresh = "All entries are up to date."
    if stale:
        what = "1 entry is stale" if stale == 1 else f"{stale} entries are stale"
        fresh = f"{what}: the simulator or a figure has changed since then."
    return [*figures.verdicts([claim.verdict for claim in found], found[0].id), fresh]


def _counted(paper: str, found: Sequence[Listed], verdicts: Sequence[str]) -> list[Cell]:
    numbers = [len(found), *(sum(c.verdict == v for c in found) for v in verdicts), sum(c.stale for c in found)]
    return [Cell(paper), *(Cell(str(number), number) for number in numbers)]


def _listed(entry: Entry, number: int, drawn: set[str]) -> Listed:
    content = entry.content()
    cause = entry.cause
    names = [f"{entry.folder}/{figure}" for figure in entry.figures]
    scales = {part.figure: part.scale for part in entry.parts}
    commands = [("This command repeats the experiment:", cause.command)] if cause and cause.command else []
    for figure, name in zip(entry.figures, names, strict=True):
        commands.append((f"This command runs {name} again:", _command(name, scales.get(figure, "full"))))
    plots: list[Plots] = []
    for figure, name in zip(entry.figures, names, strict=True):
        if name not in drawn and figure in scales:
            plots += _plots(name, scales[figure])
    drawn |= {*names}
    decides = next((n for n, check in enumerate(entry.checks) if check.counts and check.verdict == entry.verdict), 0)
    checks = claims.of(entry.checks)
    return Listed(
        id=entry.id,
        anchor=f"claim-{number}",
        paper=entry.id.partition("/")[0],
        verdict=entry.verdict,
        says=entry.paper,
        checks=checks,
        deciding=checks[decides] if checks else None,
        order=entry.checks[decides].value if checks else None,
        seeds=content["seeds"],
        scale=content["scale"],
        commit=content["commit"] or "",
        stale=entry.stale,
        runs=[_run(part) for part in entry.parts],
        calibrated=entry.calibrated,
        cause=" ".join(cause.cause.split()) if cause else "",
        experiment=" ".join(cause.experiment.split()) if cause else "",
        commands=commands,
        plots=plots,
    )


def _plots(name: str, scale: str) -> list[Plots]:
    """Return the plots of a figure from where `flowloom paper run` writes it by default, if it is there."""
    directory = Path("results") / (name if scale == "quick" else f"{name}-{scale}")
    try:
        found = saved.load(directory)
        if (found.name, found.scale, found.changes) != (name, scale, {}) or found.figure is None:
            return []
        return figures.drawn(saved.SavedGrid(found.figure, directory, found.data))
    except ScenarioError:
        return []  # a page of verdicts does not need the picture


def _command(name: str, scale: str) -> str:
    return shlex.join(["flowloom", "paper", "run", name, *([] if scale == "quick" else ["--scale", scale])])


def _run(part: Part) -> str:
    seeds = "one seed" if part.seeds == 1 else f"{part.seeds} seeds"
    stale = f"; stale: {part.stale_because}" if part.stale else ""
    return f"{part.figure}: scale {part.scale}, {seeds}, commit {part.commit}, {part.date}{stale}"
