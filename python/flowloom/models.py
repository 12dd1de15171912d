"""Files as typed models: a model declares what a file may say. Errors name the place, the key and what would be right."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError, model_validator

from flowloom import toml
from flowloom._native import ScenarioError
from flowloom.words import shown, suggestion

Place = tuple[str | int, ...]
"""Where a value is in a file: `("claim", 0, "check", 1, "metric")`."""


class FieldError(ValueError):
    """A value is not valid. In the message, `{table}` stands for the name of the table that it is in."""

    def __init__(self, message: str, *below: str | int) -> None:
        """Describe an error.

        Args:
            message: What is wrong, and what would be right.
            below: The place, below the value that is being checked.
        """
        super().__init__(message)
        self.below = below


class Model(BaseModel):
    """A table of a file. It has no other keys than the model's fields, and no value is converted to another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @classmethod
    def valid_keys(cls, table: Mapping[str, Any]) -> Collection[str]:
        """Return the keys that a table may have."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @model_validator(mode="before")
    @classmethod
    def _no_other_keys(cls, table: Any) -> Any:
        if isinstance(table, dict):
            valid = cls.valid_keys(table)
            for key in table:
                if key not in valid:
                    raise FieldError(f"unknown key in {{table}}: {suggestion(key, valid)}", key)
        return table


class Problem(NamedTuple):
    """An error in a file."""

    place: Place
    key: str
    """The last key of the place; for a key that is missing, the name of the table."""
    message: str


def problem(error: ValidationError, root: Any, name: str) -> Problem:
    """Return the first of the errors that a validation found. A key that is missing counts last, since it may be mistyped.

    Args:
        error: The errors.
        root: The content of the file, as it was read.
        name: What the file holds, such as "a figure".
    """
    # A default that depends on a wrong value is reported as an error of its own.
    every = [each for each in error.errors(include_url=False) if each["type"] != "default_factory_not_called"]
    first = min(every, key=lambda each: each["type"] == "missing")
    place = tuple(part for part in first["loc"] if part != "[key]")  # which stands for the key itself, not for its value
    if first["type"] == "missing":
        *above, key = place
        table = _table(tuple(above), root, name)
        return Problem(tuple(above), _key(tuple(above), name), f"{table} needs `{key}`")
    reason = first.get("ctx", {}).get("error")
    if isinstance(reason, FieldError):
        place = _within(root, (*place, *reason.below))
        message = str(reason).replace("{table}", _table(place[:-1], root, name))
    elif (kind := first["type"]) in _KINDS:
        message = f"must be {_KINDS[kind]}, not {_written(first['input'])}"
    else:
        message = _LIMITS.get(kind, "{msg}").format(msg=first["msg"], **first.get("ctx", {}))
    return Problem(place, _key(place, name), message)


_KINDS = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
_LIMITS = {"greater_than_equal": "must be at least {ge}", "less_than_equal": "must be at most {le}", "too_short": "is empty"}


def _within(root: Any, place: Place) -> Place:
    """Return a place without the part that is inside a single value, which was read as a short form of a list."""
    for depth, part in enumerate(place):
        if not isinstance(root, dict | list):
            return place[:depth]
        inside: Mapping[Any, Any] = root if isinstance(root, dict) else dict(enumerate(root))
        if part not in inside:
            break  # a key that is missing
        root = inside[part]
    return place


def _key(place: Place, name: str) -> str:
    return next((part for part in reversed(place) if isinstance(part, str)), name)


def _table(place: Place, root: Any, name: str) -> str:
    """Return the name of a table in a message: `[[claim.check]] of kind ratio`."""
    found, names = root, []
    for part in place:
        found = found[part]
        if isinstance(part, str):
            names.append(part)
    if not names:
        return name
    label = ".".join(names)
    kind = found.get("kind") if isinstance(found, dict) else None
    return (f"[[{label}]]" if isinstance(place[-1], int) else f"[{label}]") + (f" of kind {shown(kind)}" if kind else "")


def _written(value: Any) -> str:
    try:
        return "null" if value is None else shown(toml.value(value))
    except TypeError:
        return shown(value)  # TOML's dates


class TomlFile:
    """A TOML file as it was read."""

    def __init__(self, path: Path, what: str) -> None:
        """Read a file.

        Args:
            path: The file.
            what: What it holds, such as "figure".

        Raises:
            ScenarioError: It cannot be read, or is not TOML.
        """
        self.path, self._what = path, what
        try:
            self.text = path.read_text(encoding="utf-8")
            self.table: dict[str, Any] = tomllib.loads(self.text)
        except OSError as error:
            raise ScenarioError(f"cannot read the {what} {shown(path, 200)}: {error.strerror}") from error
        except RecursionError:
            raise ScenarioError(f"{path}: the tables of the {what} are nested too deeply") from None
        except ValueError as error:  # no TOML, no UTF-8, a NUL in the name, or a whole number of thousands of digits
            raise ScenarioError(f"{shown(path, 200)}: {shown(error, 200)}") from error

    def error(self, place: Place, message: str, key: str = "") -> ScenarioError:
        """Return an error at a place; `key` names the place, if not its last key does."""
        line = toml.line_of(self.text, place)
        return ScenarioError(f"{self.path}{'' if line is None else f':{line}'}: {shown(key or _key(place, ''))}: {message}")

    def invalid(self, error: ValidationError, content: Any) -> ScenarioError:
        """Return the first error that the validation of the file's content found."""
        found = problem(error, content, f"a {self._what}")
        return self.error(found.place, found.message, found.key)


def one_of(what: str, names: Collection[str]) -> BeforeValidator:
    """Return the check of a name that must be one of several."""

    def check(name: Any) -> Any:
        if isinstance(name, str) and name not in names:
            raise FieldError(f'unknown {what} "{shown(name)}": {suggestion(name, names)}')
        return name

    return BeforeValidator(check)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise FieldError(f"must be a finite number, not {_written(value)}")
    return value  # a whole number stays one


def _plain(value: Any) -> Any:
    match value:
        case bool() | int() | str():
            pass
        case float():
            _number(value)
        case list():
            for part in value:
                _plain(part)
        case dict():
            for part in value.values():
                _plain(part)
        case _:
            raise FieldError(f"must be a number, a string, true or false, a list or a table, not {_written(value)}")
    return value


Number = Annotated[float, PlainValidator(_number)]
"""A finite number."""
Plain = Annotated[Any, PlainValidator(_plain)]
"""A value that a scenario can have: no date, and no number that is not finite."""
