"""Writes TOML; `tomllib` reads it."""

from __future__ import annotations

import json
import re
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


def line_of(text: str, name: str) -> int | None:
    """Return the number of the first line (from 1) that sets a key or opens a table of this name, for error messages."""
    pattern = re.compile(rf'^\s*(\[+[^\]]*\b{re.escape(name)}\b|"?{re.escape(name)}"?\s*=)|[{{,]\s*"?{re.escape(name)}"?\s*=')
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.search(line):
            return number
    return None
