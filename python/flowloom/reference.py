"""Generates the scenario reference from the schema that the simulator checks scenarios against.

`python -m flowloom.reference docs/scenario.md` writes it. The descriptions are the documentation comments of
`crates/lab/src/spec` and of the transports' configurations.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from flowloom import _native, toml

Schema: TypeAlias = dict[str, Any]

_INTRO = """\
# Scenario reference

<!-- Written by `python -m flowloom.reference` (`make docs`) from the simulator's own schema. Do not edit. -->

A scenario is one TOML file. Every key can be overridden on the command line (`--set workload.load=0.8`) and from Python
(`workload__load=0.8`). `flowloom show SCENARIO.toml` prints a scenario with every default filled in. An unknown key is an
error, which names the line and the most similar key. Names of files are relative to the scenario's folder.

Quantities are strings with a unit. A number without a unit is an error. A quantity must be a whole number of the smallest unit.

| type | smallest unit | units | for example |
|---|---|---|---|
| duration | 1 ps | `ps` `ns` `us` `ms` `s` | `"200ns"`, `"0.2us"` |
| rate | 1 b/s | `b/s` `kb/s` `Mb/s` `Gb/s` `Tb/s` | `"10Gb/s"` |
| bytes | 1 B | `B` `kB` `MB` `GB` `TB` (powers of 1000), `KiB` `MiB` `GiB` `TiB` (of 1024) | `"36kB"`, `"36KiB"` |

