"""The claims ledger: the outcome of each claim's checks in their last run, by figure and scale.

Runs write `papers/<paper>/claims.json`; `papers/<paper>/causes.toml` is written by hand. An entry records what was run, with
the digests of that time (`claims.digests`). If they are not the same as today's, the entry is stale.
"""

from __future__ import annotations

import functools
import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flowloom import storage
from flowloom._native import ScenarioError
from flowloom.claims import digests
from flowloom.claims.checks import KINDS, Outcome
from flowloom.claims.digests import Digests
from flowloom.claims.intervals import DIFFERS, HOLDS, UNDECIDED, worst
from flowloom.figures.grid import Grid
from flowloom.figures.schema import Claim, Figure
from flowloom.locks import locked

CALIBRATED, NOT_RUN = "calibrated", "not yet run"
VERDICTS = (HOLDS, DIFFERS, UNDECIDED, CALIBRATED, NOT_RUN)
_WORST_FIRST = (NOT_RUN, DIFFERS, UNDECIDED, CALIBRATED, HOLDS)
_LEDGER, _CAUSES = "claims.json", "causes.toml"

Today = Callable[[Sequence[tuple[Figure, str]]], Mapping[tuple[str, str], Digests | str]]


def evaluate(claim: Claim, grid: Grid) -> dict[str, Any]:
    """Compare a claim with a figure's runs. The worst verdict of its checks is the claim's verdict.

    If the figure has several readings of the paper's set-up, the first decides. What the checks give under the others is
    recorded beside it.
    """
    _, *others = readings = grid.readings()
    found = []
    for check in claim.checks:
        outcomes = {label: KINDS[check.kind](runs, **check.parameters) for label, runs in readings.items()}
        outcome = next(iter(outcomes.values()))
        value, low, high = (x if math.isfinite(x) else None for x in outcome.decisive)
        found.append(
            {
                "paper": check.paper,
                "verdict": outcome.verdict,
                "measured": outcome.measured,
                "band": outcome.band,
                "value": value,
                "interval": [low, high] if low != high else None,
                **({"given": check.given} if check.given else {}),
                **({"beside": check.beside} if check.beside else {}),
                **({"readings": {name: _briefly(outcomes[name]) for name in others}} if others else {}),
            }
        )
    return {"verdict": _verdict(claim, found), "checks": found}


def _briefly(outcome: Outcome) -> dict[str, str]:
    return {"verdict": outcome.verdict, "measured": outcome.measured}


def _verdict(claim: Claim, checks: Sequence[Mapping[str, Any]]) -> str:
    verdict = worst(check["verdict"] for check in checks if not check.keys() & {"given", "beside"})
    return CALIBRATED if verdict == HOLDS and claim.calibrated else verdict


