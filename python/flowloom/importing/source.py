"""A file of another tool, read line by line. Its errors name the file, the line, and what the file was taken for."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import BinaryIO

from flowloom import storage
from flowloom._native import ScenarioError
from flowloom.words import shown

_HEAD_BYTES = 262_144
LINE_BYTES_MAX = 4_000_000
"""The maximum length of a line. A longer one is no line of any format, and would fill the memory."""
TEXT_BYTES_MAX = 16_000_000
"""The maximum size of a file that a parser needs as a whole."""
PIPE_BYTES_MAX = 256_000_000
"""The most that is kept of what can be read only once."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_BOM = "\ufeff"
_BLANKS = " \r\n"


@dataclasses.dataclass
class Source:
    """An open file of another tool."""

    path: Path
    file: BinaryIO
    head_rows: list[str]
    """Its first lines as `rows` yields them, as far as they are text."""
    binary: bool
    """Whether it begins with what is not text."""
    reading: str = ""
    """What it is read as and why, for errors."""
    explicit: bool = False
    """Whether the user has said what it is."""

    @property
    def name(self) -> str:
        """Its name without its folder."""
        return self.path.name

    @property
    def head(self) -> list[str]:
        """Its first lines as `lines` yields them, as far as they are text."""
        return [line for row in self.head_rows if (line := row.strip())]

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number of each line that is not empty, from 1, and the line without blanks at its ends.

        Raises:
            ScenarioError: The file is not UTF-8 text, or a line is too long.
            OSError: The file cannot be read.
        """
        return ((number, line) for number, row in self.rows() if (line := row.strip()))

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield what `lines` does, but with the tabs at the ends of lines, as the cells outside of them are empty.

        A line may consist of tabs. It is for the format to say whether it is a row of empty cells.

        Raises:
            ScenarioError: The file is not UTF-8 text, or a line is too long.
            OSError: The file cannot be read.
        """
        self.file.seek(0)
        for number, line in enumerate(iter(lambda: self.file.readline(LINE_BYTES_MAX), b""), 1):
            if len(line) == LINE_BYTES_MAX:
                raise self.wrong(number, f"the line has {LINE_BYTES_MAX:,} bytes or more; no format has such lines")
            try:
                text = line.decode().removeprefix(_BOM)
            except UnicodeDecodeError:
                raise self.wrong(number, "this is not UTF-8 text") from None
            if row := text.strip(_BLANKS):
                yield number, row

    def text(self) -> str:
        """Return the whole file.

        Raises:
            ScenarioError: The file is not UTF-8 text, or too large.
        """
        self.file.seek(0)
        found = self.file.read(TEXT_BYTES_MAX + 1)
        if len(found) > TEXT_BYTES_MAX:
            raise self.wrong(None, f"the file has more than {TEXT_BYTES_MAX / 1e6:g} MB, which is the most for this format")
        try:
            return found.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.wrong(found.count(b"\n", 0, error.start) + 1, "this is not UTF-8 text") from None

    def digest(self) -> str:
        """Return a hash of the file's content."""
        self.file.seek(0)
        digest = hashlib.sha256()
        while part := self.file.read(_HEAD_BYTES):
            digest.update(part)
        return digest.hexdigest()

    def wrong(self, line: int | None, message: str) -> ScenarioError:
        """Return an error at a line, or about the whole file."""
        place = f"{shown(self.path, 200)}" + (f":{line}" if line is not None else "")
        return ScenarioError(f"{place}: {message}" + (f" ({self.reading})" if self.reading else ""))

    def number(self, line: int, word: str, what: str, least: float = 0, most: float = 1e15) -> Decimal:
        """Return a number in a range, both ends included. `what` names it, for errors."""
        with contextlib.suppress(InvalidOperation):
            if _NUMBER.fullmatch(word) and least <= (number := Decimal(word)) <= most:
                return number
        raise self.wrong(line, f'{what} is "{shown(word)}"; it is a number from {least:g} to {most:g}')

    def whole(self, line: int, word: str, what: str, least: int = 0, most: int = 10**15) -> int:
        """Return a whole number in a range, both ends included. `what` names it, for errors."""
        if word.isascii() and word.isdigit() and len(word) < 20 and least <= int(word) <= most:
            return int(word)
        raise self.wrong(line, f'{what} is "{shown(word)}"; it is a whole number from {least:,} to {most:,}')


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Source]:
    """Open a file.

    Raises:
        ScenarioError: It cannot be read.
    """
    if storage.is_endless(path):
        raise ScenarioError(f"cannot read {shown(path, 200)}: it is not a regular file")
    try:
        file = path.open("rb")
    except OSError as error:
        raise ScenarioError(f"cannot read {shown(path, 200)}: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise ScenarioError(f"cannot read {shown(path, 200)}: {error}") from error
    with file:
        whole = file if file.seekable() else _kept(path, file)
        head, binary = _head(whole.read(_HEAD_BYTES))
        yield Source(path, whole, head, binary)


def _kept(path: Path, pipe: BinaryIO) -> BinaryIO:
    """Return the content of a pipe, which can be read only once."""
    content = pipe.read(PIPE_BYTES_MAX + 1)
    if len(content) > PIPE_BYTES_MAX:
        raise ScenarioError(f"cannot read {shown(path, 200)}: more than {PIPE_BYTES_MAX / 1e6:g} MB need a file, not a pipe")
    return io.BytesIO(content)


def _head(start: bytes) -> tuple[list[str], bool]:
    if len(start) == _HEAD_BYTES:
        start = start.rpartition(b"\n")[0] or start
    try:
        text = start.decode("utf-8-sig")
    except UnicodeDecodeError:
        return [], True
    return [row for line in text.splitlines() if (row := line.strip(_BLANKS))], False


def separator(line: str) -> str | None:
    """Return what separates the cells of a line; None for blanks. A tab at the end of a line between blanks is one of them."""
    inner = line.strip()
    if found := next((each for each in ",;\t" if each in inner), None):
        return found
    return "\t" if "\t" in line and " " not in inner else None


def is_number(word: str) -> bool:
    """Return whether a word is a decimal number."""
    return _NUMBER.fullmatch(word) is not None


def is_whole(word: str) -> bool:
    """Return whether a word is a whole number without a sign."""
    return word.isascii() and word.isdigit()
