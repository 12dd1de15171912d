"""What a figure file says, as checked values. docs/figures.md describes it for people, `reader` makes it of a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

METRIC_AXIS = "metric"
"""The axis that a panel with several metrics has besides those of the grid."""

Where = dict[str, list[Any]]
"""Axis names and the values each may take; an empty one selects everything."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """One dimension of a figure's grid."""

    name: str
    key: str | None
    """The scenario key that it sets; None if rules alone say what its values mean."""
    values: list[Any]
    labels: list[str]
    title: str

    def label(self, value: Any) -> str:
        """Give what a value is called in plots."""
        return self.labels[self.values.index(value)]


@dataclasses.dataclass(frozen=True)
class Rule:
    """Scenario keys that hold wherever `when` does."""

    when: Where
    keys: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Tune:
    """Parameters that are tried out wherever `when` holds; the figure shows the best of them."""

    when: Where
    minimise: str
    keys: dict[str, list[Any]]


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much is run: seeds 1 to `seeds`, and scenario keys such as the number of flows."""

    seeds: int
    seeds_max: int
    """While a claim is undecided, seeds are added up to this number."""
    rules: list[Rule]


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number to draw: an expression over the summary, and what it is called."""

    expression: str
    label: str


@dataclasses.dataclass(frozen=True)
class Panel:
    """One set of axes of the drawing, or one for each value of `facet`."""

    kind: str
    x: str
    y: list[Measure]
    series: str
    facet: str | None
    where: Where
    title: str
    x_label: str
    y_label: str
    course: str
    """The recorded series that a panel of kind `course` draws; x and y are then columns of it."""
    log_x: bool
    log_y: bool
    y_min: float | None
    y_max: float | None
    percent: bool


@dataclasses.dataclass(frozen=True)
class Check:
    """One measurement that a claim is held against."""

    kind: str
    paper: str
    given: str
    """Why the check cannot fail, if it cannot: it is shown, and does not count."""
    parameters: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Claim:
    """What the paper says, and the checks that all must hold."""

    id: str
    says: str
    calibrated: str
    """What was inferred from which of the paper's numbers, if the claim rests on such a value."""
    checks: list[Check]


@dataclasses.dataclass(frozen=True)
class Figure:
    """One figure of a paper."""

    name: str
    """`phost/fig3`."""
    path: Path
    title: str
    about: str
    scenario: Path
    tool: str | None
    """What is asked instead of simulating the scenario, if not None; keys are then its arguments."""
    axes: list[Axis]
    rules: list[Rule]
    tunes: list[Tune]
    scales: dict[str, Scale]
    panels: list[Panel]
    claims: list[Claim]
    notes: str

    def axis(self, name: str) -> Axis:
        """Give the axis of this name."""
        return next(axis for axis in self.axes if axis.name == name)
