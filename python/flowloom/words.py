"""A user's words in messages: what is long is shown by its ends, and what a terminal would obey is escaped."""

from __future__ import annotations

import difflib
from collections.abc import Collection

VALUE_MOST = 80
"""Characters that a message shows at most of a value, a key or a line."""


def elided(text: str, most: int) -> str:
    """Give a text, or its beginning and its end if it has more than `most` characters."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail]}… ({len(text)} characters) …{text[-tail:]}"


def shown(value: object, most: int = VALUE_MOST) -> str:
    """Write a value as a message shows it, on one line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in elided(str(value), most))


def suggestion(word: str, valid: Collection[str]) -> str:
    """Give what follows "unknown …": the nearest valid word, or all of them."""
    # No name is longer than what is shown of one.
    near = difflib.get_close_matches(word, list(valid), 1) if len(word) <= VALUE_MOST else []
    return f'did you mean "{near[0]}"?' if near else f"there are {', '.join(valid)}"
