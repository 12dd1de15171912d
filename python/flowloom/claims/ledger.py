"""The claims ledger: the outcome of each claim's checks in their last run, by figure and scale.

Runs write `papers/<paper>/claims.json`; `papers/<paper>/causes.toml` is written by hand. An entry records what was run, with
the digests of that time (`claims.digests`). If they are not the same as today's, the entry is stale.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from flowloom import storage
from flowloom._native import ScenarioError
from flowloom.claims import digests
from flowloom.claims.checks import KINDS, Outcome
from flowloom.claims.digests import Digests
from flowloom.claims.entries import CALIBRATED, NOT_RUN, About, Cause, Entry, OfCheck, OfClaim, OfReading, Part, Run
from flowloom.claims.intervals import DIFFERS, HOLDS, UNDECIDED, worst
from flowloom.figures.grid import Grid, Unmeasured
from flowloom.figures.schema import Check, Claim, Figure
from flowloom.locks import locked
from flowloom.models import TomlFile, problem
from flowloom.words import shown

_WORST_FIRST = (NOT_RUN, DIFFERS, UNDECIDED, CALIBRATED, HOLDS)
_LEDGER, _CAUSES = "claims.json", "causes.toml"

Today = Callable[[Sequence[tuple[Figure, str]]], Mapping[tuple[str, str], Digests | str]]
Ledger = dict[str, dict[str, dict[str, Run]]]
"""The runs by claim, figure and scale."""
_FILE = TypeAdapter(Ledger)
_CAUSES_FILE = TypeAdapter(dict[str, Cause])


def evaluate(claim: Claim, grid: Grid) -> OfClaim:
    """Compare a claim with a figure's runs. The worst verdict of its checks is the claim's verdict.

    If the figure has several readings of the paper's set-up, the first decides. What the checks give under the others is
    recorded beside it.
    """
    found = [_evaluated(check, grid) for check in claim.checks]
    return OfClaim(verdict=_verdict(claim, found), checks=found)


def _evaluated(check: Check, grid: Grid) -> OfCheck:
    readings = grid.readings()
    outcomes: dict[str, Outcome] = {label: KINDS[check.kind](runs, **check.parameters) for label, runs in readings.items()}
    first, *others = outcomes
    outcome = outcomes[first]
    span = outcome.decisive
    value, low, high = (x if math.isfinite(x) else None for x in span)
    more = {
        "where": outcome.where,
        "given": check.given,
        "beside": check.beside,
        "readings": {label: OfReading(verdict=outcomes[label].verdict, measured=outcomes[label].measured) for label in others},
    }
    return OfCheck(
        paper=check.paper,
        verdict=outcome.verdict,
        measured=outcome.measured,
        band=outcome.band,
        value=value,
        interval=[low, high] if span.low < span.high else None,
        **{name: said for name, said in more.items() if said},  # type: ignore[arg-type]
    )


def _verdict(claim: Claim, checks: Sequence[OfCheck]) -> str:
    verdict = worst(check.verdict for check in checks if check.counts)
    return CALIBRATED if verdict == HOLDS and claim.calibrated else verdict


def record(figure: Figure, scale: str, outcomes: Mapping[str, OfClaim], about: About) -> Path | None:
    """Write a figure's outcomes to its paper's ledger. Entries of other figures and scales stay.

    Args:
        figure: The figure that was run.
        scale: Its scale.
        outcomes: The results of `evaluate`, by claim.
        about: Facts about the runs.

    Returns:
        The file; None if there are no outcomes, so that nothing was written.
    """
    if not outcomes:
        return None
    path = path_of(figure)
    # Figures of a paper may be run at the same time, and none may lose what another has found.
    with locked(path.with_name(f".{_LEDGER}.lock"), wait=True):
        ledger = read(path)
        for claim, outcome in outcomes.items():
            run = Run.model_validate(content(outcome) | content(about))
            ledger.setdefault(claim, {}).setdefault(figure.path.stem, {})[scale] = run
        ordered = {claim: dict(sorted(ledger[claim].items())) for claim in sorted(ledger, key=claim_order)}
        with storage.whole_file(path) as fresh:
            storage.write_json(fresh, _FILE.dump_python(ordered, exclude_unset=True))
    return path


def content(model: OfClaim | About) -> dict[str, Any]:
    """Return what a file says for a model: the values that were given, without defaults."""
    return model.model_dump(exclude_unset=True)


def path_of(figure: Figure) -> Path:
    """Return the ledger of a figure's paper."""
    return figure.path.parent / _LEDGER


