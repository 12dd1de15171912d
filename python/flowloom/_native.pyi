"""The simulator, written in Rust. Arguments and results are plain; see ARCHITECTURE.md, "The native module"."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from numpy.typing import NDArray

DEBUG_ASSERTIONS: bool
"""Whether this is the build that checks every assertion; it takes a third longer than the optimised one."""

class ScenarioError(Exception):
    """The input is bad; the message is the paragraph to print."""

class RunError(Exception):
    """The run failed; the message is the paragraph to print."""

class Run(TypedDict):
    flows: dict[str, NDArray[Any] | list[str]]
    summary: str
    scenario: str

_Progress = Callable[[float, float, int], None]
"""`progress(done, sim_s, packet_hops)` is called about ten times a second, with zeros before the run, and may raise to stop."""

_Sink = Callable[[str, dict[str, NDArray[Any] | tuple[NDArray[Any], list[str]]] | bytes], None]
"""`sink(name, columns)` takes the next rows of a series, and may raise to stop. Indices come with the names they refer to.
Bytes are the next ones of a file of the trace."""

def check(text: str, path: str, overrides: Sequence[str], progress: _Progress | None = None) -> tuple[str, list[str]]:
    """Return the resolved scenario, which is TOML with every default filled in, and what in it does not suit the network."""

def fitted_parameters(text: str, path: str, overrides: Sequence[str]) -> str:
    """Return the transport's parameters that follow from the network and the workload, with the values of a run, as JSON."""

def data_queue_bounds(text: str, path: str, overrides: Sequence[str]) -> str:
    """Return the bounds of queues of data under credits as JSON: `by_hop` and `per_root_of_packets`, or null."""

def deployment(text: str, path: str, overrides: Sequence[str]) -> str:
    """Return what the scenario means for switches and hosts, as JSON; `flowloom.deploy.plan` reads it."""

def run(text: str, path: str, overrides: Sequence[str], progress: _Progress | None = None, sink: _Sink | None = None) -> Run:
    """Simulate a scenario."""

def planned_flows(text: str, path: str, overrides: Sequence[str]) -> str:
    """Return the flows of a scenario, for real hosts, as JSON; `flowloom.testbed.results` reads it."""

def judge(
    text: str,
    path: str,
    overrides: Sequence[str],
    measured: str,
    progress: _Progress | None = None,
) -> Run:
    """Return the results of a scenario's flows on real hosts; `measured` is JSON, as `flowloom.testbed.results` makes it."""

def catalogue() -> str:
    """Give the transports, workloads, topologies and wires there are, as JSON."""

def schema() -> str:
    """Give the JSON Schema of a scenario."""
