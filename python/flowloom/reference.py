"""Generates the scenario reference from the schema that the simulator checks scenarios against.

`python -m flowloom.reference docs/scenario` writes it: a page for each section of a scenario, and one for each transport. The
descriptions are the documentation comments of the types in `crates/lab` and of the transports' configurations.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from flowloom import _native, toml

Schema: TypeAlias = dict[str, Any]

_MARK = "<!-- Written by `python -m flowloom.reference` (`make docs`) from the simulator's own schema. Do not edit. -->"

_INTRO = """\
A scenario is one TOML file. This one is complete; every key that it does not have has its default:

```toml
[topology]
kind = "leaf_spine"
racks = 4
hosts_per_rack = 8

[fabric]
buffer = "100kB"

[workload]
kind = "poisson"
sizes = "web_search"
load = 0.6
flows = 2000

[transport]
name = "{name}"

[transport.{name}]
{key} = {value}
```

Every key can be overridden on the command line (`--set workload.load=0.8`) and from Python (`workload__load=0.8`).
`flowloom show SCENARIO.toml` prints a scenario with every default filled in. An unknown key is an error, which names the line
and the most similar key. Names of files are relative to the scenario's folder.
"""

_UNITS = """\
## Quantities

Quantities are strings with a unit. A number without a unit is an error. A quantity must be a whole number of the smallest unit.

| type | smallest unit | units | for example |
|---|---|---|---|
| duration | 1 ps | `ps` `ns` `us` (or `µs`) `ms` `s` | `"200ns"`, `"0.2us"` |
| rate | 1 b/s | `b/s` `kb/s` `Mb/s` `Gb/s` `Tb/s`, or `bps` `kbps` `Mbps` `Gbps` `Tbps` | `"10Gb/s"` |
| bytes | 1 B | `B` `kB` `MB` `GB` `TB` (powers of 1000), `KiB` `MiB` `GiB` `TiB` (of 1024) | `"36kB"`, `"36KiB"` |

In the column of defaults, `required` means that the key must be given, and `none` that a key without a default may be left out.
"""

_MORE = {
    "fabric": "[pfc.md](../pfc.md) describes priority flow control.",
    "workload": "[coflows.md](../coflows.md) describes coflows.",
    "metrics": "[metrics.md](../metrics.md) defines every number of a result.",
    "observe": "[data-dictionary.md](../data-dictionary.md#seriespendingparquet) has the columns of each series, and says when"
    " a sample has a row. [teaching.md](../teaching.md) and [slow-flow.md](../slow-flow.md) use them.",
}
"""What else the pages of sections lead to."""

_PARAMETERS = """\
`[transport.NAME]` has the parameters of a transport. A scenario may have such a table for several transports; the one of the
transport that runs has an effect. [The folder of a transport](../../../crates/transports/src) has a README, which says what the
transport follows and where it deviates.
"""

_FORMATS = {"quantity-duration": "duration", "quantity-rate": "rate", "quantity-bytes": "bytes"}
_START = "README.md"
_TRANSPORTS = "transports/README.md"


class Place(NamedTuple):
    """Where keys are described."""

    page: str
    words: str
    """What they are called there, in Markdown: `[workload]`."""

    def seen_from(self, page: str) -> str:
        """Return the words as a link, unless they are on the same page."""
        return self.words if page == self.page else f"[{self.words}]({_path(page, self.page)})"


def pages(schema: Schema, transports: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the reference: the text of each page by its path in the folder of the reference.

    Args:
        schema: The schema of scenarios, from `flowloom._native.schema()`.
        transports: The `transports` of `flowloom._native.catalogue()`.
    """
    transports = list(transports)
    described: dict[str, Place] = {}
    found: dict[str, list[str]] = {}
    for name, part in schema["properties"].items():
        if name == "transport":
            found |= _of_transports(part, {each["name"]: each["about"] for each in transports}, described)
            continue
        head, first, *rest = _section(f"{name}.md", name, part, name in schema["required"], described)
        more = [_fill(_MORE[name]) + "\n"] if name in _MORE else []
        found[f"{name}.md"] = [head, first, *more, *rest]
    sections = [
        [f"[{_name(lines[0])}]({page})", " ".join(lines[1].split("\n\n")[0].split())]
        for page, lines in found.items()
        if not _is_of_a_transport(page)
    ]
    start = [
        "# Scenario reference\n",
        _MARK + "\n",
        _intro(transports[0]),
        "## Sections\n",
        table(["section", "meaning"], sections),
        _UNITS,
    ]
    return {_START: "\n".join(start)} | {page: _page(page, lines) for page, lines in found.items()}


def _intro(transport: Mapping[str, Any]) -> str:
    """Return what a scenario is, with a scenario of this transport and the first of its parameters."""
    key, value = next(iter(transport["defaults"].items()))
    return _INTRO.format(name=transport["name"], key=toml.key(key), value=toml.value(value))


def _of_transports(schema: Schema, about: Mapping[str, str], described: dict[str, Place]) -> dict[str, list[str]]:
    """Describe the section of transports: a page for all, and a page for the parameters of each."""
    tables = {name: part for name, part in schema["properties"].items() if _is_table(part)}
    own = {name: part for name, part in schema["properties"].items() if name not in tables}
    names = [[f"[`{name}`]({name}.md)", about[name]] for name in tables]
    first = [
        *_section(_TRANSPORTS, "transport", {**schema, "properties": own}, True, described),
        _fill(_PARAMETERS) + "\n",
        table(["transport", "what it is"], names),
    ]
    found = {_TRANSPORTS: first}
    for name, part in tables.items():
        page = f"transports/{name}.md"
        head, *rest = _section(page, f"transport.{name}", part, False, described)
        found[page] = [head, _fill(f"`{name}`: {about[name]}.") + "\n", *rest]
    return found


