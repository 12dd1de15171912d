"""The simulator, written in Rust. Arguments and results are plain; see ARCHITECTURE.md, "The native module"."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, final

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

_Progress = Callable[[float, float, int], None]
"""`progress(done, sim_s, packet_hops)` is called about ten times a second, with zeros before the run, and may raise to stop."""

Sink = Callable[[str, dict[str, NDArray[Any] | tuple[NDArray[Any], list[str]]] | bytes], None]
"""`sink(name, columns)` takes the next rows of a series, and may raise to stop. Indices come with the names they refer to.
Bytes are the next ones of a file of the trace."""

def resolve(text: str, path: str, overrides: Sequence[str]) -> str:
    """Read a scenario, check its rules, and return it as TOML with every default filled in. Nothing is planned."""

def refusals(text: str, path: str, overrides: Sequence[str], transports: Sequence[str]) -> dict[str, str]:
    """Return why transports cannot run the scenario: by name, those that cannot."""

def memories(text: str, path: str, variants: Sequence[Sequence[str]]) -> list[tuple[int, str] | None]:
    """Return the memory of ports, and why, of variants of a scenario that do not give it; None for the others."""

def plan(text: str, path: str, overrides: Sequence[str], progress: _Progress | None = None) -> Plan:
    """Make the network, the paths and the flows of a scenario, and check everything but the run itself."""

@final
class Plan:
    """A scenario that is planned, and can be run once."""

    @property
    def resolved(self) -> str:
        """The scenario as TOML with a value for every key."""
    @property
    def misfits(self) -> list[str]:
        """What in the scenario does not suit the network or the flows."""
    def fitted(self) -> str:
        """Return what a run has where the scenario leaves it open, as JSON: by key, `value` and `why`."""
    def data_queue_bounds(self) -> str:
        """Return the bounds of queues of data under credits as JSON: `by_hop` and `per_root_of_packets`, or null."""
    def deployment(self, for_datagrams: bool) -> str:
        """Return what the scenario means for switches and hosts, as JSON; `flowloom.deploy.plan` reads it."""
    def until(self, limit_ps: int) -> Plan:
        """Return the same plan with another time limit; it shares the network and the paths."""
    def flows(self) -> str:
        """Return the plan's flows, for real hosts, as JSON; `flowloom.testbed.results` reads it."""
    def judge(self, measured: str, progress: _Progress | None = None) -> Run:
        """Return results of the flows on real hosts, from JSON of `flowloom.testbed.results`. The plan is used up."""
    def run(self, progress: _Progress | None = None, sink: Sink | None = None, threads: int = 1) -> Run:
        """Simulate the plan, which is used up: a second call raises ValueError. Results do not depend on `threads`."""

def catalogue() -> str:
    """Give the transports, workloads, topologies and wires there are, as JSON."""

def schema() -> str:
    """Give the JSON Schema of a scenario."""
