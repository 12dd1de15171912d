"""Variants: sets of scenario keys that a comparison runs side by side, each under a label of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from flowloom import transports
from flowloom._native import ScenarioError
from flowloom.scenario import dotted, overridden
from flowloom.words import shown

LABEL_MAX = 60
"""The maximum number of characters of a label. Longer ones leave no room for numbers in a table."""
_NAME = "transport.name"


@dataclasses.dataclass(frozen=True)
class Variant:
    """A scheme that is compared: a transport alone, or any set of scenario keys under a label."""

    label: str
    """Its name in data: the name of the transport, or what the user gave."""
    changes: dict[str, Any]
    """The scenario keys that it sets."""

    @classmethod
    def of_transport(cls, name: str) -> Variant:
        """Create the variant that only selects a transport."""
        return cls(name, {_NAME: name})

    @property
    def plain(self) -> bool:
        """Whether it is a transport as the scenario configures it, which has the transport's own name and look."""
        return self.changes == {_NAME: self.label}

    @property
    def title(self) -> str:
        """Its name in tables and pictures."""
        return transports.transport(self.label).label if self.plain else self.label

    def blame(self, error: ScenarioError) -> ScenarioError:
        """Return an error of its scenario as an error of the variant, if it has keys that the user wrote for it."""
        if self.plain:
            return error
        found = overridden(str(error))
        what = found[1] if found and found[0] in self.changes else str(error)
        return ScenarioError(f'variant "{self.label}": {what}')


def of(label: str, changes: Mapping[str, Any]) -> Variant:
    """Create a variant and check its label and the form of its keys; the simulator checks keys and values.

    Raises:
        ScenarioError: The label is empty, too long or not printable, there are no keys, or one is given twice.
    """
    check_label(label)
    try:
        keys = dotted(changes)
    except ScenarioError as error:
        raise ScenarioError(f'variant "{label}": {error}') from None
    if not all(keys):
        raise ScenarioError(f'variant "{label}": a key is empty; give a key of the scenario, such as {_NAME}')
    if not keys:
        raise ScenarioError(f'variant "{label}": it sets no keys; give at least one, such as {_NAME}')
    return Variant(label, keys)


def check_label(label: Any) -> None:
    """Raise ScenarioError if a text cannot be the label of a column and of a line."""
    if not isinstance(label, str) or not label.strip():
        raise ScenarioError(f"label {shown(repr(label))}: give a text that is not empty, such as dctcp K=30k")
    if not label.isprintable():
        raise ScenarioError(f'label "{shown(label)}": a character of it cannot be printed; give letters, digits and signs')
    if label != label.strip():
        raise ScenarioError(f'label "{shown(label)}": it begins or ends with a space; leave the space out')
    if len(label) > LABEL_MAX:
        raise ScenarioError(f'label "{shown(label)}": it has {len(label)} characters; give at most {LABEL_MAX}')


def check_unlike(variants: Iterable[Variant], others: Iterable[str] = ()) -> None:
    """Raise ScenarioError if two of these have the same label, in data or in print.

    Args:
        variants: The variants.
        others: Labels of what is beside them.
    """
    used: set[str] = set()
    for variant in variants:
        if variant.plain and variant.label in used:
            way_out = f"'LABEL: {_NAME}={variant.label}, KEY=VALUE'"
            raise ScenarioError(f"{variant.label} is named twice; a variant runs it again with other keys, such as {way_out}")
        _add(used, {variant.label, variant.title})
    for label in others:
        _add(used, {label})


def _add(used: set[str], names: set[str]) -> None:
    if twice := sorted(names & used):
        raise ScenarioError(f'the label "{twice[0]}" is given twice; each column and each line needs a label of its own')
    used |= names
