"""Reads and checks a figure file. Errors name the file, the line and the most similar valid key."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from flowloom import toml
from flowloom._native import ScenarioError
from flowloom.claims import checks
from flowloom.distributions import Quantity
from flowloom.figures.schema import (
    MEANS,
    METRIC_AXIS,
    Axis,
    Check,
    Claim,
    Figure,
    Measure,
    Panel,
    Rule,
    Scale,
    Tune,
    Where,
)
from flowloom.figures.tools import TOOLS
from flowloom.metrics import label
from flowloom.words import suggestion

_OF_EVERY_PANEL = (
    "kind", "x", "series", "facet", "where", "title", "x_label", "y_label", "log_x", "log_y", "y_min", "y_max", "percent",
)  # fmt: skip
_PANEL_KINDS = {
    "bars": ("y", "to", "reduction", "over", "mean"),
    "lines": ("y", "to", "reduction", "over", "mean", "x_min", "x_max"),
    "table": ("y", "to", "reduction", "over", "mean"),
    "course": ("y", "course", "x_min", "x_max"),
    "cdf": ("sizes", "x_min", "x_max"),
}
"""The kinds of panels, with the keys that only some of them have."""
_OF_EVERY_CHECK = ("kind", "paper", "given", "beside")


def read(path: Path) -> Figure:
    """Read a figure file. The figure's name consists of the names of the folder and the file: `phost/fig3`.

    Raises:
        ScenarioError: The file cannot be read or is not a valid figure.
    """
    return _Reader(path).figure()


def read_all(paths: Sequence[Path]) -> tuple[list[Figure], list[str]]:
    """Read figure files; return the valid figures, and an error message for each of the others."""
    figures, errors = [], []
    for path in paths:
        try:
            figures.append(read(path))
        except ScenarioError as error:
            errors.append(str(error))
    return figures, errors


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.inherited: list[dict[str, Any]] = []
        """Rules and tunings of another figure. They may select values that this figure's axes do not have."""
        try:
            self.text = path.read_text(encoding="utf-8")
            self.table = tomllib.loads(self.text)
        except OSError as error:
            raise ScenarioError(f"cannot read the figure {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ScenarioError(f"{path}: {error}") from error
        if parent := self.table.pop("extends", None):
            inherited = _Reader(path.with_name(str(parent))).table
            scales = {**inherited.get("scale", {}), **self.table.get("scale", {})}
            # A figure inherits runs, but not drawings and claims.
            inherited = {k: v for k, v in inherited.items() if k not in ("panel", "claim", "notes")}
            if (metric := self.table.pop("minimise", None)) is not None:
                inherited["tune"] = [{**tune, "minimise": metric} for tune in inherited.get("tune", [])]
            self.inherited = [*inherited.get("set", []), *inherited.get("tune", [])]
            rules = [*self.table.get("set", inherited.get("set", [])), *self.table.pop("add", [])]
            self.table = {**inherited, **self.table, "scale": scales, "set": rules}
        self.axes: list[Axis] = []

    def fail(self, key: str, message: str) -> ScenarioError:
        line = toml.line_of(self.text, key)
        return ScenarioError(f"{self.path}{'' if line is None else f':{line}'}: {key}: {message}")

    def known(self, table: Mapping[str, Any], valid: Collection[str], place: str) -> None:
        for key in table:
            if key not in valid:
                raise self.fail(key, f"unknown key in {place}: {suggestion(key, valid)}")

    def take(self, table: Mapping[str, Any], key: str, kind: type[Any] | tuple[type[Any], ...], place: str) -> Any:
        if key not in table:
            raise self.fail(place.strip("[]").rpartition(".")[2], f"{place} needs `{key}`")
        return self.typed(table[key], kind, key)

    def typed(self, value: Any, kind: type[Any] | tuple[type[Any], ...], key: str) -> Any:
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = {
                str: "a string",
                int: "a whole number",
                float: "a number",
                list: "a list",
                dict: "a table",
                bool: "true or false",
            }
            raise self.fail(key, f"must be {' or '.join(names[k] for k in kinds)}, not {toml.value(value)}")
        return value

    def optional(self, table: Mapping[str, Any], key: str, kind: type[Any] | tuple[type[Any], ...], default: Any) -> Any:
        return self.typed(table[key], kind, key) if key in table else default

    def figure(self) -> Figure:
        top = ("title", "about", "scenario", "tool", "axis", "set", "tune", "scale", "panel", "claim", "notes")
        self.known(self.table, top, "a figure")
        self.axes = [self.axis(entry) for entry in self.tables("axis")]
        if not self.axes:
            raise self.fail("axis", "a figure needs at least one [[axis]]")
        if len(of_readings := [axis.name for axis in self.axes if axis.reading]) > 1:
            raise self.fail("reading", f"a figure has at most one axis of readings, not {' and '.join(of_readings)}")
        scales = self.optional(self.table, "scale", dict, {})
        if "quick" not in scales:
            raise self.fail("scale", "a figure needs [scale.quick]")
        figure = Figure(
            name=f"{self.path.parent.name}/{self.path.stem}",
            path=self.path,
            title=self.take(self.table, "title", str, "a figure"),
            about=self.optional(self.table, "about", str, "").strip(),
            scenario=self.path.with_name(self.optional(self.table, "scenario", str, "default.toml")),
            tool=self.tool(),
            axes=self.axes,
            rules=[self.rule(entry, "[[set]]") for entry in self.applicable("set")],
            tunes=[self.tune(entry) for entry in self.applicable("tune")],
            scales={name: self.scale(name, entry) for name, entry in scales.items()},
            panels=[self.panel(entry) for entry in self.tables("panel")],
            claims=[self.claim(entry) for entry in self.tables("claim")],
            notes=self.optional(self.table, "notes", str, "").strip(),
        )
        ruled = {name for rule in figure.rules for name in rule.when}
        for axis in self.axes:
            if axis.key is None and axis.name not in ruled:
                raise self.fail("axis", f"axis {axis.name} sets nothing: it needs `key`, or a [[set]] whose `when` names it")
        return figure

    def tool(self) -> str | None:
        name = self.typed(self.table["tool"], str, "tool") if "tool" in self.table else None
        if name is not None and name not in TOOLS:
            raise self.fail("tool", f'unknown tool "{name}": {suggestion(name, TOOLS)}')
        return name

    def tables(self, key: str) -> list[dict[str, Any]]:
        entries = self.optional(self.table, key, list, [])
        return [self.typed(entry, dict, key) for entry in entries]

    def applicable(self, key: str) -> list[dict[str, Any]]:
        """Return rules or tunings. Those that are inherited are limited to the values that this figure's axes have."""
        values = {axis.name: axis.values for axis in self.axes}
        found = []
        for entry in self.tables(key):
            when = {
                name: [value for value in (wanted if isinstance(wanted, list) else [wanted]) if value in values.get(name, [])]
                for name, wanted in entry.get("when", {}).items()
            }
            if not any(entry is other for other in self.inherited):
                found.append(entry)
            elif all(when.values()):
                found.append({**entry, "when": when})
        return found

    def axis(self, entry: dict[str, Any]) -> Axis:
        self.known(entry, ("name", "key", "values", "labels", "title", "reading"), "[[axis]]")
        name = self.take(entry, "name", str, "[[axis]]")
        values = self.take(entry, "values", list, "[[axis]]")
        labels = self.optional(entry, "labels", list, [v if isinstance(v, str) else toml.value(v) for v in values])
        if len(labels) != len(values) or not values:
            raise self.fail("labels", f"axis {name} has {len(values)} values and {len(labels)} labels")
        title = self.optional(entry, "title", str, name.replace("_", " ").capitalize())
        key = self.typed(entry["key"], str, "key") if "key" in entry else None
        reading = self.optional(entry, "reading", str, "").strip()
        if reading and len(values) < 2:
            raise self.fail("reading", f"axis {name} has one value; readings of a set-up are at least two")
        return Axis(name, key, values, labels, title, reading)

    def where(self, entry: Mapping[str, Any], key: str) -> Where:
        conditions = self.optional(entry, key, dict, {})
        names = {axis.name: axis for axis in self.axes}
        found: Where = {}
        for name, wanted in conditions.items():
            if name not in names:
                raise self.fail(name, f"unknown axis: {suggestion(name, names)}")
            found[name] = wanted if isinstance(wanted, list) else [wanted]
            for value in found[name]:
                if value not in names[name].values:
                    raise self.fail(key, f"axis {name} has no {toml.value(value)}: it has {toml.value(names[name].values)}")
        return found

    def rule(self, entry: dict[str, Any], place: str) -> Rule:
        self.known(entry, ("when", "keys"), place)
        return Rule(self.where(entry, "when"), self.take(entry, "keys", dict, place))

    def tune(self, entry: dict[str, Any]) -> Tune:
        self.known(entry, ("when", "at", "minimise", "keys"), "[[tune]]")
        keys = self.take(entry, "keys", dict, "[[tune]]")
        for key, values in keys.items():
            self.typed(values, list, key)
        return Tune(self.where(entry, "when"), self.where(entry, "at"), self.take(entry, "minimise", str, "[[tune]]"), keys)

    def scale(self, name: str, entry: Any) -> Scale:
        place = f"[scale.{name}]"
        self.known(self.typed(entry, dict, name), ("seeds", "seeds_max", "set"), place)
        rules = [self.rule(self.typed(r, dict, "set"), "[[scale.*.set]]") for r in self.optional(entry, "set", list, [])]
        seeds = self.optional(entry, "seeds", int, 1)
        if seeds < 1:
            raise self.fail("seeds", "must be at least 1")
        seeds_max = self.optional(entry, "seeds_max", int, seeds)
        if seeds_max < seeds:
            raise self.fail("seeds_max", f"must be at least `seeds`, {seeds}")
        return Scale(seeds, seeds_max, rules)

    def axis_name(self, entry: Mapping[str, Any], key: str, default: str | None, several: bool) -> str | None:
        name = self.optional(entry, key, str, default)
        names = [axis.name for axis in self.axes] + ([METRIC_AXIS] if several else [])
        if name is not None and name not in names:
            raise self.fail(key, f'unknown axis "{name}": {suggestion(name, names)}')
        return str(name) if name is not None else None

    def panel(self, entry: dict[str, Any]) -> Panel:
        kind = self.take(entry, "kind", str, "[[panel]]")
        if kind not in _PANEL_KINDS:
            raise self.fail("kind", f'unknown panel kind "{kind}": {suggestion(kind, _PANEL_KINDS)}')
        self.known(entry, (*_OF_EVERY_PANEL, *_PANEL_KINDS[kind]), f"a [[panel]] of kind {kind}")
        y = [] if kind == "cdf" else self.measures(self.take(entry, "y", (str, list), "[[panel]]"))
        several = isinstance(entry.get("y"), list)
        # In a panel of kind `course`, x is a column of the recorded series, and in one of kind `cdf` an expression.
        free = kind in ("course", "cdf")
        x = self.take(entry, "x", str, "[[panel]]") if free else self.axis_name(entry, "x", None, several)
        if x is None:
            raise self.fail("panel", "[[panel]] needs `x`")
        quantity = self.quantity(entry, "x", x) if kind == "cdf" else None
        to = self.to(entry)
        reduction = self.optional(entry, "reduction", bool, False)
        if reduction and not to:
            raise self.fail("reduction", "[[panel]] needs `to`, the point that the reduction is relative to")
        number = (int, float)
        found = Panel(
            kind=kind,
            x=x,
            y=y,
            series=self.axis_name(entry, "series", "transport", several) or "transport",
            facet=self.axis_name(entry, "facet", None, False),
            where=self.where(entry, "where"),
            title=self.optional(entry, "title", str, quantity.range if quantity else ""),
            x_label=self.optional(entry, "x_label", str, label(x) if quantity else ""),
            y_label=self.optional(entry, "y_label", str, None),
            course=self.take(entry, "course", str, "[[panel]]") if kind == "course" else "",
            quantity=quantity,
            to=to,
            reduction=reduction,
            over=self.over(entry),
            mean=self.mean(entry),
            log_x=self.optional(entry, "log_x", bool, False),
            log_y=self.optional(entry, "log_y", bool, False),
            x_min=self.optional(entry, "x_min", number, None),
            x_max=self.optional(entry, "x_max", number, None),
            y_min=self.optional(entry, "y_min", number, None),
            y_max=self.optional(entry, "y_max", number, None),
            percent=self.optional(entry, "percent", bool, False),
        )
        if not free and found.x == found.series:
            raise self.fail(
                "series", f'x and series are both "{x}", but must be two axes; with a list as y, one can be "{METRIC_AXIS}"'
            )
        for axis in self.axes:
            if not found.shown(axis):
                raise self.fail("to", f"nothing is left to draw: the panel selects no other value of {axis.name}")
        return found

    def over(self, entry: Mapping[str, Any]) -> list[str]:
        """Read the axes over whose values a panel averages."""
        found = []
        for name in self.optional(entry, "over", list, []):
            axis = self.axis_name({"over": name}, "over", None, False)
            if name in (entry.get("x"), entry.get("series", "transport"), entry.get("facet")):
                raise self.fail("over", f"the panel shows axis {name}, so it cannot average over it")
            found.append(str(axis))
        return found

    def mean(self, entry: Mapping[str, Any]) -> str:
        """Read which mean is taken over axes."""
        name: str = self.optional(entry, "mean", str, MEANS[0])
        if name not in MEANS:
            raise self.fail("mean", f'unknown mean "{name}": {suggestion(name, MEANS)}')
        return name

    def to(self, entry: Mapping[str, Any]) -> Where:
        """Read the point that others are compared with, one value of each axis."""
        found = self.where(entry, "to")
        for axis, values in found.items():
            if len(values) != 1:
                raise self.fail("to", f"must select one value of {axis}, not {toml.value(values)}")
        return found

    def quantity(self, entry: Mapping[str, Any], key: str, expression: str) -> Quantity:
        """Read a quantity of flows, whose expression has this key; `sizes` may select a range of sizes."""
        if self.tool() is not None:
            raise self.fail(key, f'`{expression}` is a quantity of flows, and the tool "{self.tool()}" simulates none')
        sizes = self.optional(entry, "sizes", dict, {})
        try:
            Quantity.of(expression)
        except ScenarioError as error:
            raise self.fail(key, str(error)) from None
        try:
            return Quantity.of(expression, sizes)
        except ScenarioError as error:
            raise self.fail("sizes", str(error)) from None

    def measures(self, y: str | list[Any]) -> list[Measure]:
        if isinstance(y, str):
            return [Measure(y, label(y))]
        found = []
        for entry in y:
            self.known(self.typed(entry, dict, "y"), ("metric", "label"), "y")
            metric = self.take(entry, "metric", str, "y")
            found.append(Measure(metric, self.optional(entry, "label", str, label(metric))))
        return found

    def shares(self, between: Any) -> None:
        """Check the range of quantiles that a check compares."""
        ends = self.typed(between, list, "between")
        for end in ends:
            self.typed(end, (int, float), "between")
        if len(ends) != 2 or not 0 <= ends[0] <= ends[1] <= 1:
            raise self.fail("between", f"must be two shares in ascending order, such as [0.01, 0.99], not {toml.value(ends)}")

    def claim(self, entry: dict[str, Any]) -> Claim:
        self.known(entry, ("id", "says", "calibrated", "check"), "[[claim]]")
        tests = [self.check(self.typed(c, dict, "check")) for c in self.take(entry, "check", list, "[[claim]]")]
        if not any(check.counts for check in tests):
            raise self.fail("check", "a claim needs at least one check that counts: one without `given` and `beside`")
        return Claim(
            id=self.take(entry, "id", str, "[[claim]]"),
            says=self.take(entry, "says", str, "[[claim]]"),
            calibrated=self.optional(entry, "calibrated", str, "").strip(),
            checks=tests,
        )

    def check(self, entry: dict[str, Any]) -> Check:
        kind = self.take(entry, "kind", str, "[[claim.check]]")
        if kind not in checks.KINDS:
            raise self.fail("kind", f'unknown check "{kind}": {suggestion(kind, checks.KINDS)}')
        required, optional = checks.parameters(kind)
        self.known(entry, (*_OF_EVERY_CHECK, *required, *optional), f"a check of kind {kind}")
        for name in required:
            if name not in entry:
                raise self.fail("kind", f"a check of kind {kind} needs `{name}`")
        given = {k: v for k, v in entry.items() if k not in _OF_EVERY_CHECK}
        for name in ("where", "of", "at"):
            if name in given:
                given[name] = self.where(given, name)
        if "to" in given:
            given["to"] = self.to(given)
        if "quantity" in given:
            self.quantity(given, "quantity", self.typed(given["quantity"], str, "quantity"))
        if "between" in given:
            self.shares(given["between"])
        for name in ("across", "along"):
            if name in given:
                self.axis_name(given, name, None, False)
        paper, cannot_fail, beside = (self.optional(entry, key, str, "") for key in ("paper", "given", "beside"))
        return Check(kind, paper, cannot_fail, beside, given)
