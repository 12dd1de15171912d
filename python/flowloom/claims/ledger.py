"""The claims ledger: what each claim's checks found when they were last run, per figure and scale.

`papers/<paper>/claims.json` is written by runs; `papers/<paper>/causes.toml` is written by people, and no run touches it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flowloom import storage
from flowloom._native import ScenarioError
from flowloom.claims.checks import KINDS, Measured
from flowloom.figures.schema import Claim, Figure
from flowloom.locks import locked

HOLDS, DIFFERS, NOT_RUN = "holds", "differs", "not yet run"
_LEDGER, _CAUSES = "claims.json", "causes.toml"


def evaluate(claim: Claim, grid: Measured) -> dict[str, Any]:
    """Hold a claim against a figure's runs; it holds if all its checks do."""
    found = []
    for check in claim.checks:
        outcome = KINDS[check.kind](grid, **check.parameters)
        found.append({"paper": check.paper, **outcome._asdict()})
    return {"verdict": HOLDS if all(c["holds"] for c in found) else DIFFERS, "checks": found}


def record(figure: Figure, scale: str, outcomes: Mapping[str, Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    """Put a figure's outcomes into its paper's ledger; those of other figures and scales stay.

    Args:
        figure: Which figure was run; its name and folder say where to write.
        scale: At which scale.
        outcomes: What `evaluate` gave, by claim.
        about: Facts of the runs: commit, date, seeds, seconds.
    """
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
    """Sort `phost/10` after `phost/9`."""
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


def entries(figures: Sequence[Figure], scale: str | None = None) -> list[dict[str, Any]]:
    """Give the ledger of the claims that these figures answer.

    Args:
        figures: Figures of one paper or several.
        scale: Only what was found at this scale; by default the largest scale at which each figure was run.

    Returns:
        For each claim `id`, `verdict`, `paper`, `measured`, `band`, `scale`, `seconds`, and `cause` where it differs. A
        claim that several figures answer holds if it holds in all of them, and is not yet run if it is not in one.
    """
    parts: dict[str, list[tuple[Figure, Claim]]] = {}
    for figure in figures:
        for claim in figure.claims:
            parts.setdefault(claim.id, []).append((figure, claim))
    return [_entry(claim, parts[claim], scale) for claim in sorted(parts, key=claim_order)]


def _entry(claim: str, parts: list[tuple[Figure, Claim]], scale: str | None) -> dict[str, Any]:
    folder = parts[0][0].path.parent
    found: list[tuple[str, dict[str, Any]]] = []
    for figure, _ in parts:
        runs = _read(folder / _LEDGER).get(claim, {}).get(figure.path.stem, {})
        # Scales are listed from small to large in a figure file.
        at = next((s for s in reversed(list(figure.scales)) if s in runs and scale in (None, s)), None)
        if at:
            found.append((at, runs[at]))
    complete = len(found) == len(parts)
    verdict = NOT_RUN if not complete else HOLDS if all(r["verdict"] == HOLDS for _, r in found) else DIFFERS
    checks = [check for _, run in found for check in run["checks"]]
    entry = {
        "id": claim,
        "verdict": verdict,
        "paper": " ".join(dict.fromkeys(part.says for _, part in parts)),
        "measured": "; ".join(c["measured"] for c in checks),
        "band": "; ".join(c["band"] for c in checks),
        "scale": ", ".join(dict.fromkeys(at for at, _ in found)),
        "seconds": round(sum(run["seconds"] for _, run in found), 1),
        "figures": [figure.path.stem for figure, _ in parts],
        "checks": checks,
    }
    cause = _causes(folder).get(claim, {})
    return entry | ({"cause": cause} if verdict == DIFFERS and cause else {})
