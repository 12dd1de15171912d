"""The content of a figure file. Models declare what the file may say; docs/figures.md explains it, and `reader` reads it."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo, create_model, model_validator

from flowloom import summary, toml
from flowloom.claims import checks
from flowloom.claims.intervals import Band
from flowloom.distributions import Quantity
from flowloom.figures.fields import (
    AxisName,
    Key,
    Known,
    Metric,
    OnePoint,
    SeriesName,
    Sizes,
    Where,
    axis_name,
    check_metric,
    check_quantity,
    check_unlike,
)
from flowloom.figures.tools import TOOLS
from flowloom.metrics import label
from flowloom.models import FieldError, Model, Number, Plain, one_of
from flowloom.scenario import within
from flowloom.sweeps import RUNS_MAX
from flowloom.words import shown, suggestion

SEEDS_MAX = 1000
"""The most seeds of a figure."""
METRIC_AXIS = "metric"
"""The additional axis of a panel with several metrics."""
MEANS = ("geometric", "arithmetic")
_RESERVED = (METRIC_AXIS, "seed", "run", "tuning", "shown", "warnings")
"""Names that no axis may have, because the data of a figure have columns of these names."""
_PANELS = ("bars", "lines", "table", "cdf", "course")
_ONLY_OF = {
    **dict.fromkeys(("to", "reduction", "over", "mean"), ("bars", "lines", "table")),
    **dict.fromkeys(("x_min", "x_max"), ("lines", "course", "cdf")),
    "y": ("bars", "lines", "table", "course"),
    "course": ("course",),
    "sizes": ("cdf",),
}
"""The keys that only some kinds of panels have."""

Stripped = Annotated[str, AfterValidator(str.strip)]


class Axis(Model):
    """One dimension of a figure's grid."""

    name: Annotated[str, Field(min_length=1)]
    key: Key | None = None
    """The scenario key that the axis sets; None if only rules depend on it."""
    values: Annotated[list[Plain], Field(min_length=1)]
    labels: list[str] = Field(default_factory=lambda said: [v if isinstance(v, str) else toml.value(v) for v in said["values"]])
    title: str = Field(default_factory=lambda said: said["name"].replace("_", " ").capitalize())
    reading: Stripped = ""
    """Why the first value is the paper's set-up, if the values are readings of what the paper leaves open; empty otherwise."""

    @model_validator(mode="after")
    def _consistent(self) -> Axis:
        if self.name in _RESERVED:
            raise FieldError(
                f"no axis can be called {self.name}, since the data of a figure have a column of that name", "name"
            )
        if self.key == "run.seed":
            raise FieldError("no axis can set it: each point is run with the seeds 1, 2, and so on, as `seeds` says", "key")
        if len(self.labels) != len(self.values):
            raise FieldError(f"axis {self.name} has {len(self.values)} values and {len(self.labels)} labels", "labels")
        check_unlike("value", self.values, "values")
        if self.reading and len(self.values) < 2:
            raise FieldError(f"axis {self.name} has one value; readings of a set-up are at least two", "reading")
        if self.name == "transport" and not all(isinstance(value, str) for value in self.values):
            raise FieldError("the values of the axis transport must be names", "values")
        return self

    def label(self, value: Any) -> str:
        """Return the label of a value in plots."""
        return self.labels[self.values.index(value)]


class Rule(Model):
    """Scenario keys for the points that `when` selects."""

    when: Where = {}
    keys: dict[Key, Plain]

    def limited(self, axes: Mapping[str, Sequence[Any]]) -> Rule:
        """Return the rule for a figure whose axes may lack some of the values."""
        return self.model_copy(update={"when": _limited(self.when, axes)})


class Tune(Model):
    """Parameters with several values to try at the points that `when` selects; the figure shows the best combination."""

    when: Where = {}
    at: Where = {}
    """If not empty, trials at these points select one combination, for all points that differ only in these axes."""
    minimise: Metric
    keys: dict[Key, Annotated[list[Plain], Field(min_length=1)]]

    def limited(self, axes: Mapping[str, Sequence[Any]]) -> Tune:
        """Return the tuning for a figure whose axes may lack some of the values."""
        return self.model_copy(update={"when": _limited(self.when, axes), "at": _limited(self.at, axes)})


def _limited(where: Where, axes: Mapping[str, Sequence[Any]]) -> Where:
    return {name: [value for value in wanted if value in axes.get(name, ())] for name, wanted in where.items()}


def _applicable(entries: Any, info: ValidationInfo[Known]) -> Any:
    """Limit what another figure's file gave, and what is a model already, to the values of the axes."""
    axes = info.context.axes
    if axes is None:
        return entries
    if isinstance(entries, dict):
        return {name: each.limited(axes) if isinstance(each, Scale) else each for name, each in entries.items()}
    if not isinstance(entries, list):
        return entries
    limited = [each.limited(axes) if isinstance(each, Rule | Tune) else each for each in entries]
    return [each for each in limited if not isinstance(each, Rule | Tune) or all(each.when.values())]


