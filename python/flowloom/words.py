"""Prepares user input for messages: long text is shortened, and control characters are escaped."""

from __future__ import annotations

import difflib
from collections.abc import Collection

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
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in elided(str(value), limit))


def suggestion(word: str, valid: Collection[str]) -> str:
    """Return the end of an error message: the most similar valid word, or all valid words."""
    # No valid name is longer than VALUE_MAX.
    near = difflib.get_close_matches(word, list(valid), 1) if len(word) <= VALUE_MAX else []
    return f'did you mean "{near[0]}"?' if near else f"there are {', '.join(valid)}"
