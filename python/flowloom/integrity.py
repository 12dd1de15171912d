"""Checks that the files of a saved result are complete; errors name the damaged file and the damage."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from flowloom import columns, storage
from flowloom._native import ScenarioError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_COUNT = (int,)
_SEEN = (int, type(None))
"""What only a simulator counts: it is null in the result of real hosts."""
_NUMBER = (int, float, type(None))
_TEXT = (str,)
_SPREAD = {"mean": _NUMBER, "p50": _NUMBER, "p95": _NUMBER, "p99": _NUMBER}
_BIN = _SPREAD | {"above_bytes": _NUMBER, "up_to_bytes": _NUMBER, "flows": _COUNT, "finished": _COUNT}
_BY_SIZE = _SPREAD | {"by_size": [_BIN]}
_ANY = "*"
"""Stands for any key of a table whose keys depend on the run."""

# The part of docs/data-dictionary.md that tables, pictures, `explain` and `doctor` rely on.
_SUMMARY = {
    "transport": _TEXT, "seed": _COUNT, "flows": _COUNT, "finished": _COUNT, "not_started": _COUNT,
    "slowdown": _BY_SIZE, "fct_us": _BY_SIZE, "nfct": _NUMBER, "goodput_gbps": _NUMBER, "deadlines_met": _NUMBER,
    "drops": {"total": _SEEN, "data": _SEEN, "rate": _NUMBER, "by_hop": {_ANY: _COUNT}, "by_reason": {_ANY: _COUNT}},
    "marks": _SEEN, "trims": _SEEN, "retransmissions": _COUNT, "timeouts": _COUNT, "second_timeouts": _COUNT,
    "queueing_us_mean": _NUMBER, "queue": {_ANY: {"peak_bytes": _NUMBER, "wait_us_mean": _NUMBER}},
    "sent_by_class": [_COUNT], "packet_hops": _SEEN, "sim_s": _NUMBER,
}  # fmt: skip
_IF_PRESENT = {
    "backlog": dict.fromkeys(("arrived", "first", "second", "noise"), _NUMBER),
    "findings": [{"flag": _TEXT, "text": _TEXT}],
}
"""The same of keys that not every summary has."""
FORMAT = 1
"""The version of the files of a result. It changes when a file, a key or a column that is read gets another name or meaning."""
_PROVENANCE = {"format": _COUNT, "engine": _TEXT, "command": _TEXT, "date": _TEXT, "wall_s": _NUMBER}
_SCENARIO = {"run": {"seed": _COUNT}, "topology": {}, "workload": {}, "transport": {"name": _TEXT}}


def damaged(path: Path, how: str) -> ScenarioError:
    """Return the error for a damaged file."""
    return ScenarioError(f"{path} is damaged: {how}")


def read_text(path: Path) -> str:
    """Read a text file of a result.

    Raises:
        ScenarioError: The file cannot be read.
    """
    if storage.is_endless(path):
        raise damaged(path, "it is not a regular file")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        how = "it is missing" if isinstance(error, FileNotFoundError) else f"it cannot be read ({error.strerror})"
        raise damaged(path, how) from error
    except UnicodeDecodeError:
        raise damaged(path, "it is not UTF-8 text") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of a result.

    Raises:
        ScenarioError: The file cannot be read, or is not a JSON object.
    """
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"it is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise damaged(path, "it is not a JSON object")
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of a result.

    Raises:
        ScenarioError: The file cannot be read, or is not TOML.
    """
    return _toml(path, read_text(path))


def _toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise damaged(path, f"it is not TOML ({error})") from None


def manifest(path: Path, found: Any) -> list[str]:
    """Return the names of a result's files, as listed in its marker.

    Raises:
        ScenarioError: The entry is not a list of names, or a name leads out of the directory.
    """
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise damaged(path, "files is not a list of names")
    for name in found:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise damaged(path, f"files lists {name}, which is outside the directory")
    return found


def check_provenance(path: Path, found: Mapping[str, Any]) -> None:
    """Raise ScenarioError if provenance lacks a required key, or the result has the format of another version."""
    given = found.get("format")
    if given is None or (isinstance(given, int) and given != FORMAT):
        written = f"by Flowloom {found['flowloom']} " if isinstance(found.get("flowloom"), str) else ""
        what = f"format {given}" if given is not None else "a format without a number"
        again = f" with `{found['command']}`" if isinstance(found.get("command"), str) else ""
        older = "an older version" if given is None or given < FORMAT else "a newer version"
        way_out = f"run it again{again}, or read it with that version"
        raise ScenarioError(f"{path} was written {written}in {what}, by {older}; this version reads format {FORMAT}: {way_out}")
    _check(path, found, _PROVENANCE, "")


def check_summary(path: Path, found: Mapping[str, Any]) -> None:
    """Raise ScenarioError if a simulation's summary lacks a required key, or has a value of another type."""
    _check(path, found, _SUMMARY | {key: shape for key, shape in _IF_PRESENT.items() if key in found}, "")


