"""Writes TOML; `tomllib` reads it."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def key(name: str) -> str:
    """Format a key, with quotes if it needs them."""
    return name if _BARE_KEY.fullmatch(name) else value(name)


def value(item: Any) -> str:
    """Format a value on one line.

    Raises:
        TypeError: TOML has no such type (for example None).
    """
    match item:
        case bool():
            return "true" if item else "false"
        case str() | PurePath():
            # TOML has JSON's escapes, and also requires one for DEL.
            return json.dumps(str(item), ensure_ascii=False).replace("\x7f", "\\u007f")
        case int():
            return str(item)
        case float():
            return repr(float(item))  # the repr of NumPy's doubles, which are floats too, contains the type
        case Mapping():
            return "{ " + ", ".join(f"{key(k)} = {value(v)}" for k, v in item.items()) + " }" if item else "{}"
        case Sequence():
            return "[" + ", ".join(map(value, item)) + "]"
    if hasattr(item, "item"):  # a NumPy scalar, for example from `np.arange`
        return value(item.item())
    raise TypeError(f"a scenario cannot have the value {item!r} ({type(item).__name__})")


def document(table: Mapping[str, Any]) -> str:
    """Format a document: plain keys first, then a section for each table."""
    lines: list[str] = []
    _section((), table, lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def _section(path: tuple[str, ...], table: Mapping[str, Any], lines: list[str]) -> None:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping)}
    if path and (plain or not table):
        lines += ["", "[" + ".".join(map(key, path)) + "]"]
    lines += [f"{key(k)} = {value(v)}" for k, v in plain.items()]
    for k, v in table.items():
        if isinstance(v, Mapping):
            _section((*path, k), v, lines)


def lookup(table: Mapping[str, Any], dotted: str) -> Any:
    """Return the value of a dotted key, None if there is none."""
    found: Any = table
    for part in dotted.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def line_of(text: str, place: Sequence[str | int]) -> int | None:
    """Return the number of the line (from 1) that sets a value of a TOML document, None if no line does.

    `tomllib` gives no lines. But the first lines of a document are a document too, unless they end within a value. The fewest
    first lines that have the value end with the lines that set it, however its tables and keys are spelt.

    Args:
        text: The document, which must be valid.
        place: Where the value is, such as `("panel", 1, "y")`. Of a place that the document does not have, the part counts
            that it has.
    """
    lines = text.splitlines(keepends=True)
    firsts = functools.cache(lambda count: _parsed("".join(lines[:count])))
    while place and not _has(firsts(len(lines)), place):
        place = place[:-1]
    if not place:
        return None
    low, high = 0, len(lines)
    while True:
        middle = (low + high) // 2
        at = next((n for n in (*range(middle, high), *range(middle - 1, low, -1)) if n > low and firsts(n) is not None), None)
        if at is None:
            break
        low, high = (low, at) if _has(firsts(at), place) else (at, high)
    # A value may have several lines, each with values of its own.
    name = next(part for part in reversed(place) if isinstance(part, str))
    pattern = re.compile(rf"[\"']?\b{re.escape(name)}[\"']?\s*[.=\]]")
    return next((n for n in range(low, high) if pattern.search(lines[n])), low) + 1


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except ValueError:
        return None


def _has(table: Any, place: Sequence[str | int]) -> bool:
    for part in place:
        if isinstance(part, int):
            if not isinstance(table, list) or part >= len(table):
                return False
        elif not isinstance(table, dict) or part not in table:
            return False
        table = table[part]
    return True