In the column of defaults, `required` means that the key must be given, and `none` that a key without a default may be left out.
"""

_FORMATS = {"quantity-duration": "duration", "quantity-rate": "rate", "quantity-bytes": "bytes"}


def document(schema: Schema) -> str:
    """Return the reference as Markdown, for a schema from `flowloom._native.schema()`."""
    sections: list[str] = []
    described: dict[str, str] = {}
    for name, part in schema["properties"].items():
        sections += _section(name, part, name in schema.get("required", ()), described)
    heads = [part.split("`")[1] for part in sections if part.startswith("## ")]
    links = " · ".join(f"[{head.strip('[]')}](#{re.sub('[^a-z0-9_-]', '', head)})" for head in heads)
    return "\n".join([_INTRO, links + "\n", *sections])


def _section(path: str, schema: Schema, required: bool, described: dict[str, str]) -> Iterator[str]:
    """Describe one table, then the tables in it. A table may occur several times: `described` has the heading of its first."""
    repeated = schema.get("type") == "array"
    body = schema["items"] if repeated else schema
    head = f"[[{path}]]" if repeated else f"[{path}]"
    yield f"## `{head}`\n"
    yield _paragraphs(body.get("description", "")) + (" Required.\n" if required else "\n")
    content = _fingerprint([branch.get("properties") or branch for branch in _branches(body)])
    if content in described:
        yield f"This table has the same keys as `{described[content]}`.\n"
        own = {key: part.get("default") for key, part in body.get("properties", {}).items()}
        others = {key: value for key, value in (schema.get("default") or {}).items() if value != own.get(key)}
        if others:
            yield f"Other defaults: {', '.join(f'`{key} = {toml.value(value)}`' for key, value in others.items())}.\n"
        return
    described[content] = head
    yield from _names(body)
    if like := _like(body, described):
        keys, other = like
        yield f"Each has the keys of {other}, and these:\n"
        yield from _keys(keys, _tables(body)[0].get("required", ()))
        return
    inner: dict[str, tuple[Schema, bool]] = {}
    words: dict[str, Schema] = {}
    shared = _shared(body)
    for kind in _tables(body):
        if kind is not body:
            rest = {key: part for key, part in kind["properties"].items() if key not in shared}
            left_out = f" except {', '.join(f'`{key}`' for key in shared)}" if shared else ""
            described[_fingerprint(rest)] = f"`{head}` of its kind{left_out}"
            yield from _head_of_kind(kind)
        needed = kind.get("required", ())
        rows = {key: part for key, part in kind["properties"].items() if "const" not in part}
        yield from _keys(rows, needed)
        inner |= {key: (part, key in needed) for key, part in rows.items() if _is_table(part)}
        words |= {key: part for key, part in rows.items() if any("description" in choice for choice in _words(part))}
    for key, part in words.items():
        yield f"`{path}.{key}` is one of\n"
        yield "".join(_fill(f"* `{choice['const']}`: {_first(choice)}", indent="  ") + "\n" for choice in _words(part))
    for key, (part, key_required) in inner.items():
        yield from _section(f"{path}.{key}", part, key_required, described)


def _fingerprint(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def _like(body: Schema, described: dict[str, str]) -> tuple[dict[str, Schema], str] | None:
    """Return the keys that all kinds of a table have beside those of described kinds, and what the latter are called."""
    common = _shared(body)
    kinds = [kind["properties"] for kind in _tables(body)]
    rests = [{key: part for key, part in kind.items() if key not in common} for kind in kinds]
    names = {described.get(_fingerprint(rest)) for rest in rests}
    name = names.pop() if common else None
    return (common, name) if name and not names else None


def _shared(body: Schema) -> dict[str, Schema]:
    """Return the keys that all kinds of a table have; none if there is one kind."""
    kinds = [kind["properties"] for kind in _tables(body)]
    if len(kinds) < 2 or not any("const" in part for part in kinds[0].values()):
        return {}
    return {key: part for key, part in kinds[0].items() if all(kind.get(key) == part for kind in kinds)}


def _head_of_kind(kind: Schema) -> Iterator[str]:
    """Describe one of several alternative tables; the alternatives differ in their `kind`, or else in their keys."""
    for key, part in kind["properties"].items():
        if "const" in part:
            yield f'### `{key} = "{part["const"]}"`\n'
    yield _paragraphs(kind.get("description", "")) + "\n"


def _keys(rows: dict[str, Schema], needed: Iterable[str]) -> Iterator[str]:
    """Describe the keys of a table."""
    cells = [
        [f"`{key}`", _type(part), _default(key, part, needed), _line(part.get("description", ""))] for key, part in rows.items()
    ]
    yield table(["key", "type", "default", "meaning"], cells)


def _names(body: Schema) -> Iterator[str]:
    """List the names that may stand in place of a table."""
    for branch in _branches(body):
        if "enum" in branch:
            names = ", ".join(f"`{name}`" for name in branch["enum"])
            yield _fill(f"A built-in name ({names}), or one of these tables:") + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Format a Markdown table whose columns are aligned; the last column is not padded."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)] + [0]
    text = ("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines)
    return "\n".join(text) + "\n"


def _branches(schema: Schema) -> list[Schema]:
    """Return the alternatives of a schema without null; the schema itself if it has none."""
    choice = schema.get("oneOf") or schema.get("anyOf")
    if choice is None:
        return [] if schema.get("type") == "null" else [schema]
    return [branch for part in choice for branch in _branches(part)]


def _words(schema: Schema) -> list[Schema]:
    """Return the constant strings that a schema allows, with their descriptions; none if it allows anything else."""
    branches = _branches(schema)
    return branches if all(branch.get("type") == "string" and "const" in branch for branch in branches) else []


def _tables(schema: Schema) -> list[Schema]:
    return [branch for branch in _branches(schema) if "object" in _list(branch.get("type"))]


def _is_table(schema: Schema) -> bool:
    return bool(_tables(schema.get("items", schema)))


def _is_only_table(schema: Schema) -> bool:
    return len(_tables(schema)) == len(_branches(schema))


def _type(schema: Schema) -> str:
    if _is_table(schema):
        if schema.get("type") == "array":
            return "tables"
        return "table" if _is_only_table(schema) else "name or table"
    if _words(schema) or "enum" in schema:
        return "name"
    if len(choices := _branches(schema)) > 1:
        return ", or ".join(_type(choice) for choice in choices)
    schema = choices[0]
    name = next((name for name in _list(schema["type"]) if name != "null"), "")
    if name == "array":
        count = f"{schema['minItems']} " if "minItems" in schema and schema["minItems"] == schema.get("maxItems") else ""
        return f"list of {count}{_type(schema['items'])}"
    if name == "string":
        return ", ".join([_FORMATS.get(schema.get("format", ""), "text"), *_span(schema)])
    if name == "boolean":
        return "`true` or `false`"
    return ", ".join([name, *_bounds(schema)])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _bounds(schema: Schema) -> Iterator[str]:
    least, above, most = (schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum"))
    if least is not None and most is not None and most < 2**32:
        yield f"{least} to {most}"
        return
    if least is not None:
        yield f"at least {least}"
    if above is not None:
        yield f"above {above}"
    if most is not None and most < 2**32:
        yield f"at most {most}"


def _span(schema: Schema) -> Iterator[str]:
    """Give the range of a quantity."""
    if "x-min" in schema and "x-max" in schema:
        yield f"{schema['x-min']} to {schema['x-max']}"


def _default(key: str, schema: Schema, needed: Iterable[str]) -> str:
    if key in needed:
        return "required"
    if "null" in _list(schema.get("type")):
        return "none"
    if _is_table(schema) and not any(branch.get("required") for branch in _tables(schema)) and "items" not in schema:
        return "its defaults"
    default = schema.get("default")
    return "none" if default is None else f"`{toml.value(default)}`"


def _paragraphs(text: str) -> str:
    """Wrap the lines of a documentation comment, as Markdown."""
    return "\n\n".join(_fill(_line(paragraph)) for paragraph in text.split("\n\n"))


def _fill(line: str, indent: str = "") -> str:
    return textwrap.fill(line, 130, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _line(text: str) -> str:
    """Return a documentation comment on one line, without its links into the code."""
    return " ".join(re.sub(r"\[`([^`\]]+)`\](\([^)]*\))?", r"`\1`", text).split())


def _first(schema: Schema) -> str:
    """Return the first paragraph of a description, on one line."""
    return _line(schema.get("description", "").split("\n\n")[0])


def main() -> None:
    """Write the reference to the file that the command line names."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m flowloom.reference FILE.md")
    Path(sys.argv[1]).write_text(document(json.loads(_native.schema())), encoding="utf-8")


if __name__ == "__main__":
    main()
