"""Finds the part of a figure file that an error in one of the figure's scenarios comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flowloom import toml
from flowloom._native import ScenarioError
from flowloom.figures.schema import Figure, Rule
from flowloom.models import Place
from flowloom.scenario import overridden


def blamed(error: ScenarioError, figure: Figure, scale: str, at: str, keys: Mapping[str, Any]) -> ScenarioError:
    """Return an error in a scenario of a figure as an error in the figure's file.

    The simulator reports a key that a figure sets as an option `--set`, which the user did not type.

    Args:
        error: What the simulator reports.
        figure: The figure.
        scale: The scale that is run.
        at: The name of the point.
        keys: The keys that the user did set.
    """
    text = str(error)
    place: Place | None = None
    if (found := overridden(text)) and found[0] not in keys:
        # The last place that sets the key decides.
        place = next((place for place, key in reversed(list(_places(figure, scale))) if key == found[0]), None)
        text = found[1] if place else text
    line = toml.line_of(figure.path.read_text(encoding="utf-8"), place) if place else None
    return ScenarioError(f"{figure.path}{f':{line}' if line else ''}: {f'at {at}: ' if at else ''}{text}")


def _places(figure: Figure, scale: str) -> Iterator[tuple[Place, str]]:
    """Return the places that set keys, each with its key, in ascending precedence."""

    def rules(rules: list[Rule], *above: str) -> Iterator[tuple[Place, str]]:
        for number, rule in enumerate(rules):
            for key in rule.keys:
                yield (*above, number, "keys", key), key

    yield from rules(figure.rules_set, "set")
    yield from rules(figure.rules_added, "add")
    yield from rules(figure.scales[scale].rules, "scale", scale, "set")
    yield from ((("axis", number, "values"), axis.key) for number, axis in enumerate(figure.axes) if axis.key)
    yield from ((("scale", scale, "trials", key), key) for key in figure.scales[scale].trials)
    yield from ((("tune", number, "keys", key), key) for number, tune in enumerate(figure.tunes) for key in tune.keys)
