"""The simulator, written in Rust. Arguments and results are plain Python values; see ARCHITECTURE.md, "The native module"."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from numpy.typing import NDArray

DEBUG_ASSERTIONS: bool
"""Whether this is the build with assertions, which takes a third longer than the optimised build."""

class ScenarioError(Exception):
    """The input is not valid; the message can be printed as it is."""

class RunError(Exception):
    """The run failed; the message can be printed as it is."""

class Run(TypedDict):
    flows: dict[str, NDArray[Any]]
    summary: str
    scenario: str
    series: dict[str, dict[str, NDArray[Any]]]

_Progress = Callable[[float, float, int], None]
"""`progress(done, sim_s, packet_hops)` is called about ten times a second, with zeros before the run, and may raise to stop."""

def check(text: str, path: str, overrides: Sequence[str], progress: _Progress | None = None) -> str:
    """Return the resolved scenario: TOML with every default filled in."""

def run(text: str, path: str, overrides: Sequence[str], progress: _Progress | None = None) -> Run:
    """Simulate a scenario."""

def catalogue() -> str:
    """Return the available transports, workloads, topologies and wires, as JSON."""

def schema() -> str:
    """Return the JSON Schema of a scenario."""