class Scale(Model):
    """The size of a figure's runs: the seeds 1 to `seeds`, and scenario keys such as the number of flows."""

    seeds: Annotated[int, Field(ge=1, le=SEEDS_MAX)] = 1
    seeds_max: Annotated[int, Field(le=SEEDS_MAX)] = Field(default_factory=lambda said: said["seeds"])
    """The maximum number of seeds; seeds are added while a claim is undecided."""
    rules: list[Rule] = Field([], alias="set")
    trials: dict[Key, Plain] = {}
    """Scenario keys of trials alone, which take precedence over those of the rules."""

    @model_validator(mode="after")
    def _consistent(self) -> Scale:
        if self.seeds_max < self.seeds:
            raise FieldError(f"must be at least `seeds`, {self.seeds}", "seeds_max")
        return self

    def limited(self, axes: Mapping[str, Sequence[Any]]) -> Scale:
        """Return the scale for a figure whose axes may lack some of the values."""
        rules = [rule.limited(axes) for rule in self.rules]
        return self.model_copy(update={"rules": [rule for rule in rules if all(rule.when.values())]})


class Measure(Model):
    """A number to draw: an expression over the summary, and its label."""

    expression: str = Field(alias="metric")
    label: str = Field(default_factory=lambda said: label(said["expression"]))


def _measures(y: Any) -> Any:
    return [{"metric": y}] if isinstance(y, str) else y


def _range(said: Mapping[str, Any]) -> str:
    return Quantity.of("bytes", said["sizes"]).range


class Panel(Model):
    """One set of axes of the drawing, or one for each value of `facet`."""

    kind: Annotated[str, one_of("panel kind", _PANELS)]
    x: str
    """An axis; in a panel of kind `cdf` a quantity of flows, and in one of kind `course` a column of the series."""
    y: Annotated[list[Measure], BeforeValidator(_measures)] = []
    series: str = "transport"
    facet: AxisName | None = None
    where: Where = {}
    sizes: Sizes = {}
    title: str = Field(default_factory=_range)
    x_label: str = Field(default_factory=lambda said: label(said["x"]) if said["kind"] == "cdf" else "")
    y_label: str | None = None
    """The label of the y axis; None for the default, which says what is drawn."""
    course: SeriesName = ""
    """The recorded series that a panel of kind `course` draws; x and y are then columns of it."""
    to: OnePoint = {}
    """The point that y is divided by, one value of each axis; without it, y itself is drawn. The point is not drawn."""
    reduction: bool = False
    """Whether 1 minus the ratio is drawn instead of the ratio."""
    over: list[AxisName] = []
    """The axes over whose values y is averaged."""
    mean: Annotated[str, one_of("mean", MEANS)] = MEANS[0]
    """Which mean that is."""
    log_x: bool = False
    log_y: bool = False
    x_min: Number | None = None
    x_max: Number | None = None
    y_min: Number | None = None
    y_max: Number | None = None
    percent: bool = False

    @classmethod
    def valid_keys(cls, table: Mapping[str, Any]) -> Collection[str]:
        """Return the keys that a panel of this kind may have."""
        kind, every = table.get("kind"), super().valid_keys(table)
        return [key for key in every if kind not in _PANELS or key not in _ONLY_OF or kind in _ONLY_OF[key]]

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo[Known]) -> Panel:
        known = info.context
        self._check_drawn(known)
        if self.reduction and not self.to:
            raise FieldError("{table} needs `to`, the point that the reduction is relative to", "reduction")
        check_unlike("axis", self.over, "over")
        for name in self.over:
            if name in (self.x, self.series, self.facet):
                raise FieldError(f"the panel shows axis {name}, so it cannot average over it", "over")
        for name, values in (known.axes or {}).items():
            if not self._shown(name, values):
                raise FieldError(f"nothing is left to draw: the panel selects no other value of {name}", "to")
        for low, high, log in (("x_min", "x_max", self.log_x), ("y_min", "y_max", self.log_y)):
            self._check_ends(low, high, log)
        return self

    def _check_drawn(self, known: Known) -> None:
        """Check that the axes and the numbers of the panel exist."""
        needed = {"cdf": (), "course": ("course", "y")}.get(self.kind, ("y",))
        for key in needed:
            if not getattr(self, key):
                raise FieldError(f"{{table}} needs `{key}`", key)
        if self.kind == "cdf":
            check_quantity(self.x, known, "x")
        elif self.kind == "course":
            columns = summary.SERIES[self.course]
            for key, name in (("x", self.x), ("y", self.y[0].expression)):
                if name not in columns:
                    raise FieldError(f'series {self.course} has no "{shown(name)}": {suggestion(name, columns)}', key)
        else:
            for number, measure in enumerate(self.y):
                check_metric(measure.expression, known, "y", number, "metric")
            axis_name(self.x, known, METRIC_AXIS, below=("x",))
            if self.x == self.series:
                hint = f'with a list as y, one can be "{METRIC_AXIS}"'
                raise FieldError(f'x and series are both "{self.x}", but must be two axes; {hint}', "series")
            if len(self.y) > 1 and METRIC_AXIS not in (self.x, self.series):
                raise FieldError(f'has {len(self.y)} metrics, so x or series must be "{METRIC_AXIS}"', "y")
        axis_name(self.series, known, *([] if self.kind in ("cdf", "course") else [METRIC_AXIS]), below=("series",))

    def _check_ends(self, low: str, high: str, log: bool) -> None:
        """Check the ends of an axis of the drawing."""
        least, most = getattr(self, low), getattr(self, high)
        if least is not None and most is not None and least >= most:
            raise FieldError(f"must be more than {low}, {least}", high)
        for key, end in ((low, least), (high, most)):
            if log and end is not None and end <= 0:
                raise FieldError("must be more than 0 on a logarithmic axis", key)

    @functools.cached_property
    def quantity(self) -> Quantity | None:
        """What a panel of kind `cdf` draws the distribution of; None for other kinds."""
        return Quantity.of(self.x, self.sizes) if self.kind == "cdf" else None

    @property
    def columns(self) -> list[str]:
        """The columns that its numbers have in the figure's files, beside those of the axes."""
        if self.kind == "cdf":
            return ["quantity", "sizes", "flows", "share", "value"]
        if self.kind != "course":
            return [measure.expression for measure in self.y]
        member = [summary.MEMBERS[self.course]] if self.course in summary.MEMBERS else []
        # The spans say at which instants no row was.
        return [*member, self.x, self.y[0].expression, *(["span"] if self.rests else [])]

    @property
    def rests(self) -> bool:
        """Whether it draws a series over time in which no row means zero."""
        return self.course in summary.RESTING and self.x == "time"

    def _shown(self, axis: str, values: Sequence[Any]) -> list[Any]:
        wanted, without = self.where.get(axis, values), self.to.get(axis, [])
        return [value for value in values if value in wanted and value not in without]

    def shown(self, axis: Axis) -> list[Any]:
        """Return the values of an axis that the panel may draw, in order: those in `where`, without the one in `to`."""
        return self._shown(axis.name, axis.values)