def claim_order(claim: str) -> tuple[str, int]:
    """Return a sort key that places `phost/10` after `phost/9`."""
    paper, _, number = claim.partition("/")
    return paper, int(number) if number.isdecimal() else 0


def read(path: Path) -> Ledger:
    """Read a ledger; without a file, it is empty.

    Raises:
        ScenarioError: The file cannot be read or is not a ledger. The message names the file and the place in it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text, object_pairs_hook=_Object)
        if twice := _twice(found, ()):
            raise ValueError(f"{_dotted(twice)} occurs twice")
        return _FILE.validate_python(found)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ScenarioError(f"cannot read the ledger {path}: {error.strerror}") from error
    except ValidationError as error:
        wrong = problem(error, found, "the ledger")
        how = f"{_dotted(wrong.place)}: {wrong.message}" if wrong.place else wrong.message
    except (ValueError, RecursionError) as error:
        how = shown(error, 200)
    raise ScenarioError(f"{path} is damaged: {how}; restore it from version control, or delete it")


class _Object(dict[str, Any]):
    """A JSON object that knows a key which its text has twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        keys = [key for key, _ in pairs]
        self.twice = next((key for key in self if keys.count(key) > 1), None) if len(self) < len(keys) else None


def _twice(found: Any, place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the place of a key that an object of a JSON value has twice; empty if there is none."""
    if isinstance(found, _Object) and found.twice is not None:
        return (*place, found.twice)
    entries = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return next((wrong for key, value in entries if (wrong := _twice(value, (*place, key)))), ())


def _dotted(place: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{shown(part)}" for part in place).removeprefix(".")


def _causes(folder: Path) -> dict[str, Cause]:
    path = folder / _CAUSES
    if not path.exists():
        return {}
    file = TomlFile(path, "list of causes")
    try:
        return _CAUSES_FILE.validate_python(file.table)
    except ValidationError as error:
        raise file.invalid(error, file.table) from None


def runs_of(figure: Figure) -> dict[str, Run]:
    """Return the ledger's facts about a figure's runs by scale, from the entry of one of its claims."""
    ledger = read(path_of(figure))
    found: dict[str, Run] = {}
    for claim in figure.claims:
        found |= ledger.get(claim.id, {}).get(figure.path.stem, {})
    return found


def read_all(figures: Sequence[Figure]) -> tuple[list[Figure], list[str]]:
    """Read the ledgers and the causes of figures; return the figures whose are valid, and an error message for the others."""
    errors: dict[Path, str] = {}
    for folder in dict.fromkeys(figure.path.parent for figure in figures):
        try:
            read(folder / _LEDGER)
            _causes(folder)
        except ScenarioError as error:
            errors[folder] = str(error)
    return [figure for figure in figures if figure.path.parent not in errors], list(errors.values())


def fresh(figures: Sequence[Figure], scale: str, today: Today = digests.today) -> set[str]:
    """Return the names of fresh figures: each claim has an entry at this scale that is not stale and needs no more seeds."""
    asked = [figure for figure in figures if figure.claims and scale in figure.scales]
    now = today([(figure, scale) for figure in asked])
    found = set()
    for figure in asked:
        ledger = read(path_of(figure))
        entries = [ledger.get(claim.id, {}).get(figure.path.stem, {}).get(scale) for claim in figure.claims]
        seeds_max = figure.scales[scale].seeds_max
        if all(e and not _stale(e, now[figure.name, scale]) and not _wants_seeds(e, seeds_max) for e in entries):
            found.add(figure.name)
    return found


def _wants_seeds(run: Run, seeds_max: int) -> bool:
    return run.verdict == UNDECIDED and run.seeds < seeds_max


def _stale(run: Run, today: Digests | str) -> str:
    """Return why an entry is not valid for today's simulator; empty if it is."""
    if run.behaviour is None:
        return "it has no digest of what was run"
    if isinstance(today, str):
        return f"it cannot be compared with today's simulator: {today}"
    if run.inputs != today.inputs:
        return "the figure's scenarios or checks have changed since then"
    return "" if run.behaviour == today.behaviour else "the simulator's behaviour has changed since then"


def _only_point(figure: Figure, check: Check) -> str:
    """Return the point that a check looks at; empty if it looks at several."""
    outcome = KINDS[check.kind](next(iter(Unmeasured(figure).readings().values())), **check.parameters)
    return outcome.where if outcome.points == 1 else ""


def _placed(figure: Figure, claim: Claim, checks: Sequence[OfCheck]) -> list[OfCheck]:
    """Add the point to checks that look at one only: entries of earlier versions do not name it."""
    if len(checks) != len(claim.checks):
        return list(checks)
    pairs = zip(checks, claim.checks, strict=True)
    return [c if c.where else c.model_copy(update={"where": _only_point(figure, check)}) for c, check in pairs]


def entries(figures: Sequence[Figure], scale: str | None = None, today: Today = digests.today) -> list[Entry]:
    """Return the ledger's entries for the claims of these figures.

    Args:
        figures: Figures of one paper or several.
        scale: Only entries of this scale; by default each figure's largest scale that was run.
        today: Computes today's digests.

    Returns:
        An entry for each claim. If several figures check a claim, the worst verdict counts: not yet run, then differs,
        undecided, calibrated, holds. The claim is stale if one of its parts is.
    """
    ledgers = {path: read(path) for path in {path_of(figure) for figure in figures}}
    parts: dict[str, list[tuple[Figure, Claim, str, Run | None]]] = {}
    for figure in figures:
        for claim in figure.claims:
            runs = ledgers[path_of(figure)].get(claim.id, {}).get(figure.path.stem, {})
            # Scales are listed from small to large in a figure file.
            at = next((s for s in reversed(list(figure.scales)) if s in runs and scale in (None, s)), "")
            parts.setdefault(claim.id, []).append((figure, claim, at, runs.get(at)))
    wanted = {(f.name, at): (f, at) for every in parts.values() for f, _, at, run in every if run and run.behaviour}
    now = today(list(wanted.values()))
    causes = {folder: _causes(folder) for folder in {figure.path.parent for figure in figures}}
    return [_entry(claim, parts[claim], now, causes) for claim in sorted(parts, key=claim_order)]


def _entry(
    claim: str,
    parts: list[tuple[Figure, Claim, str, Run | None]],
    now: Mapping[tuple[str, str], Digests | str],
    causes: Mapping[Path, Mapping[str, Cause]],
) -> Entry:
    found = [_part(figure, each, at, run, now.get((figure.name, at), "")) for figure, each, at, run in parts if run]
    verdicts = {part.verdict for part in found} | ({NOT_RUN} if len(found) < len(parts) else set())
    verdict = next(v for v in _WORST_FIRST if v in verdicts)
    cause = causes[parts[0][0].path.parent].get(claim)
    return Entry(
        id=claim,
        verdict=verdict,
        paper=" ".join(dict.fromkeys(each.says for _, each, _, _ in parts)),
        figures=[figure.path.stem for figure, _, _, _ in parts],
        parts=found,
        checks=[check for figure, each, _, run in parts if run for check in _placed(figure, each, run.checks)],
        calibrated=" ".join(dict.fromkeys(each.calibrated for _, each, _, _ in parts if each.calibrated)),
        cause=cause if verdict in (DIFFERS, UNDECIDED) else None,
        folder=parts[0][0].path.parent.name,
    )


def _part(figure: Figure, claim: Claim, scale: str, run: Run, today: Digests | str) -> Part:
    commit = run.commit or "unknown"
    return Part(
        figure=figure.path.stem,
        verdict=_verdict(claim, run.checks),
        scale=scale,
        seeds=run.seeds,
        seconds=run.seconds,
        commit=commit if run.clean else f"{commit}+",
        date=run.date,
        stale_because=_stale(run, today),
    )
