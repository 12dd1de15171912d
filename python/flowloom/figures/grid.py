"""A figure's runs: the plan, and the numbers once the runs are finished."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from flowloom import diagnosis, distributions, metrics, toml
from flowloom._native import ScenarioError
from flowloom.distributions import Distribution, Quantity
from flowloom.engine import simulate
from flowloom.figures.blame import blamed
from flowloom.figures.fields import Where
from flowloom.figures.schema import SEEDS_MAX, Axis, Figure, Panel, Tune
from flowloom.figures.tools import TOOLS
from flowloom.jobs import Blame, Job
from flowloom.results import Results
from flowloom.scenario import Scenario, dotted, within
from flowloom.series import instants
from flowloom.stats import Estimate, estimate, paired_ratios
from flowloom.summary import MEMBERS
from flowloom.words import suggestion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


AMOUNTS = ("flows", "requests", "coflows")
"""Keys of a workload that set its length."""
TRIAL_SEED = SEEDS_MAX + 1
"""The seed of the runs that select parameters for a whole figure. No point of a figure has it."""


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """One run of the grid."""

    point: dict[str, Any]
    seed: int
    tuning: dict[str, Any]
    """The parameters of this tuning; empty if the figure tunes nothing here."""
    minimise: str
    """The metric that selects the best tuning of a point."""
    job: Job


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is run at one point of the grid, without the seed."""

    point: dict[str, Any]
    tuning: dict[str, Any]
    minimise: str
    question: Any
    """A scenario, or the arguments of a tool."""
    trial: bool = False
    """Whether this run only selects parameters, and is not a point of the figure."""


Chosen = dict[tuple[str, ...], dict[str, Any]]
"""The parameters that trials selected, by the tuning and the point without the axes of its `at`."""


def settings(
    figure: Figure, scale: str, changes: Mapping[str, Any] | None = None, chosen: Chosen | None = None
) -> Iterator[Setting]:
    """Return what is run at every point of a figure. The scenarios are not checked yet.

    Args:
        figure: The figure.
        scale: `quick`, `full`, or another scale of the file.
        changes: Scenario keys that take precedence over those of the figure.
        chosen: The parameters that trials selected. Without it, the trials are part of the settings, and the points that
            depend on them have the parameters of the scenario.

    Raises:
        ScenarioError: The figure has no such scale, its base scenario cannot be read, or a change would override what an axis
            or a tuning means.
    """
    if scale not in figure.scales:
        raise ScenarioError(f'{figure.name} has no scale "{scale}": {suggestion(scale, figure.scales)}')
    changes = dotted(changes or {})
    for key in changes:
        if owner := _owner(figure, key):
            raise ScenarioError(f"{key} cannot be set for {figure.name}: its {owner}")
    base, _ = question(figure)
    for point in points(figure.axes):
        rules = [rule.keys for rule in [*figure.rules, *figure.scales[scale].rules] if matches(point, rule.when)]
        keys = _layered(*rules, {axis.key: point[axis.name] for axis in figure.axes if axis.key})
        for tuning, minimise, trial in _tunings(figure, point, chosen):
            apart = figure.scales[scale].trials if trial else {}
            try:
                asked = base.set(_layered(keys, apart, tuning, changes))
            except ScenarioError as error:
                raise blamed(error, figure, scale, name(figure.axes, point), changes) from None
            yield Setting(point, tuning, minimise, asked, trial)


def _owner(figure: Figure, key: str) -> str:
    """Return the part of a figure whose meaning a key is, with what may be done instead; empty if a user may set the key.

    Labels would be wrong if users could override the key of an axis, a key that rules do not give the same value along an axis
    without a key, or one that a tuning tries. Rules of scales only say how large runs are.
    """
    if key == "run.seed":
        return "runs have the seeds 1, 2, and so on"
    keyed = [(f"axis {axis.name} sets {{}}", axis.key, "[[axis]]") for axis in figure.axes if axis.key]
    tuned = [("tuning tries values of {}", tuned, "[[tune]]") for tune in figure.tunes for tuned in tune.keys]
    ruled = [
        (f"axis {axis.name} sets {{}} with rules", found, "[[add]]")
        for axis in figure.axes
        if axis.key is None and (found := _ruled(figure, axis, key))
    ]
    for what, owned, table in [*keyed, *tuned, *ruled]:
        if within(owned, key) or within(key, owned):
            name = "this key" if owned == key else owned
            return f"{what.format(name)}; a figure that extends it can have its own {table}"
    return ""