class Check(Model):
    """One measurement that a claim is compared with. Each kind has a model of its own, with its parameters."""

    kind: str
    paper: str = ""
    given: str = ""
    """Why the check cannot fail, if it cannot. Such a check is shown, but does not count."""
    beside: str = ""
    """Why the claim is not judged by this check, which is only shown beside the others; empty if the check counts."""

    @model_validator(mode="after")
    def _consistent(self) -> Check:
        limits = [getattr(self, name) for name in ("at_least", "at_most") if name in type(self).model_fields]
        if len(limits) == 2 and not Band(*limits).can_fail:
            raise FieldError(
                "a check without limits cannot fail: give `at_least`, `at_most`, or both in ascending order", "kind"
            )
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that the file gives."""
        names = [name for name in type(self).model_fields if name not in Check.model_fields]
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}

    @property
    def counts(self) -> bool:
        """Whether the check has a part in the claim's verdict."""
        return not (self.given or self.beside)


_CHECKS: dict[str, type[Check]] = {
    kind: create_model(kind, __base__=Check, **checks.parameters(kind))  # type: ignore[call-overload]
    for kind in checks.KINDS
}
"""The models of the kinds of checks. A type checker does not see their fields, which are the parameters of functions."""


def _of_its_kind(entry: Any, info: ValidationInfo[Known]) -> Any:
    if not isinstance(entry, dict):
        return entry  # which is no check of any kind
    if "kind" not in entry:
        raise FieldError("{table} needs `kind`", "kind")
    kind = entry["kind"]
    if not isinstance(kind, str) or kind not in _CHECKS:
        raise FieldError(f'unknown check "{shown(kind)}": {suggestion(str(kind), _CHECKS)}', "kind")
    return _CHECKS[kind].model_validate(entry, context=info.context)


