"""Tools that a figure can run instead of the simulator."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from flowloom import provenance, toml
from flowloom._native import ScenarioError
from flowloom.models import Model, Number, problem
from flowloom.results import Results
from flowloom.scenario import engine_id
from flowloom.words import suggestion


class _Arguments(Model):
    """The arguments of `flowloom.thresholds` that a figure can give."""

    sizes: str
    load: Number | list[Number]
    queues: int = 8
    reading: str = "bursts"
    over: str = "worst"
    dialect: str | None = None


@dataclasses.dataclass(frozen=True)
class ThresholdSearch:
    """Arguments of `flowloom.thresholds`, which are the figure's keys."""

    arguments: tuple[tuple[str, Any], ...] = ()

    def set(self, changes: Mapping[str, Any]) -> ThresholdSearch:
        """Add arguments; a later value replaces an earlier one.

        Raises:
            ScenarioError: There is no such argument.
        """
        for name in changes:
            if name not in _Arguments.model_fields:
                raise ScenarioError(f"thresholds has no argument {name}: {suggestion(name, _Arguments.model_fields)}")
        return ThresholdSearch(tuple((dict(self.arguments) | dict(changes)).items()))

    def key(self) -> str:
        """Return the key of the result: a hash of the arguments and of the solver.

        Raises:
            ScenarioError: An argument is missing, of another type, or out of range.
        """
        from flowloom.demotion.analytic import check

        try:
            given = _Arguments.model_validate(dict(self.arguments))
        except ValidationError as error:
            found = problem(error, dict(self.arguments), "thresholds")
            raise ScenarioError(f"thresholds: {found.key}: {found.message}") from None
        loads = given.load if isinstance(given.load, list) else [given.load]
        check(loads, given.queues, given.reading, given.over)
        text = f"{engine_id()}\n{_solver_id()}\n{toml.document(dict(sorted(self.arguments)))}"
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def search_thresholds(question: ThresholdSearch, progress: Callable[[float, float, int], None] | None = None) -> Results:
    """Compute thresholds. The summary has the objectives found, searched, equal_split and published, and queues_used."""
    from flowloom.demotion.analytic import thresholds

    begin = time.perf_counter()
    found = thresholds(**dict(question.arguments))
    if progress:
        progress(1.0, 0.0, 0)
    at = found.loads[-1]
    rivals = {rival.name.partition(" (")[0].replace(" ", "_"): rival.objective for rival in at.rivals}
    summary = {
        "found": at.objective,
        "searched": at.searched,
        "equal_split": rivals["equal_split"],
        "published": rivals.get("published"),
        "queues_used": len(found.thresholds) + 1,
    }
    wall_s = time.perf_counter() - begin
    record = provenance.record(None, wall_s, None)
    asked = toml.document({"thresholds": dict(question.arguments)})
    return Results(summary | {"wall_s": wall_s}, asked, record, _series={})


@functools.cache
def _solver_id() -> str:
    digest = hashlib.sha256()
    for path in sorted((Path(__file__).resolve().parents[1] / "demotion").glob("*.*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Tool(NamedTuple):
    """A computation that takes the place of the simulator."""

    question: Callable[[], Any]
    """Creates a set of arguments, still empty."""
    answer: Callable[..., Results]
    """Computes the results for a set of arguments."""
    metrics: tuple[str, ...]
    """The numbers of its summary."""


TOOLS = {
    "thresholds": Tool(
        ThresholdSearch,
        search_thresholds,
        ("found", "searched", "equal_split", "published", "queues_used", "wall_s"),
    )
}
"""The tools, by a figure's `tool`."""