def record(figure: Figure, scale: str, outcomes: Mapping[str, Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    """Write a figure's outcomes to its paper's ledger. Entries of other figures and scales stay.

    Args:
        figure: The figure that was run.
        scale: Its scale.
        outcomes: The results of `evaluate`, by claim.
        about: Facts about the runs: seeds, runs, seconds, commit, clean, date, and the digests if they could be computed.
    """
    if not outcomes:
        return
    path = figure.path.parent / _LEDGER
    # Figures of a paper may be run at the same time, and none may lose what another has found.
    with locked(path.with_name(f".{_LEDGER}.lock"), wait=True):
        ledger = _read(path)
        for claim, outcome in outcomes.items():
            ledger.setdefault(claim, {}).setdefault(figure.path.stem, {})[scale] = {**outcome, **about}
        ordered = {claim: dict(sorted(ledger[claim].items())) for claim in sorted(ledger, key=claim_order)}
        with storage.whole_file(path) as fresh:
            storage.write_json(fresh, ordered)


def claim_order(claim: str) -> tuple[str, int]:
    """Return a sort key that places `phost/10` after `phost/9`."""
    paper, _, number = claim.partition("/")
    return paper, int(number) if number.isdigit() else 0


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        ledger = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ScenarioError(f"{path} is damaged ({error}); restore it from version control, or delete it") from error
    return ledger if isinstance(ledger, dict) else {}


def _causes(folder: Path) -> dict[str, dict[str, str]]:
    path = folder / _CAUSES
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: {error}") from error


def runs_of(figure: Figure) -> dict[str, dict[str, Any]]:
    """Return the ledger's facts about a figure's runs by scale (seeds, runs, seconds), from the entry of one of its claims."""
    ledger = _read(figure.path.parent / _LEDGER)
    found: dict[str, dict[str, Any]] = {}
    for claim in figure.claims:
        found |= ledger.get(claim.id, {}).get(figure.path.stem, {})
    return found


def fresh(figures: Sequence[Figure], scale: str, today: Today = digests.today) -> set[str]:
    """Return the names of fresh figures: each claim has an entry at this scale that is not stale and needs no more seeds."""
    asked = [figure for figure in figures if figure.claims and scale in figure.scales]
    now = today([(figure, scale) for figure in asked])
    found = set()
    for figure in asked:
        ledger = _read(figure.path.parent / _LEDGER)
        entries = [ledger.get(claim.id, {}).get(figure.path.stem, {}).get(scale) for claim in figure.claims]
        seeds_max = figure.scales[scale].seeds_max
        if all(e and not _stale(e, now[figure.name, scale]) and not _wants_seeds(e, seeds_max) for e in entries):
            found.add(figure.name)
    return found


def _wants_seeds(entry: Mapping[str, Any], seeds_max: int) -> bool:
    return bool(entry["verdict"] == UNDECIDED and entry["seeds"] < seeds_max)


def _stale(entry: Mapping[str, Any], today: Digests | str) -> str:
    """Return why an entry is not valid for today's simulator; empty if it is."""
    if "behaviour" not in entry:
        return "it has no digest of what was run"
    if isinstance(today, str):
        return f"it cannot be compared with today's simulator: {today}"
    if entry["inputs"] != today.inputs:
        return "the figure's scenarios or checks have changed since then"
    return "" if entry["behaviour"] == today.behaviour else "the simulator's behaviour has changed since then"


def entries(figures: Sequence[Figure], scale: str | None = None, today: Today = digests.today) -> list[dict[str, Any]]:
    """Return the ledger's entries for the claims of these figures.

    Args:
        figures: Figures of one paper or several.
        scale: Only entries of this scale; by default each figure's largest scale that was run.
        today: Computes today's digests.

    Returns:
        For each claim `id`, `verdict`, `paper`, `measured`, `band`, `scale`, `seconds`, `commit`, `date` (the earliest),
        `seeds` (the fewest), `stale`; `calibrated` and `cause` if there is such a text; and `parts`, with the same for each
        figure. If several figures check a claim, the worst verdict counts: not yet run, then differs, undecided, calibrated,
        holds. The claim is stale if one of its parts is.
    """
    read = functools.cache(_read)
    parts: dict[str, list[tuple[Figure, Claim, str, dict[str, Any]]]] = {}
    for figure in figures:
        for claim in figure.claims:
            runs = read(figure.path.parent / _LEDGER).get(claim.id, {}).get(figure.path.stem, {})
            # Scales are listed from small to large in a figure file.
            at = next((s for s in reversed(list(figure.scales)) if s in runs and scale in (None, s)), "")
            parts.setdefault(claim.id, []).append((figure, claim, at, runs.get(at, {})))
    wanted = {(f.name, at): (f, at) for every in parts.values() for f, _, at, run in every if "behaviour" in run}
    now = today(list(wanted.values()))
    return [_entry(claim, parts[claim], now) for claim in sorted(parts, key=claim_order)]


def _entry(
    claim: str,
    parts: list[tuple[Figure, Claim, str, dict[str, Any]]],
    now: Mapping[tuple[str, str], Digests | str],
) -> dict[str, Any]:
    found = [_part(figure, each, at, run, now.get((figure.name, at), "")) for figure, each, at, run in parts if at]
    verdicts = {p["verdict"] for p in found} | ({NOT_RUN} if len(found) < len(parts) else set())
    verdict = next(v for v in _WORST_FIRST if v in verdicts)
    checks = [check for _, _, _, run in parts for check in run.get("checks", [])]

    def together(name: str) -> str:
        return ", ".join(dict.fromkeys(p[name] for p in found))

    entry = {
        "id": claim,
        "verdict": verdict,
        "paper": " ".join(dict.fromkeys(each.says for _, each, _, _ in parts)),
        "measured": "; ".join(c["measured"] for c in checks),
        "band": "; ".join(c["band"] for c in checks),
        "scale": together("scale"),
        "seconds": round(sum(p["seconds"] for p in found), 1),
        "commit": together("commit") or None,
        "date": min((p["date"] for p in found), default=None),
        "seeds": min((p["seeds"] for p in found), default=None),
        "stale": any(p["stale"] for p in found),
        "figures": [figure.path.stem for figure, _, _, _ in parts],
        "parts": found,
        "checks": checks,
    }
    if calibrated := " ".join(dict.fromkeys(each.calibrated for _, each, _, _ in parts if each.calibrated)):
        entry["calibrated"] = calibrated
    cause = _causes(parts[0][0].path.parent).get(claim, {})
    return entry | ({"cause": cause} if verdict in (DIFFERS, UNDECIDED) and cause else {})


def _part(figure: Figure, claim: Claim, scale: str, run: Mapping[str, Any], today: Digests | str) -> dict[str, Any]:
    because = _stale(run, today)
    commit = run.get("commit") or "unknown"
    return {
        "figure": figure.path.stem,
        "verdict": _verdict(claim, run["checks"]),
        "scale": scale,
        "seeds": run["seeds"],
        "seconds": run["seconds"],
        "commit": commit if run.get("clean", True) else f"{commit}+",
        "date": run["date"],
        "stale": bool(because),
        **({"stale_because": because} if because else {}),
    }