class Claim(Model):
    """A paper's claim, and its checks, all of which must hold."""

    id: Annotated[str, Field(min_length=1)]
    says: str
    calibrated: Stripped = ""
    """Which parameter was inferred from which of the paper's numbers, if the claim depends on such a parameter."""
    checks: list[Annotated[Check, BeforeValidator(_of_its_kind)]] = Field(alias="check")

    @model_validator(mode="after")
    def _consistent(self) -> Claim:
        if not any(check.counts for check in self.checks):
            raise FieldError("a claim needs at least one check that counts: one without `given` and `beside`", "check")
        return self


def _note_tool(tool: str | None, info: ValidationInfo[Known]) -> str | None:
    info.context.tool = tool
    return tool


def _note_axes(axes: list[Axis], info: ValidationInfo[Known]) -> list[Axis]:
    info.context.axes = {axis.name: axis.values for axis in axes}
    return axes


class Figure(Model):
    """One figure of a paper."""

    # The rest of the file is checked with the tool and the axes, so these two come first.
    tool: Annotated[str | None, one_of("tool", TOOLS), AfterValidator(_note_tool)] = None
    """The tool that is run instead of a simulation, if not None. The figure's keys are then its arguments."""
    axes: Annotated[list[Axis], Field(min_length=1), AfterValidator(_note_axes)] = Field(alias="axis")
    title: str
    about: Stripped = ""
    extends: str | None = None
    """The file of the figure whose runs this figure shares."""
    scenario_file: str = Field("default.toml", alias="scenario")
    rules_set: Annotated[list[Rule], BeforeValidator(_applicable)] = Field([], alias="set")
    rules_added: list[Rule] = Field([], alias="add")
    minimise: Metric | None = None
    """The metric of all inherited tunings, if it is not theirs."""
    tunes: Annotated[list[Tune], BeforeValidator(_applicable)] = Field([], alias="tune")
    scales: Annotated[dict[str, Scale], BeforeValidator(_applicable)] = Field(alias="scale")
    panels: list[Panel] = Field([], alias="panel")
    claims: list[Claim] = Field([], alias="claim")
    notes: Stripped = ""
    _path: Path = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Note the file."""
        self._path = context.path

    @model_validator(mode="after")
    def _consistent(self) -> Figure:
        check_unlike("name", [axis.name for axis in self.axes], "axis")
        check_unlike("key", [axis.key for axis in self.axes if axis.key], "axis")
        check_unlike("id", [claim.id for claim in self.claims], "claim")
        if len(of_readings := [axis.name for axis in self.axes if axis.reading]) > 1:
            raise FieldError(f"a figure has at most one axis of readings, not {' and '.join(of_readings)}", "axis")
        ruled = {name for rule in self.rules for name in rule.when}
        for number, axis in enumerate(self.axes):
            if axis.key is None and axis.name not in ruled:
                needs = "it needs `key`, or a [[set]] whose `when` names it"
                raise FieldError(f"axis {axis.name} sets nothing: {needs}", "axis", number)
            later = [other for other in self.axes[number + 1 :] if axis.key and other.key and within(axis.key, other.key)]
            if later:
                whole = f"axis {later[0].name}, which comes after it, sets the whole table {later[0].key}"
                raise FieldError(f"axis {axis.name} has no effect: {whole}; let {later[0].name} come first", "axis", number)
        self._check_tuned()
        metrics = [check.parameters.get("metric") for claim in self.claims for check in claim.checks]
        columns = [*metrics, *(column for panel in self.panels for column in panel.columns)]
        for number, axis in enumerate(self.axes):
            if axis.name in columns:
                raise FieldError(
                    f"axis {axis.name} has the name of a column in the figure's files; give it another", "axis", number
                )
        if "quick" not in self.scales:
            raise FieldError("a figure needs [scale.quick]", "scale")
        for name, scale in self.scales.items():
            runs = scale.seeds_max * math.prod(len(axis.values) for axis in self.axes)
            if runs > RUNS_MAX:
                raise FieldError(f"the figure has up to {runs} runs; the limit is {RUNS_MAX}", "scale", name)
        if self.extends is None and (extra := {"add", "minimise"} & {*self.model_fields_set}):
            raise FieldError("is for figures with `extends`", *extra)
        return self

    def _check_tuned(self) -> None:
        """Check that tunings leave alone what axes set: the labels of their values would be wrong."""
        for number, tune in enumerate(self.tunes):
            for key in tune.keys:
                if axis := next((axis for axis in self.axes if axis.key and within(axis.key, key)), None):
                    raise FieldError(
                        f"a tuning cannot try values of {key}, as axis {axis.name} sets {axis.key}", "tune", number, "keys", key
                    )

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def name(self) -> str:
        """The names of the folder and of the file: `phost/fig3`."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def scenario(self) -> Path:
        """The file of the base scenario."""
        return self.path.parent / self.scenario_file

    @property
    def rules(self) -> list[Rule]:
        """All rules, in the order in which they apply."""
        return [*self.rules_set, *self.rules_added]

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