def check_scenario(path: Path, text: str) -> None:
    """Raise ScenarioError if a text is not a resolved scenario."""
    if not text.strip():
        raise damaged(path, "it is empty")
    _check(path, _toml(path, text), _SCENARIO, "")


def _check(path: Path, found: Any, shape: Any, at: str) -> None:
    if isinstance(shape, tuple):
        if isinstance(found, bool) or not isinstance(found, shape):
            raise damaged(path, f"{at} is {_kind(found)}")
    elif isinstance(shape, list):
        if not isinstance(found, list):
            raise damaged(path, f"{at} is {_kind(found)}, not a list")
        for number, entry in enumerate(found):
            _check(path, entry, shape[0], f"{at}[{number}]")
    elif not isinstance(found, Mapping):
        raise damaged(path, f"{at} is {_kind(found)}, not a table")
    else:
        for key in found if _ANY in shape else shape:
            place = f"{at}.{key}".lstrip(".")
            if key not in found:
                raise damaged(path, f'it has no "{place}"')
            _check(path, found[key], shape.get(key, shape.get(_ANY)), place)


def _kind(found: Any) -> str:
    if found is None:
        return "null"
    kinds = {"dict": "a table", "list": "a list", "str": "a text", "bool": "true or false", "float": "a fraction"}
    return kinds.get(type(found).__name__, "a number")


def read_table(path: Path) -> pa.Table:
    """Read a Parquet file of a result.

    Raises:
        ScenarioError: The file is missing or damaged.
    """
    import pyarrow as pa

    try:
        return storage.read_parquet(path)
    except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
        raise damaged(path, _parquet(path, error)) from error


def check_exists(path: Path) -> None:
    """Raise ScenarioError if there is no such file."""
    if not path.is_file():
        raise damaged(path, "it is missing")


def check_table(path: Path) -> pq.FileMetaData:
    """Return what the end of a Parquet file says; its data are not read.

    Raises:
        ScenarioError: The end is not that of a Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            return pq.read_metadata(file)
    except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
        raise damaged(path, _parquet(path, error)) from error


def check_flows(path: Path, rows: int) -> None:
    """Raise ScenarioError if a file is not a flow table with this number of rows; its data are not read."""
    end = check_table(path)
    schema, found = end.schema.to_arrow_schema(), end.num_rows
    for name, column in columns.FLOWS.items():
        if name not in schema.names:
            if not column.always:
                continue
            raise damaged(path, f'it is not a flow table: it has no column "{name}"')
        if (kind := str(schema.field(name).type).replace("double", "float64")) != column.type:
            raise damaged(path, f'it is not a flow table: the column "{name}" is of type {kind}, not {column.type}')
    if found != rows:
        raise damaged(path, f"it has {found} flows, but summary.json has {rows}")


def _parquet(path: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    if path.is_dir():
        return "it is a directory"
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"it is not a complete Parquet file ({reason})"
