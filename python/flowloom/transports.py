"""What drawings, tables and warnings must know about each transport, from the simulator's catalogue."""

from __future__ import annotations

import colorsys
import dataclasses
import enum
import functools
import zlib

from flowloom import engine

MARKERS = "os^Dv<>pPX"
"""Markers for series without their own."""
BOUND = "ideal"
"""The name of the bound on all transports."""


class Family(enum.Enum):
    """Transports that share a dash and a hatch in drawings. Within a family, colours differ for every eye."""

    BOUND = "bound"
    """A bound on all transports."""
    PAPERS = "papers"
    """The papers' own schemes, and schemes that know flow sizes."""
    TCP = "tcp"
    OTHER = "other"
    UNKNOWN = "unknown"
    """Without a look of its own."""


@dataclasses.dataclass(frozen=True)
class Transport:
    """A transport as drawings, tables and warnings know it. Its folder in `crates/transports` says this."""

    label: str
    """Its name in its authors' spelling."""
    color: str
    marker: str
    """Matplotlib's marker; empty for a bound, which is drawn as a line."""
    family: Family
    ports: str = "port"
    """The dotted key, among its parameters, of the settings of switch ports, if it has them."""
    unmarked: str = ""
    """Where its packets are not ECN-capable: `always`, or under a parameter (`controller = newreno`). Empty: nowhere."""

    @property
    def bound(self) -> bool:
        """Whether this is a bound on all transports."""
        return self.family is Family.BOUND


@functools.cache
def transports() -> dict[str, Transport]:
    """Return every transport of the simulator by its name."""
    return {entry["name"]: _transport(entry["name"], **entry["profile"]) for entry in engine.catalogue()["transports"]}


def transport(name: str) -> Transport:
    """Return a transport. What is not known of it is derived from its name."""
    return transports().get(name) or _transport(name)


def _transport(
    name: str, label: str = "", color: str = "", marker: str = "", family: str = "unknown", **more: str
) -> Transport:
    if not marker and family != Family.BOUND.value:
        marker = MARKERS[zlib.crc32(name.encode()) // 360 % len(MARKERS)]
    return Transport(label or name, color or of_hue(hue(name)), marker, Family(family), **more)


def hue(name: str) -> int:
    """Return the hue of a transport without a colour of its own, in degrees. It is derived from the name."""
    return zlib.crc32(name.encode()) % 360


def of_hue(degrees: int) -> str:
    """Return the colour with a hue."""
    red, green, blue = colorsys.hsv_to_rgb(degrees % 360 / 360, 0.75, 0.7)
    return f"#{round(red * 255):02X}{round(green * 255):02X}{round(blue * 255):02X}"
