"""Flows of a program of one's own, as a trace that a scenario can name."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from flowloom import storage
from flowloom._native import ScenarioError
from flowloom.words import shown, suggestion


class Flow(NamedTuple):
    """A flow of a trace; docs/scenario/workload.md says what its columns mean."""

    start_s: float | None
    """When it starts, in seconds; None if it waits for others alone."""
    src: int | str
    dst: int | str
    bytes: int
    deadline_s: float | None = None
    tenant: int | None = None
    coflow: int | None = None
    id: int | None = None
    """A number by which others can wait for it."""
    after: Sequence[int | str] | str = ()
    """For which flows it waits: their ids, or texts such as `7@begun+0.001`; or all of them in one text, as in the file."""


def write_trace(path: str | os.PathLike[str], flows: Iterable[Flow | Mapping[str, Any] | Sequence[Any]]) -> int:
    """Write flows to a file that `kind = "trace"` reads. They can come from an iterator, and are never in memory together.

    Args:
        path: The file. What is there is replaced once all flows have come.
        flows: Flows in order of start, those that wait for others anywhere behind them. A flow may be a mapping with the
            fields of `Flow`, or a sequence of their values.

    Returns:
        How many flows there are.

    Raises:
        ScenarioError: A flow has unknown fields, or lacks one that is needed, or a value that no trace can have.
    """
    number = 0

    def lines() -> Iterable[str]:
        nonlocal number
        yield ",".join(Flow._fields)
        for flow in flows:
            yield _line(number, flow)
            number += 1

    with storage.whole_file(Path(path)) as part:
        storage.write_lines(part, lines())
    return number


def _line(number: int, flow: Flow | Mapping[str, Any] | Sequence[Any]) -> str:
    try:
        if isinstance(flow, Mapping):
            if unknown := [name for name in flow if name not in Flow._fields]:
                raise ScenarioError(
                    f"flow {number}: unknown field {shown(unknown[0])}: {suggestion(str(unknown[0]), Flow._fields)}"
                )
            flow = Flow(**{"start_s": None, **flow})
        elif not isinstance(flow, Flow):
            flow = Flow(*flow)
    except TypeError as error:
        wants = ", ".join(Flow._fields)
        raise ScenarioError(f"flow {number}: {shown(flow)} is no flow ({error}); it has {wants}") from None
    # A text is a sequence, too: of its characters, which would be other flows.
    after = [flow.after] if isinstance(flow.after, str) else flow.after
    if not isinstance(after, Iterable):
        raise ScenarioError(f"flow {number}: after is {shown(repr(after))}; it is a list of ids, such as [7], or a text")
    *names, last = Flow._fields
    cells = [_cell(number, name, value) for name, value in zip(names, flow[:-1], strict=True)]
    return ",".join([*cells, " ".join(_cell(number, last, each) for each in after)])


def _cell(number: int, name: str, value: Any) -> str:
    if value is None:
        return ""
    if hasattr(value, "item"):
        with contextlib.suppress(ValueError):  # it is an array
            value = value.item()  # as a text, a number of numpy can have its type around it
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ScenarioError(f"flow {number}: {name} is {shown(repr(value))}; a value is a number, a text or None")
    cell = str(value)  # a float has as many digits as it needs
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        raise ScenarioError(f"flow {number}: {name} is {cell}, which is no value; None says nothing")
    if any(sign in cell for sign in ",\n\r") or cell != cell.strip():
        raise ScenarioError(f'flow {number}: {name} is "{shown(cell)}"; a value has no comma, line break, or blank at its ends')
    return cell