def _ruled(figure: Figure, axis: Axis, key: str) -> str:
    """Return the key of which rules say different things along an axis, if it concerns a key; empty if there is none."""
    along: dict[str, list[dict[str, Any]]] = {}
    for point in points(figure.axes):
        keys = _layered(*(rule.keys for rule in figure.rules if matches(point, rule.when)))
        along.setdefault(toml.value(point[axis.name]), []).append(_said(keys, key))
    first, *others = along.values()
    pairs = (pair for other in others for pair in zip(first, other, strict=True))
    return next((owned for one, two in pairs for owned in one | two if one.get(owned) != two.get(owned)), "")


def _said(keys: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return by key what some keys say of one: of it, its parts, or what it is a part of."""
    found = {}
    for own, value in keys.items():
        if within(own, key):
            found[own] = value
        elif within(key, own):
            for name in key.removeprefix(f"{own}.").split("."):
                if not isinstance(value, Mapping):
                    break  # a list or a text, of which the key is a part
                own, value = f"{own}.{name}", None if name in AMOUNTS else value.get(name)
            found[own] = value
    return found


def _layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of several layers, each where its last layer has it: a key may set a table that others set a part of."""
    keys: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            keys = {other: said for other, said in keys.items() if not within(other, key)}
            keys[key] = value
    return keys


def plan(
    figure: Figure,
    scale: str,
    seeds: int | None = None,
    changes: Mapping[str, Any] | None = None,
    chosen: Chosen | None = None,
) -> list[PlannedRun]:
    """Return every run of a figure, and check all scenarios.

    Args:
        figure: The figure.
        scale: Its scale.
        seeds: The number of seeds, instead of the scale's.
        changes: Scenario keys that take precedence over those of the figure.
        chosen: The parameters that trials selected, from `choose`.

    Raises:
        ScenarioError: A scenario is not valid, or the figure has no such scale.
    """
    changes = dotted(changes or {})
    found = [setting for setting in settings(figure, scale, changes, chosen) if not setting.trial]
    return _planned(figure, scale, found, range(1, (seeds or figure.scales[scale].seeds) + 1), changes)


def trials(figure: Figure, scale: str, changes: Mapping[str, Any] | None = None) -> list[PlannedRun]:
    """Return the runs that select parameters for a whole figure, and check their scenarios.

    Raises:
        ScenarioError: A scenario is not valid, or the figure has no such scale.
    """
    changes = dotted(changes or {})
    found = [setting for setting in settings(figure, scale, changes) if setting.trial]
    return _planned(figure, scale, found, [TRIAL_SEED], changes)


def choose(figure: Figure, runs: Sequence[PlannedRun], made: Mapping[str, Results]) -> Chosen:
    """Return the parameters with the smallest mean over the trials, for each combination of the axes outside `at`."""
    groups: dict[tuple[str, ...], list[PlannedRun]] = {}
    for run in runs:
        tune = _tune(figure, run.point)
        assert tune is not None
        groups.setdefault(_group(figure, tune, run.point), []).append(run)
    return {group: _least(candidates, made)[0].tuning for group, candidates in groups.items()}


def _planned(
    figure: Figure, scale: str, found: Sequence[Setting], seeds: Sequence[int], changes: Mapping[str, Any]
) -> list[PlannedRun]:
    _, run = question(figure)
    runs = []
    for at, seed in itertools.product(found, seeds):
        point = name(figure.axes, at.point)
        words = ["trial"] * at.trial + [point, *map(str, at.tuning.values()), f"seed {seed}"]
        asked = at.question if figure.tool else at.question.set({"run.seed": seed})
        job = Job.of(", ".join(words), asked, run, _blame(figure, scale, point, changes))
        runs.append(PlannedRun(at.point, seed, at.tuning, at.minimise, job))
    return runs


def _blame(figure: Figure, scale: str, at: str, keys: Mapping[str, Any]) -> Blame:
    return lambda error: blamed(error, figure, scale, at, keys)


def question(figure: Figure) -> tuple[Any, Callable[..., Results]]:
    """Return the object in which a figure sets its keys, and the function that computes results from it."""
    if figure.tool is None:
        try:
            return Scenario.of(figure.scenario), simulate
        except ScenarioError as error:
            raise ScenarioError(f"{figure.path}: scenario: {error}") from error
    tool = TOOLS[figure.tool]
    return tool.question(), tool.answer


def _tunings(figure: Figure, point: Mapping[str, Any], chosen: Chosen | None) -> Iterator[tuple[dict[str, Any], str, bool]]:
    """Return the parameters that are run at a point, each with the metric that selects one, and whether it is a trial."""
    tune = _tune(figure, point)
    if tune is None:
        yield {}, "", False
    elif tune.at and chosen is not None:
        yield chosen[_group(figure, tune, point)], "", False
    else:
        if tune.at:
            yield {}, "", False
        if matches(point, tune.at):
            for values in itertools.product(*tune.keys.values()):
                yield dict(zip(tune.keys, values, strict=True)), tune.minimise, bool(tune.at)


def _tune(figure: Figure, point: Mapping[str, Any]) -> Tune | None:
    return next((tune for tune in figure.tunes if matches(point, tune.when)), None)


def _group(figure: Figure, tune: Tune, point: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the points that share a choice of a tuning have in common."""
    number = figure.tunes.index(tune)
    return (str(number), *(toml.value(point[axis.name]) for axis in figure.axes if axis.name not in tune.at))


def _least(runs: Sequence[PlannedRun], made: Mapping[str, Results]) -> list[PlannedRun]:
    """Return the runs of the tuning with the smallest mean.

    One that has no value in some runs loses to those that lack fewer: its mean is over other runs. Then one that leaves flows
    unfinished loses to one that does not.
    """
    tried: dict[str, list[PlannedRun]] = {}
    for run in runs:
        tried.setdefault(toml.value(run.tuning), []).append(run)

    def cost(candidates: list[PlannedRun]) -> tuple[int, bool, float]:
        found = [made[run.job.key].summary for run in candidates]
        mean, _, known = estimate([metrics.evaluate(run.minimise, each) for run, each in zip(candidates, found, strict=True)])
        return len(found) - known, any(map(_is_unfinished, found)), mean

    return min(tried.values(), key=cost) if len(tried) > 1 else list(runs)


def _is_unfinished(summary: Mapping[str, Any]) -> bool:
    """Return whether flows of a run did not finish, though none gave them up. Means do not count these; tools have no flows."""
    flows, finished, aborted = (summary.get(key) or 0 for key in ("flows", "finished", "aborted"))
    return bool(flows > finished + aborted)


def points(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """Return every combination of the axes' values; the last axis varies fastest."""
    return [dict(zip((a.name for a in axes), values, strict=True)) for values in itertools.product(*(a.values for a in axes))]


def matches(point: Mapping[str, Any], where: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether a point lies in a selection."""
    return all(axis in point and point[axis] in wanted for axis, wanted in where.items())


def name(axes: Sequence[Axis], point: Mapping[str, Any]) -> str:
    """Return a point's name: its labels, with the axis's name before numbers. Axes with one value are left out."""
    words = []
    for axis in axes:
        if axis.name in point and len(axis.values) > 1:
            # Labels of ticks may have several lines.
            text = " ".join(axis.label(point[axis.name]).split()) or toml.value(point[axis.name])
            words.append(f"{axis.name.replace('_', ' ')} {text}" if text[0].isdigit() else text)
    return ", ".join(words)


class Grid:
    """The numbers of a figure, for checks and plots. Of several tunings of a point, only the best one counts."""

    def __init__(
        self, figure: Figure, runs: Sequence[PlannedRun], made: Mapping[str, Results], tried: Sequence[PlannedRun] = ()
    ) -> None:
        """Combine the planned runs, and the trials, with their results by key."""
        self.figure = figure
        self.runs = list(runs)
        self.tried = list(tried)
        self.made = made
        self._at: dict[tuple[str, ...], list[PlannedRun]] = {}
        for run in runs:
            self._at.setdefault(self._place(run.point), []).append(run)
        self._chosen = {place: _least(candidates, made) for place, candidates in self._at.items()}

    def _place(self, point: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(toml.value(point[axis.name]) for axis in self.figure.axes)

    def chosen(self, run: PlannedRun) -> bool:
        """Return whether the figure shows a run."""
        return run.seed != TRIAL_SEED and run in self._chosen[self._place(run.point)]

    def points(self, where: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
        """Return the grid's points in a selection, in the order of the axes."""
        return [point for point in points(self.figure.axes) if matches(point, where)]

    def values_of(self, axis: str) -> list[Any]:
        """Return an axis's values in order."""
        return self.figure.axis(axis).values

    def name(self, point: Mapping[str, Any]) -> str:
        """Return a point's name for messages."""
        return name(self.figure.axes, point)

    def readings(self) -> dict[str, Reading]:
        """Return the runs under each reading of the paper's set-up, by its label. Claims are judged by the first."""
        axis = self.figure.readings
        if axis is None:
            return {"": Reading(self, {})}
        return {axis.label(value): Reading(self, {axis.name: [value]}) for value in axis.values}

    def samples(self, metric: str, point: Mapping[str, Any]) -> list[float]:
        """Return a metric for each seed, in the order of seeds."""
        return [metrics.evaluate(metric, self.made[run.job.key].summary) for run in self._chosen[self._place(point)]]

    def estimate(self, metric: str, point: Mapping[str, Any]) -> Estimate:
        """Return a metric's mean over seeds with its confidence interval."""
        return estimate(self.samples(metric, point))

    def drawn(self, panel: Panel, metric: str, point: Mapping[str, Any]) -> Estimate:
        """Return what a panel draws of a metric at a point: its mean, or that of its ratio to the panel's `to`, by seed."""
        here = self._averaged(panel, metric, point)
        if not panel.to:
            return estimate(here)
        other = {axis: values[0] for axis, values in panel.to.items()}
        there = self._averaged(panel, metric, {**point, **other})
        if 0 in there:
            return estimate([])  # the mean of the other seeds would be biased
        ratios = paired_ratios(here, there)
        return estimate([1 - ratio for ratio in ratios] if panel.reduction else ratios)

    def _averaged(self, panel: Panel, metric: str, point: Mapping[str, Any]) -> list[float]:
        """Return a metric for each seed: its mean over the axes that the panel averages over."""
        if not panel.over:
            return self.samples(metric, point)
        axes = [self.figure.axis(name) for name in panel.over]
        places = itertools.product(*(panel.shown(axis) for axis in axes))
        by_place = [self.samples(metric, {**point, **dict(zip(panel.over, place, strict=True))}) for place in places]
        by_seed = list(zip(*by_place, strict=True))
        if panel.mean == "arithmetic":
            return [statistics.fmean(values) for values in by_seed]
        return [statistics.geometric_mean(values) if min(values) > 0 else math.nan for values in by_seed]

    def _values(self, quantity: Quantity, point: Mapping[str, Any]) -> list[NDArray[np.float64]]:
        """Return a quantity's values for each seed. Flow tables are not kept in memory, as those of all runs may not fit."""
        made = [self.made[run.job.key] for run in self._chosen[self._place(point)]]
        return [quantity.values((run.without_flows() if run.directory else run).flows) for run in made]

    def quantiles(self, quantity: Quantity, point: Mapping[str, Any]) -> list[list[float]]:
        """Return the quantiles of a quantity for each seed, in the order of seeds."""
        return [distributions.quantiles(values).tolist() for values in self._values(quantity, point)]

    def distribution(self, quantity: Quantity, point: Mapping[str, Any]) -> Distribution:
        """Return the distribution of a quantity over the flows of all seeds."""
        import numpy as np

        values = np.concatenate(self._values(quantity, point))
        return Distribution(len(values), distributions.quantiles(values))

    def recorded(self, series: str, columns: Sequence[str], point: Mapping[str, Any]) -> list[list[tuple[Any, ...]]]:
        """Return columns of a recorded series for each seed, row by row."""
        found = []
        for run in self._chosen[self._place(point)]:
            recorded = self.made[run.job.key].series
            if series not in recorded:
                raise ScenarioError(f'the run has no series "{series}": {suggestion(series, recorded)}')
            table = recorded[series]
            for column in columns:
                if column not in table.column_names:
                    raise ScenarioError(f'series {series} has no "{column}": {suggestion(column, table.column_names)}')
            found.append(list(zip(*(table[column].to_pylist() for column in columns), strict=True)))
        return found

    def course(self, series: str, x: str, y: str, point: Mapping[str, Any]) -> list[tuple[list[float], list[float]]]:
        """Return two columns of a recorded series for each seed, without rows that lack one of the two."""
        return [_line(rows) for rows in self.recorded(series, (x, y), point)]

    def lines(self, panel: Panel, point: Mapping[str, Any]) -> list[tuple[list[float], list[float]]]:
        """Return what a panel of kind `course` draws of each seed, and of each link, flow, host or job if it names them.

        Over time, a link, a queue or a host without a row is at zero.
        """
        if panel.course not in MEMBERS:
            return self.course(panel.course, panel.x, panel.y[0].expression, point)
        found: list[tuple[list[float], list[float]]] = []
        for rows in self.recorded(panel.course, panel.columns, point):
            by_member: dict[Any, list[tuple[Any, ...]]] = {}
            for member, x, y, *_ in rows:
                by_member.setdefault(member, []).append((x, y))
            if panel.rests and rows:
                every = _instants(rows)
                values = [dict(own) for own in by_member.values()]
                found += [(every, [known.get(at, 0.0) for at in every]) for known in values]
            else:
                found += map(_line, by_member.values())
        return found

    def rows(self, expressions: Sequence[str]) -> list[dict[str, Any]]:
        """Return a row per run: its point, seed, key, tuning, whether the figure shows it, the metrics and the warnings."""
        rows = []
        for run in [*self.runs, *self.tried]:
            point = self._cells(run.point)
            extra: dict[str, Any] = {"seed": run.seed, "run": run.job.key}
            if self.figure.tunes:
                extra |= {"tuning": toml.value(run.tuning), "shown": self.chosen(run)}
            numbers = {e: metrics.evaluate(e, self.made[run.job.key].summary) for e in expressions}
            warned = ", ".join(found.flag for found in self.made[run.job.key].warnings)
            rows.append(point | extra | numbers | {"warnings": warned})
        return rows

    def _cells(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return a point's values as the columns of a table can hold them, which have one type each."""
        return {name: _cell(value, self.figure.axis(name).values) for name, value in point.items()}

    def warnings(self) -> list[str]:
        """Return the warnings of the runs that the figure shows, in a few lines."""
        return diagnosis.grouped((run.job.label, self.made[run.job.key].warnings) for run in self.runs if self.chosen(run))

    def course_rows(self, series: str) -> list[dict[str, Any]]:
        """Return a row per run and row of a recorded series, with the columns that the panels of the series draw."""
        drawn = [panel for panel in self.figure.panels if panel.course == series]
        columns = list(dict.fromkeys(column for panel in drawn for column in panel.columns))
        rows = []
        for point in points(self.figure.axes):
            for seed, recorded in enumerate(self.recorded(series, columns, point), 1):
                about = {**self._cells(point), "seed": seed}
                rows += [{**about, **dict(zip(columns, row, strict=True))} for row in recorded]
        return rows

    def quantile_rows(self) -> list[dict[str, Any]]:
        """Return a row per quantile that a panel of kind `cdf` draws."""
        drawn: dict[tuple[Quantity, tuple[str, ...]], dict[str, Any]] = {}
        for panel in self.figure.panels:
            if panel.quantity:
                points = self.points(self.figure.selected(panel))
                drawn |= {(panel.quantity, self._place(point)): point for point in points}
        rows = []
        for (quantity, _), point in drawn.items():
            found = self.distribution(quantity, point)
            about = self._cells(point) | {"quantity": quantity.expression, "sizes": quantity.range, "flows": found.flows}
            for step, value in enumerate(found.values.tolist()):
                rows.append(about | {"share": step / distributions.STEPS, "value": value})
        return rows


def _line(rows: Sequence[tuple[Any, ...]]) -> tuple[list[float], list[float]]:
    """Return the two columns of some rows, without those that lack one of the two, such as a step that has not ended."""
    whole = [row for row in rows if None not in row]
    return [x for x, _ in whole], [y for _, y in whole]


def _instants(rows: Sequence[tuple[Any, ...]]) -> list[float]:
    """Return the instants of samples, of rows of a member, a time, a value and a span."""
    import numpy as np

    _, time, _, span = (np.array(column) for column in zip(*rows, strict=True))
    return cast("list[float]", instants(time, span)[0].tolist())


class Reading:
    """A figure's runs under one reading of the paper's set-up, for checks: the points of other readings do not exist."""

    def __init__(self, grid: Grid, at: Where) -> None:
        """Limit a grid to the points at `at`."""
        self.grid, self.at = grid, at
        self.values_of, self.samples = grid.values_of, grid.samples
        self.quantiles, self.course = grid.quantiles, grid.course

    def points(self, where: Where) -> list[dict[str, Any]]:
        """Return the points in a selection, in the order of the axes. A selection that names the reading keeps its own."""
        return self.grid.points({**self.at, **where})

    def name(self, point: Mapping[str, Any]) -> str:
        """Return a point's name for messages, without the reading."""
        return self.grid.name({axis: value for axis, value in point.items() if axis not in self.at})


def _cell(value: Any, values: Sequence[Any]) -> Any:
    """Return one of an axis's values for a table: as it is if all are numbers or all are the same type, otherwise as text."""
    kinds = {type(each) for each in values}
    if kinds <= {int, float} or kinds in ({bool}, {str}):
        return value
    return value if isinstance(value, str) else toml.value(value)


class Unmeasured(Grid):
    """A figure's grid without runs: every number is 1. What a check selects can thus be checked before anything is run."""

    def __init__(self, figure: Figure) -> None:
        """Create the grid of a figure that was not run."""
        super().__init__(figure, [], {})

    def samples(self, metric: str, point: Mapping[str, Any]) -> list[float]:
        """Return a number for one seed."""
        return [1.0]

    def quantiles(self, quantity: Quantity, point: Mapping[str, Any]) -> list[list[float]]:
        """Return quantiles for one seed."""
        return [[1.0] * (distributions.STEPS + 1)]

    def recorded(self, series: str, columns: Sequence[str], point: Mapping[str, Any]) -> list[list[tuple[Any, ...]]]:
        """Return a row for one seed."""
        return [[(1.0,) * len(columns)]]


def untried(figure: Figure) -> str:
    """Return the name of a point for which no trial selects parameters; empty if there is none."""
    needed: dict[tuple[str, ...], str] = {}
    tried = set()
    for point in points(figure.axes) if any(tune.at for tune in figure.tunes) else ():
        tune = _tune(figure, point)
        if tune and tune.at:
            group = _group(figure, tune, point)
            needed.setdefault(group, name(figure.axes, point) or "of the figure")
            tried |= {group} if matches(point, tune.at) else set()
    return next((point for group, point in needed.items() if group not in tried), "")


def with_flows(figure: Figure) -> list[Where]:
    """Return the points whose flow tables a figure needs, for its panels of kind `cdf` and its checks of quantiles."""
    found = [figure.selected(panel) for panel in figure.panels if panel.quantity]
    for check in [c for claim in figure.claims for c in claim.checks if "quantity" in c.parameters]:
        where, of, to = (check.parameters.get(name, {}) for name in ("where", "of", "to"))
        points = {**where, **of}
        found.append({axis: [*wanted, *to.get(axis, [])] for axis, wanted in points.items()})
    return found


def expressions(figure: Figure) -> list[str]:
    """Return every metric that a figure draws or checks, each once."""
    drawn = [m.expression for panel in figure.panels if panel.kind in ("bars", "lines", "table") for m in panel.y]
    asked = [c.parameters["metric"] for claim in figure.claims for c in claim.checks if "metric" in c.parameters]
    return list(dict.fromkeys(drawn + asked))
