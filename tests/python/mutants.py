"""Mutants of tables and texts: small changes that a mistake, a tool or a bad merge makes to a file."""

from __future__ import annotations

import copy
import math
import random
import re
from typing import Any

VALUES: list[Any] = [
    "", "phost", "1", "\x00", "x" * 300, "a.b", "nope[0]", 0, 1, -1, 3, 10**30, 0.5, -0.5, 1e300, math.nan, math.inf, True,
    False,
    [], [1], ["a"], [[]], [1, "a", 2.5], {}, {"a": 1}, {"kind": "x"}, {"load": 0.5},
]  # fmt: skip
"""What a value is replaced by."""
KEYS = ["", "a", "when", "kind", "metric", "x", "to", "axis", "verdict", "seeds", "a b", "\x1b[2J"]
"""What a key is replaced by; or two neighbouring letters of it change places."""


def places(table: Any) -> list[tuple[Any, Any]]:
    """Return every place of a table as the container and its key or index."""
    found = []
    entries = list(table.items()) if isinstance(table, dict) else list(enumerate(table)) if isinstance(table, list) else []
    for key, value in entries:
        found += [(table, key), *places(value)]
    return found


def mutant(table: dict[str, Any], draw: random.Random) -> tuple[dict[str, Any], str]:
    """Return a changed copy of a table, and what was changed."""
    table = copy.deepcopy(table)
    holder, key = draw.choice(places(table))
    change = draw.choice([_drop, _double, _retype, _rename, _empty, _nest, _near])
    change(holder, key, draw)
    return table, f"{change.__name__} {key!r}"


def _drop(holder: Any, key: Any, draw: random.Random) -> None:
    del holder[key]


def _double(holder: Any, key: Any, draw: random.Random) -> None:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[f"{key}2"] = copy.deepcopy(holder[key])


def _retype(holder: Any, key: Any, draw: random.Random) -> None:
    holder[key] = copy.deepcopy(draw.choice(VALUES))


def _rename(holder: Any, key: Any, draw: random.Random) -> None:
    if isinstance(holder, list):
        holder[key] = copy.deepcopy(draw.choice(VALUES))
        return
    at = draw.randrange(len(key)) if key else 0
    swapped = key[:at] + key[at + 1 : at + 2] + key[at : at + 1] + key[at + 2 :]
    holder[draw.choice([swapped, draw.choice(KEYS)])] = holder.pop(key)


def _empty(holder: Any, key: Any, draw: random.Random) -> None:
    value = holder[key]
    holder[key] = type(value)() if isinstance(value, str | list | dict) else ""


def _nest(holder: Any, key: Any, draw: random.Random) -> None:
    holder[key] = draw.choice([[holder[key]], {"a": holder[key]}, [[[holder[key]]]]])


def _near(holder: Any, key: Any, draw: random.Random) -> None:
    """Change a value to one of the same type."""
    match holder[key]:
        case bool(value):
            holder[key] = not value
        case int(value) | float(value):
            holder[key] = draw.choice([-value, value * 1000, value + 1, value / 7])
        case str(value):
            at = draw.randrange(len(value) + 1)
            holder[key] = draw.choice([value[:at] + value[at + 1 :], value[:at] + "x" + value[at:], value.upper()])
        case list(value):
            holder[key] = draw.choice([value[::-1], value[1:], value + value])
        case dict(value):
            holder[key] = dict(list(value.items())[1:])


WORDS = [
    "", "0", "1", "-1", "2", "1e3", "1e400", "0.5", "nan", "inf", "99999999999999999999", "x", "a->b", "0->0", "1:", ":",
    "100Gbps", "1us", "\x00", "\x1b[2J", "\u202e", "é", "x" * 300, "[", "]", '"', "'", "<", "&amp;", "->", ",", "#",
    "\t", "\n", "\r",
]  # fmt: skip
"""What a word of a text is replaced by."""


def text_mutant(text: str, draw: random.Random) -> tuple[str, str]:
    """Return a changed copy of a text of lines and words, and what was changed."""
    change = draw.choice([_drop_line, _double_line, _swap_lines, _retype_word, _retype_word, _drop_word, _letter, _cut])
    return change(text, draw), change.__name__


def _line(text: str, draw: random.Random) -> tuple[list[str], int]:
    lines = text.splitlines(keepends=True)
    return lines, draw.randrange(len(lines))


def _drop_line(text: str, draw: random.Random) -> str:
    lines, at = _line(text, draw)
    return "".join(lines[:at] + lines[at + 1 :])


def _double_line(text: str, draw: random.Random) -> str:
    lines, at = _line(text, draw)
    return "".join(lines[: at + 1] + lines[at:])


def _swap_lines(text: str, draw: random.Random) -> str:
    lines, at = _line(text, draw)
    other = draw.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]
    return "".join(lines)


def _retype_word(text: str, draw: random.Random) -> str:
    found = draw.choice(list(re.finditer(r"[^\s,;<>\"]+", text)))
    return text[: found.start()] + draw.choice(WORDS) + text[found.end() :]


def _drop_word(text: str, draw: random.Random) -> str:
    found = draw.choice(list(re.finditer(r"[^\s,;<>\"]+[\s,;]?", text)))
    return text[: found.start()] + text[found.end() :]


def _letter(text: str, draw: random.Random) -> str:
    at = draw.randrange(len(text))
    return text[:at] + draw.choice(["", text[at] * 2, draw.choice("09-.x, \n")]) + text[at + 1 :]


def _cut(text: str, draw: random.Random) -> str:
    return text[: draw.randrange(len(text))]
