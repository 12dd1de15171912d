"""Files that a deployment consists of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from flowloom.deploy.plan import Group, Plan, Switch, rate


@dataclasses.dataclass(frozen=True)
class File:
    """A file of a deployment."""

    name: str
    text: str
    executable: bool = False


class Block:
    """Lines of a configuration, each group of them below a comment that says where it comes from."""

    def __init__(self, mark: str, indent: str = "") -> None:
        self._mark, self._indent = mark, indent
        self._lines: list[str] = []

    def note(self, *texts: str) -> None:
        """Add comments."""
        self._lines += [f"{self._indent}{self._mark} {text}".rstrip() for text in texts]

    def add(self, source: str, *lines: str) -> None:
        """Add lines below a comment with their source."""
        self.note(source)
        self.plain(*lines)

    def plain(self, *lines: str) -> None:
        """Add lines without a comment."""
        self._lines += [f"{self._indent}{line}" if line else "" for line in lines]

    def inner(self) -> Block:
        """Return a block whose lines are indented, and go to the end of this one."""
        block = Block(self._mark, f"{self._indent}  ")
        block._lines = self._lines
        return block

    @property
    def text(self) -> str:
        """The lines as a text."""
        return "".join(f"{line}\n" for line in self._lines)


def head(plan: Plan, switch: Switch) -> list[str]:
    """Return the comments at the top of a switch's file: which switches it is for, and which ports they have."""
    alike = f"{switch.count} switches are alike, such as {switch.first}" if switch.count > 1 else f"the switch {switch.first}"
    ports = [f"  {ports_of(group.numbers)}: to {group.port.to} at {rate(group.port.rate_bps)}" for group in switch.groups()]
    return [
        f"{switch.name}: {alike}. {plan.name} in {plan.title}.",
        "Its ports, numbered from 1 in the order of the scenario's links:",
        *ports,
    ]


def ports_of(numbers: Sequence[int]) -> str:
    """Return the words for some ports: `ports 1 to 16`."""
    if len(numbers) == 1:
        return f"port {numbers[0]}"
    return "ports " + ", ".join(f"{a} to {b}" if b > a else str(a) for a, b in runs(numbers))


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as ranges, both ends included."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def name_of(group: Group) -> str:
    """Return the name of a group in settings: `flowloom_to_host`."""
    return f"flowloom_{group.name}"