def _page(page: str, lines: Iterable[str]) -> str:
    """Return the text of a page, with links to the pages above it and to its parts."""
    head, *rest = lines
    up = f"[scenario reference]({_path(page, _START)})"
    if _is_of_a_transport(page):
        up += f" · [transports]({_path(page, _TRANSPORTS)})"
    parts = [_name(line) for line in rest if line.startswith("## ")]
    on_this = [_fill("On this page: " + " · ".join(f"[{_shorter(part)}](#{_anchor(part)})" for part in parts)) + "\n"]
    return "\n".join([head, _MARK + "\n", up + "\n", *(on_this if parts else []), *rest])


def _is_of_a_transport(page: str) -> bool:
    return page.startswith("transports/") and page != _TRANSPORTS


def _name(heading: str) -> str:
    return heading.strip("# \n")


def _shorter(heading: str) -> str:
    """Return a heading without brackets, and the kind alone of a kind."""
    kind = re.fullmatch(r'`kind = "(.*)"`', heading)
    return kind[1] if kind else heading.strip("`[]")


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")


def _path(page: str, target: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def _section(
    page: str, path: str, schema: Schema, required: bool, described: dict[str, Place], level: int = 1
) -> Iterator[str]:
    """Describe one table, then the tables in it. A table may occur several times: `described` has the place of its first."""
    repeated = schema.get("type") == "array"
    body = schema["items"] if repeated else schema
    name = f"`[[{path}]]`" if repeated else f"`[{path}]`"
    yield f"{'#' * level} {name}\n"
    yield _paragraphs(body.get("description", "")) + (" Required.\n" if required else "\n")
    content = _fingerprint([branch.get("properties") or branch for branch in _branches(body)])
    if content in described:
        yield f"This table has the same keys as {described[content].seen_from(page)}.\n"
        own = {key: part.get("default") for key, part in body.get("properties", {}).items()}
        others = {key: value for key, value in (schema.get("default") or {}).items() if value != own.get(key)}
        if others:
            yield f"Other defaults: {', '.join(f'`{key} = {toml.value(value)}`' for key, value in others.items())}.\n"
        return
    described[content] = Place(page, name)
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
            described[_fingerprint(rest)] = Place(page, f"{name} of its kind{left_out}")
            yield from _head_of_kind(kind, level + 1)
        needed = kind.get("required", ())
        rows = {key: part for key, part in kind["properties"].items() if "const" not in part}
        yield from _keys(rows, needed)
        inner |= {key: (part, key in needed) for key, part in rows.items() if _is_table(part)}
        words |= {key: part for key, part in rows.items() if any("description" in choice for choice in _words(part))}
    for key, part in words.items():
        yield f"`{path}.{key}` is one of\n"
        yield "".join(_fill(f"* `{choice['const']}`: {_first(choice)}", indent="  ") + "\n" for choice in _words(part))
    for key, (part, key_required) in inner.items():
        yield from _section(page, f"{path}.{key}", part, key_required, described, 2)


def _fingerprint(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def _like(body: Schema, described: dict[str, Place]) -> tuple[dict[str, Schema], str] | None:
    """Return the keys that all kinds of a table have beside those of described kinds, and what the latter are called."""
    common = _shared(body)
    kinds = [kind["properties"] for kind in _tables(body)]
    rests = [{key: part for key, part in kind.items() if key not in common} for kind in kinds]
    names = {described.get(_fingerprint(rest)) for rest in rests}
    name = names.pop() if common else None
    return (common, name.words) if name and not names else None


def _shared(body: Schema) -> dict[str, Schema]:
    """Return the keys that all kinds of a table have; none if there is one kind."""
    kinds = [kind["properties"] for kind in _tables(body)]
    if len(kinds) < 2 or not any("const" in part for part in kinds[0].values()):
        return {}
    return {key: part for key, part in kinds[0].items() if all(kind.get(key) == part for kind in kinds)}


def _head_of_kind(kind: Schema, level: int) -> Iterator[str]:
    """Describe one of several alternative tables; the alternatives differ in their `kind`, or else in their keys."""
    for key, part in kind["properties"].items():
        if "const" in part:
            yield f'{"#" * level} `{key} = "{part["const"]}"`\n'
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


def stale(folder: Path, written: Mapping[str, str]) -> list[Path]:
    """Return the pages of an earlier reference that this one does not have, such as that of a transport that is gone."""
    found = sorted(path for path in folder.rglob("*.md") if path.relative_to(folder).as_posix() not in written)
    return [path for path in found if _MARK in path.read_text(encoding="utf-8")]


def write(folder: Path) -> None:
    """Write the reference to a folder, and remove what an earlier one has left there."""
    written = pages(json.loads(_native.schema()), json.loads(_native.catalogue())["transports"])
    for page, text in written.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(text, encoding="utf-8")
    for path in stale(folder, written):
        path.unlink()


def main() -> None:
    """Write the reference to the folder that the command line names."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m flowloom.reference FOLDER")
    write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
