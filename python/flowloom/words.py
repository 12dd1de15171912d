"""A user's words in messages: what is long is shown by its ends, and what a terminal would obey is escaped."""

from __future__ import annotations

import difflib
from collections.abc import Collection

VALUE_MOST = 80
"""Characters that a message shows at most of a value, a key or a line."""
MESSAGE_MOST = 2000
"""Characters of a whole message, with the lists of what would be right."""


def shown(text: object, most: int = VALUE_MOST) -> str:
    """Write a value as a message shows it."""
    whole = str(text)
    if len(whole) > most:
        tail = most // 3
        whole = f"{whole[: most - tail]}… ({len(whole)} characters) …{whole[-tail:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in whole)


def suggestion(word: str, valid: Collection[str]) -> str:
    """Give what follows "unknown …": the nearest valid word, or all of them."""
    # No name is longer than what is shown of one.
    near = difflib.get_close_matches(word, list(valid), 1) if len(word) <= VALUE_MOST else []
    return f'did you mean "{near[0]}"?' if near else f"there are {', '.join(valid)}"
