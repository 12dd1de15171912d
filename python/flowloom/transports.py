"""What drawings, tables and warnings must know about each transport, in one place.

Parameters and descriptions are in the simulator's catalogue (`engine.catalogue`). An entry here is optional: a transport
without one has its own name as label, a look that follows from its name, and no special warning.
"""

from __future__ import annotations

import colorsys
import dataclasses
import enum
import zlib

MARKERS = "os^Dv<>pPX"
"""Markers for series without their own."""
BOUND = "ideal"
"""The name of the bound on all transports."""


class Family(enum.Enum):
    """Transports that share a dash and a hatch in drawings. Within a family, colours differ for every eye."""

    BOUND = enum.auto()
    """A bound on all transports."""
    PAPERS = enum.auto()
    """The papers' own schemes, and schemes that know flow sizes."""
    TCP = enum.auto()
    OTHER = enum.auto()
    UNKNOWN = enum.auto()
    """Without an entry here."""


@dataclasses.dataclass(frozen=True)
class Transport:
    """A transport as drawings, tables and warnings know it."""

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


_PAPERS, _TCP, _OTHER = Family.PAPERS, Family.TCP, Family.OTHER
TRANSPORTS = {
    BOUND: Transport("ideal", "#000000", "", Family.BOUND),
    "phost": Transport("pHost", "#0072B2", "o", _PAPERS),
    "pfabric": Transport("pFabric", "#D55E00", "s", _PAPERS),
    "fastpass": Transport("Fastpass", "#009E73", "^", _PAPERS),
    "pias": Transport("PIAS", "#E69F00", "D", _PAPERS, ports="tcp.port", unmarked="controller = newreno"),
    "pase": Transport("PASE", "#CC79A7", "v", _PAPERS),
    "top": Transport("TOP", "#56B4E9", "P", _PAPERS),
    "ndp": Transport("NDP", "#1F394C", "X", _PAPERS),
    "tcp": Transport("TCP", "#005629", "+", _TCP, unmarked="always"),
    "dctcp": Transport("DCTCP", "#2385F8", "x", _TCP),
    "d2tcp": Transport("D2TCP", "#00C34D", ">", _TCP),
    "l2dct": Transport("L2DCT", "#2BCFB2", "<", _TCP),
    "ecn_star": Transport("ECN*", "#D49AEB", "*", _TCP),
    "las": Transport("LAS", "#C04ECB", "p", _OTHER),
    "pdq": Transport("PDQ", "#8D0500", "1", _OTHER),
    "d3": Transport("D3", "#5242A3", "2", _OTHER),
    "homa": Transport("Homa", "#680045", "h", _OTHER),
    "expresspass": Transport("ExpressPass", "#6E7023", "d", _OTHER),
    "hpcc": Transport("HPCC", "#CCAD9B", "3", _OTHER),
}


def transport(name: str) -> Transport:
    """Return a transport's entry. That of an unknown transport is derived from its name."""
    if name in TRANSPORTS:
        return TRANSPORTS[name]
    number = zlib.crc32(name.encode())
    red, green, blue = colorsys.hsv_to_rgb(number % 360 / 360, 0.75, 0.7)
    color = f"#{round(red * 255):02X}{round(green * 255):02X}{round(blue * 255):02X}"
    return Transport(name, color, MARKERS[number // 360 % len(MARKERS)], Family.UNKNOWN)
