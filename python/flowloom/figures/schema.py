"""The content of a figure file as checked values. docs/figures.md documents the file, and `reader` reads it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from flowloom.distributions import Quantity

METRIC_AXIS = "metric"
"""The additional axis of a panel with several metrics."""

MEANS = ("geometric", "arithmetic")

Where = dict[str, list[Any]]
"""A selection of points: axis names, each with its allowed values. An empty one selects every point."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """One dimension of a figure's grid."""

    name: str
    key: str | None
    """The scenario key that the axis sets; None if only rules depend on it."""
    values: list[Any]
    labels: list[str]
    title: str
    reading: str
    """Why the first value is the paper's set-up, if the values are readings of what the paper leaves open; empty otherwise."""

    def label(self, value: Any) -> str:
        """Return the label of a value in plots."""
        return self.labels[self.values.index(value)]


@dataclasses.dataclass(frozen=True)
class Rule:
    """Scenario keys for the points that `when` selects."""

    when: Where
    keys: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Tune:
    """Parameters with several values to try at the points that `when` selects; the figure shows the best combination."""

    when: Where
    at: Where
    """If not empty, trials at these points select one combination, for all points that differ only in these axes."""
    minimise: str
    keys: dict[str, list[Any]]


@dataclasses.dataclass(frozen=True)
class Scale:
    """The size of a figure's runs: the seeds 1 to `seeds`, and scenario keys such as the number of flows."""

    seeds: int
    seeds_max: int
    """The maximum number of seeds; seeds are added while a claim is undecided."""
    rules: list[Rule]


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number to draw: an expression over the summary, and its label."""

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
    y_label: str | None
    """The label of the y axis; None for the default, which says what is drawn."""
    course: str
    """The recorded series that a panel of kind `course` draws; x and y are then columns of it."""
    quantity: Quantity | None
    """What a panel of kind `cdf` draws the distribution of; x is then its expression, and there is no y."""
    to: Where
    """The point that y is divided by, one value of each axis; without it, y itself is drawn. The point is not drawn."""
    reduction: bool
    """Whether 1 minus the ratio is drawn instead of the ratio."""
    over: list[str]
    """The axes over whose values y is averaged."""
    mean: str
    """Which mean that is: one of `MEANS`."""
    log_x: bool
    log_y: bool
    x_min: float | None
    x_max: float | None
    y_min: float | None
    y_max: float | None
    percent: bool

    def shown(self, axis: Axis) -> list[Any]:
        """Return the values of an axis that the panel may draw, in order: those in `where`, without the one in `to`."""
        wanted, without = self.where.get(axis.name, axis.values), self.to.get(axis.name, [])
        return [value for value in axis.values if value in wanted and value not in without]


@dataclasses.dataclass(frozen=True)
class Check:
    """One measurement that a claim is compared with."""

    kind: str
    paper: str
    given: str
    """Why the check cannot fail, if it cannot. Such a check is shown, but does not count."""
    beside: str
    """Why the claim is not judged by this check, which is only shown beside the others; empty if the check counts."""
    parameters: dict[str, Any]

    @property
    def counts(self) -> bool:
        """Whether the check has a part in the claim's verdict."""
        return not (self.given or self.beside)


@dataclasses.dataclass(frozen=True)
class Claim:
    """A paper's claim, and its checks, all of which must hold."""

    id: str
    says: str
    calibrated: str
    """Which parameter was inferred from which of the paper's numbers, if the claim depends on such a parameter."""
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
    """The tool that is run instead of a simulation, if not None. The figure's keys are then its arguments."""
    axes: list[Axis]
    rules: list[Rule]
    tunes: list[Tune]
    scales: dict[str, Scale]
    panels: list[Panel]
    claims: list[Claim]
    notes: str

    @property
    def readings(self) -> Axis | None:
        """The axis whose values are readings of the paper's set-up, if there is one."""
        return next((axis for axis in self.axes if axis.reading), None)

    def axis(self, name: str) -> Axis:
        """Return the axis of this name."""
        return next(axis for axis in self.axes if axis.name == name)

    def selected(self, panel: Panel) -> Where:
        """Return the points that a panel draws. Of an axis that it does not use, that is the first value only."""
        drawn = (panel.x, panel.series, panel.facet, *panel.over)
        return {axis.name: panel.shown(axis)[: None if axis.name in drawn else 1] for axis in self.axes}
