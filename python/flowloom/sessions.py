"""Renews the outputs and the pictures of commands in pages: `python -m flowloom.sessions docs/*.md [--all]`.

A session is a block of the language `console`. In it, a line that begins with `$ ` is a command, and the lines after it are
its output. Python code is a session if a block of the language `text` follows it, which has what the code prints. All commands
of a page run one after the other in a folder of their own, which has copies of the folders `examples` and `papers` beside the
page's own folder.

Comments directly before a block say what is shown of it:

* `<!-- shown: 1..5, -1; none -->`: for each command, separated by semicolons, the lines of its output: `all`, `none`, or
  numbers and ranges, from 1, or from the end where they are negative. `…` takes the place of lines that are left out.
* `<!-- picture: results/x/flows.png as pictures/x.png -->`: the block draws the first file, and the page shows the second,
  which is a copy of it beside the page.
* `<!-- takes long -->`: the block is renewed only with `--all`.

The output is what the command writes to stdout, or to stderr if it fails. Numbers that depend on the machine stay as they are.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

_BLOCK = re.compile(
    r"((?:^<!-- [^\n]* -->\n)*)^```console\n(.*?)^```$"
    r"|^```python\n((?:(?!```)[^\n]*\n)*)```\n\n```text\n(?:(?!```)[^\n]*\n)*```$",
    re.M | re.S,
)
_PICTURE = re.compile(r"^<!-- picture: (\S+) as (\S+) -->$", re.M)
_LONG = "<!-- takes long -->"
_MACHINE = re.compile(r"(?<=runs in )\d+(?= s$)|(?<=found in )[\d.]+(?= s$)|(?<=^Wall time \(s\) ) *[\d.,e± -]+", re.M)
"""What depends on the machine in an output."""
GAP = "…"


def renewed(page: str, run: Callable[[str], str], *, every: bool = False) -> str:
    """Return a page with the outputs that its commands have now.

    Args:
        page: The page's text.
        run: Runs a command line and returns its output. Code is the command `python -c CODE`.
        every: Run blocks that take long, too.

    Raises:
        ValueError: A comment does not fit its block.
    """

    def block(found: re.Match[str]) -> str:
        notes, text, code = found[1], found[2], found[3]
        if code is not None:
            return f"```python\n{code}```\n\n```text\n{run(shlex.join(['python', '-c', code]))}```"
        if _LONG in notes and not every:
            return found[0]
        commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M)
        wanted = re.search(r"<!-- shown: (.*) -->", notes)
        parts = [part.strip() for part in wanted[1].split(";")] if wanted else ["all"] * len(commands)
        if len(parts) != len(commands):
            raise ValueError(f"the block has {len(commands)} commands, and its comment {len(parts)}: {commands}")
        lines = [_command(command, old, part, run) for (command, old), part in zip(commands, parts, strict=True)]
        return f"{notes}```console\n{''.join(lines)}```"

    return _BLOCK.sub(block, page)


def pictures(page: str, *, every: bool = False) -> dict[str, str]:
    """Return the pictures that the commands of a page draw: the file that a command writes, and its copy beside the page.

    Args:
        page: The page's text.
        every: Also those of blocks that take long.
    """
    blocks = (found[1] or "" for found in _BLOCK.finditer(page))
    return {drawn: kept for notes in blocks if every or _LONG not in notes for drawn, kept in _PICTURE.findall(notes)}


def _command(command: str, old: str, part: str, run: Callable[[str], str]) -> str:
    new = selected(run(command), part)
    same = _MACHINE.sub("", old) == _MACHINE.sub("", new)
    return f"$ {command}\n{old if same else new}"


def selected(output: str, part: str) -> str:
    """Return the lines that are shown of an output, with a mark where others are left out.

    Empty lines at its end do not count.
    """
    lines = output.rstrip("\n").splitlines()
    words = {"all": [f"1..{len(lines)}"] if lines else [], "none": []}.get(part, part.split(","))
    kept = [number for word in words for number in _numbers(word.strip(), len(lines))]
    shown: list[str] = []
    after = -1
    for number in kept:
        if number != after + 1:
            shown.append(GAP)
        shown.append(lines[number])
        after = number
    if kept and after != len(lines) - 1:
        shown.append(GAP)
    return "".join(f"{line}\n" for line in shown)


def _numbers(word: str, lines: int) -> range:
    """Return the lines of `3`, `1..5` or `-2..-1`, counted from 0."""
    first, _, last = word.partition("..")
    begin, end = (int(end) - 1 if int(end) > 0 else lines + int(end) for end in (first, last or first))
    if not 0 <= begin <= end < lines:
        raise ValueError(f"lines {word} of an output with {lines} lines")
    return range(begin, end + 1)


def run(command: str) -> str:
    """Run a command of a session in the working directory, and return what it writes."""
    from typer.testing import CliRunner

    from flowloom.cli import app

    program, *words = shlex.split(command)
    if program == "ls":
        return "".join(f"{path.name}\n" for path in sorted(Path(words[0]).iterdir()) if not path.name.startswith("."))
    if program == "cat":
        return "".join(Path(word).read_text(encoding="utf-8") for word in words)
    if program == "python":
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(words[1], "session", "exec"), {"__name__": "__main__"})
        return printed.getvalue()
    if program != "flowloom":
        raise ValueError(f"a session cannot run {program}")
    done = CliRunner().invoke(app, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stderr if done.exit_code == 2 else done.stdout


@contextlib.contextmanager
def clone(root: Path) -> Iterator[None]:
    """Work in a new folder with copies of what commands of a fresh clone read."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("examples", "papers"):
            shutil.copytree(root / name, Path(folder, name))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def renew(page: Path, *, every: bool) -> None:
    """Renew a page and its pictures in their places."""
    old = page.read_text(encoding="utf-8")
    with clone(page.parents[1]):
        new = renewed(old, run, every=every)
        for drawn, kept in pictures(new, every=every).items():
            shutil.copyfile(drawn, page.parent / kept)
    if new != old:
        page.write_text(new, encoding="utf-8")


def main(*words: str) -> None:
    """Renew the pages that the command line names, of which those without commands stay as they are."""
    pages = [Path(word).resolve() for word in words if word != "--all"]
    for page in pages:
        if _BLOCK.search(page.read_text(encoding="utf-8")):
            renew(page, every="--all" in words)


if __name__ == "__main__":
    main(*sys.argv[1:])
