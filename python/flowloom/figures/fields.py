"""Types of the values in a figure file. Some can only be checked beside other parts of the file: `Known` has these parts."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from flowloom import summary, toml
from flowloom._native import ScenarioError
from flowloom.distributions import Quantity
from flowloom.figures.tools import TOOLS
from flowloom.models import FieldError, Number
from flowloom.words import shown, suggestion

_KEY = re.compile(r"(?!.*__)[\w-]+(\.[\w-]+)*")


@dataclasses.dataclass
class Known:
    """What is known about a figure while the rest of its file is checked."""

    path: Path
    axes: Mapping[str, list[Any]] | None = None
    """The values of each axis; None if the axes are not valid, so that nothing can be compared with them."""
    tool: str | None = None
    """The figure's tool; None if it simulates."""


def axis_name(name: str, known: Known, *others: str, below: tuple[str, ...] = ()) -> str:
    """Check that an axis exists, or that a name is one of `others`. Errors are at the place `below`."""
    if known.axes is not None and name not in known.axes and name not in others:
        raise FieldError(f'unknown axis "{shown(name)}": {suggestion(name, [*known.axes, *others])}', *below)
    return name


def _where(found: Any, info: ValidationInfo[Known]) -> Any:
    if not isinstance(found, dict) or info.context.axes is None:
        return found
    axes, chosen = info.context.axes, {}
    for name, wanted in found.items():
        if name not in axes:
            raise FieldError(f"unknown axis: {suggestion(name, axes)}", name)
        chosen[name] = wanted if isinstance(wanted, list) else [wanted]
        if not chosen[name]:
            raise FieldError("selects no value", name)
        for value in chosen[name]:
            if value not in axes[name]:
                raise FieldError(f"axis {name} has no {_text(value)}: it has {_text(axes[name])}", name)
    return chosen


def _one_point(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    for axis, values in found.items():
        if len(values) != 1:
            raise FieldError(f"must select one value of {axis}, not {_text(values)}")
    return found


def _text(value: Any) -> str:
    try:
        return shown(toml.value(value), 200)
    except TypeError:
        return shown(value)  # a date


def check_metric(expression: str, known: Known, *below: str | int) -> str:
    """Check that a run can have a number. Errors are at the place `below`."""
    tool = TOOLS.get(known.tool or "")
    try:
        summary.check(expression, dict.fromkeys(tool.metrics, summary.NUMBER) if tool else summary.SHAPE)
    except ScenarioError as error:
        raise FieldError(str(error), *below) from None
    return expression


def check_quantity(expression: str, known: Known, *below: str | int) -> str:
    """Check that flows can have a number. Errors are at the place `below`."""
    if known.tool is not None:
        raise FieldError(f'`{shown(expression)}` is a quantity of flows, and the tool "{known.tool}" simulates none', *below)
    try:
        Quantity.of(expression)
    except ScenarioError as error:
        raise FieldError(str(error), *below) from None
    return expression


def _sizes(sizes: dict[str, Any]) -> dict[str, Any]:
    try:
        Quantity.of("bytes", sizes)
    except ScenarioError as error:
        raise FieldError(str(error)) from None
    return sizes


def _series(name: str) -> str:
    if name not in summary.SERIES:
        raise FieldError(f'a run records no series "{shown(name)}": {suggestion(name, summary.SERIES)}')
    return name


def _key(name: str) -> str:
    if not _KEY.fullmatch(name):
        raise FieldError(f'"{shown(name)}" is not the key of a scenario, such as workload.load')
    return name


def _ascending(ends: list[float]) -> list[float]:
    if len(ends) != 2 or not 0 <= ends[0] <= ends[1] <= 1:
        raise FieldError(f"must be two shares in ascending order, such as [0.01, 0.99], not {_text(ends)}")
    return ends


def check_unlike(what: str, items: Collection[Any], *below: str) -> None:
    """Check that no item occurs twice."""
    seen: list[Any] = []
    for item in items:
        if item in seen:
            raise FieldError(f"has the {what} {_text(item)} twice", *below)
        seen.append(item)


Where = Annotated[dict[str, list[Any]], BeforeValidator(_where)]
"""A selection of points: axis names, each with its allowed values. An empty one selects every point."""
OnePoint = Annotated[Where, AfterValidator(_one_point)]
"""A selection of one value of each of its axes."""
AxisName = Annotated[str, AfterValidator(lambda name, info: axis_name(name, info.context))]
"""The name of an axis of the figure."""
Metric = Annotated[str, AfterValidator(lambda expression, info: check_metric(expression, info.context))]
"""An expression over the summary of a run."""
FlowQuantity = Annotated[str, AfterValidator(lambda expression, info: check_quantity(expression, info.context))]
"""An expression over the columns of the flow table."""
Sizes = Annotated[dict[str, Any], AfterValidator(_sizes)]
"""A range of flow sizes: `above` and `up_to`."""
SeriesName = Annotated[str, AfterValidator(_series)]
Key = Annotated[str, AfterValidator(_key)]
"""The key of a scenario."""
Shares = Annotated[list[Number], AfterValidator(_ascending)]
"""A range of shares, between 0 and 1."""
Tolerance = Annotated[Number, Field(ge=0)]
