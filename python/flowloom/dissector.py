"""The dissector of captures in Wireshark, made from the layouts of the transports' headers in the simulator's catalogue."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from flowloom import _native

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def tag(transport: str) -> int:
    """Return the number that stands for a transport in datagrams: the 32-bit FNV-1a hash of its name."""
    value = _FNV_OFFSET
    for byte in transport.encode():
        value = (value ^ byte) * _FNV_PRIME % 2**32
    return value


def lua() -> str:
    """Return the dissector's source, which knows all transports. It reads the frames of traces and those between real hosts."""
    known = (
        (entry["name"], entry["header"])
        for entry in json.loads(_native.catalogue())["transports"]
        if entry["profile"]["family"] != "bound"
    )
    headers = ",\n".join(
        f"  [0x{tag(name):08x}] = {{ name = {_literal(name)}, layout = {_literal(layout)} }}" for name, layout in known
    )
    return resources.files(__package__).joinpath("dissector.lua").read_text(encoding="utf-8").replace("--HEADERS--", headers)


def _literal(value: Any) -> str:
    """Return a value of JSON as Lua."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_literal(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "{ " + ", ".join(map(_literal, value)) + " }"
    # Lua reads numbers and ASCII text as JSON writes them.
    return json.dumps(value)
