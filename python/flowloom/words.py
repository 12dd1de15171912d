"""Prepares user input for messages: long text is shortened, and control characters are escaped."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Sequence

VALUE_MAX = 80
"""The maximum number of characters of a value, a key or a line in a message."""


def elided(text: str, limit: int) -> str:
    """Return a text, or its beginning and end if it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail]}… ({len(text)} characters) …{text[-tail:]}"


def shown(value: object, limit: int = VALUE_MAX) -> str:
    """Format a value for a message, on one line."""
    return printable(elided(str(value), limit), keep="")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def printable(text: str, keep: str = "\n\t", escape: Callable[[str], str] = _escape) -> str:
    """Replace characters that a terminal would obey, or that reorder text, by their escapes.

    Args:
        text: Any text, such as a message with names from files.
        keep: Characters that stay although they are not printable.
        escape: Returns the escape of a character, by default that of Python.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else escape(c) for c in text)


_SURROGATE = re.compile("[\ud800-\udfff]")


def is_text(text: str) -> bool:
    """Return whether a text can be written as UTF-8. Python passes bytes that are not UTF-8 on as lone surrogates."""
    return text.isascii() or not _SURROGATE.search(text)


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return the first names of a list, and how many more there are."""
    left_out = len(names) - most
    return "; ".join(names[:most]) + (f" and {left_out} more" if left_out > 0 else "")


def suggestion(word: str, valid: Collection[str]) -> str:
    """Return the end of an error message: the most similar valid word, or all valid words."""
    # No valid name is longer than VALUE_MAX.
    near = difflib.get_close_matches(word, list(valid), 1) if len(word) <= VALUE_MAX else []
    return f'did you mean "{near[0]}"?' if near else f"there are {', '.join(valid)}"
