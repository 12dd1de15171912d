"""What the ports of a testbed do: echoes of the highest and of the lowest class while bulk flows fill the port.

Two hosts send as much as they can to a third one, with the kernel's TCP and ECN, in the lowest class. Meanwhile, one of them
sends single bytes that come back, in the highest class and in the lowest. The same is measured through a port with one FIFO.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

import flowloom
from flowloom._native import RunError, ScenarioError
from flowloom.deploy.plan import SwitchPort, dscp, plan_of
from flowloom.scenario import Scenario
from flowloom.testbed import machine, traffic
from flowloom.testbed.network import Count, Network, Node
from flowloom.words import shown

FIFO = {"transport.name": "dctcp"}
"""What turns the scenario into that of the control: its ports have one queue, and mark alike."""
ECHOES = 400
SETTLE_S = 1.0
"""How long bulk flows fill the port before anything is measured."""
ATTEMPTS = 3
"""How often it is measured, at most. A machine that is busy for a moment spoils a measurement, and cannot make a good one."""
RATIO_MAX, GOODPUT_MIN = 1 / 3, 0.75
_ANSWER_S = 60.0
_MEMORY_MB = 512


@dataclasses.dataclass(frozen=True)
class Measured:
    """What was measured through one port."""

    port: str
    rate_bps: int
    high_us: tuple[float, ...]
    """The times of echoes in the highest class."""
    low_us: tuple[float, ...]
    goodput_bps: float
    """What the bulk flows delivered, as TCP payload."""
    marked: int
    dropped: int
    retransmitted: int
    ecn: bool
    """Whether the bulk flows were ECN-capable."""
    marks: str
    """What marked packets."""
    control: str
    """The congestion control of the bulk flows."""

    @property
    def medians(self) -> tuple[float, float]:
        """Return the medians of echoes in the highest and in the lowest class, in microseconds."""
        return statistics.median(self.high_us), statistics.median(self.low_us)


@dataclasses.dataclass(frozen=True)
class Line:
    """A sentence of the verdict."""

    text: str
    good: bool


def check(scenario: Scenario, progress: Callable[[str], None]) -> tuple[Measured, Measured]:
    """Measure a port of the scenario, and the control. `progress` is called with what begins.

    Raises:
        ScenarioError: The scenario is not valid, has fewer than three hosts, or its ports have one queue.
        RunError: This machine cannot have a testbed.
    """
    if len(plan_of(scenario).switches[0].ports[0].profile.queues) == 1:
        raise ScenarioError("the ports of the scenario have one queue; take a transport that has several, such as pias")
    for attempt in range(1, ATTEMPTS + 1):
        again = f", attempt {attempt}" if attempt > 1 else ""
        progress(f"measuring a port of the scenario{again}")
        port = _measure("queues of the scenario", scenario)
        progress(f"measuring a port with one FIFO{again}")
        found = port, _measure("one FIFO", scenario.set(FIFO))
        if all(line.good for line in verdict(*found)):
            break
    return found


def check_in_machine(scenario: Scenario, progress: Callable[[str], None]) -> tuple[Measured, Measured]:
    """Do the same in user-mode Linux.

    Raises:
        ScenarioError: The scenario is not valid, has fewer than three hosts, or its ports have one queue.
        RunError: This machine cannot run it.
    """
    plan_of(scenario)  # a wrong scenario is named at once
    progress("booting user-mode Linux")
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        file = Path(folder, "scenario.json")
        file.write_bytes(_SCENARIO.dump_json(scenario))
        packages = Path(flowloom.__file__).parents[1]
        command = ["env", f"PYTHONPATH={packages}", "PYTHONDONTWRITEBYTECODE=1", sys.executable, "-m", __name__, str(file)]
        (answer,) = machine.run([shlex.join(command)], memory_mb=_MEMORY_MB)
    if (found := _REFUSAL.match(answer)) is not None:
        raise (ScenarioError if found[1] == ScenarioError.__name__ else RunError)(found[2])
    try:
        return _ANSWER.validate_json(answer)
    except ValidationError:
        raise RunError(f"the check in user-mode Linux failed: {shown(answer, 1500)}") from None


def verdict(port: Measured, fifo: Measured) -> list[Line]:
    """Return what the measurement says.

    On a machine that is too busy for the rate, hosts are the bottleneck, through both ports. Then TCP may also send packets
    again that were only late. So the goodput is compared with that through the FIFO, and what counts as a loss is a drop.
    """
    (high, low), (fifo_high, fifo_low) = port.medians, fifo.medians
    possible = min(port.rate_bps, fifo.goodput_bps)
    share = f"{port.goodput_bps / port.rate_bps:.0%} of the line rate, {port.goodput_bps / possible:.0%} of what is possible"
    capable = f"{'' if port.ecn else 'not '}ECN-capable"
    return [
        Line(f"an echo of the highest class takes {high / low:.2f} of one of the lowest: at most 1/3", high <= RATIO_MAX * low),
        Line(f"through one FIFO, it takes {fifo_high / fifo_low:.2f} of it: at least 1/2", fifo_high >= fifo_low / 2),
        Line(f"the bulk flows got {share}: at least {GOODPUT_MIN:.0%}", port.goodput_bps >= GOODPUT_MIN * possible),
        Line(f"{port.marked:,} packets were marked by {port.marks}: some", port.marked > 0),
        Line(f"the bulk flows were {capable}, and the port dropped {port.dropped:,}: none", port.ecn and not port.dropped),
    ]


def _measure(name: str, scenario: Scenario) -> Measured:
    with Network(scenario) as network:
        if len(network.view.hosts) < 3:
            raise ScenarioError("the check needs three hosts: two that send and one that receives")
        *senders, receiver = network.view.hosts[:3]
        port = _port_to(network, receiver)
        control = _prepare(network.view.hosts[:3])
        # Where there is one queue, any other DSCP does.
        high, low = dscp(0) << 2, dscp(max(len(port.profile.queues) - 1, 1)) << 2
        with contextlib.ExitStack() as stack:
            sink = stack.enter_context(_program(receiver, "serve", control))
            bulk = [stack.enter_context(_program(host, "bulk", receiver.address, str(low), control)) for host in senders]
            time.sleep(SETTLE_S)
            before = _counted(network, receiver)
            _tell(sink, "begin\n")
            high_us, low_us = (_echoes(senders[0], receiver, tos) for tos in (high, low))
            _tell(sink, "end\n")
            after = _counted(network, receiver)
            sent = [_answer(program) for program in bulk]
            got = _answer(sink)
        return Measured(
            port=name,
            rate_bps=port.rate_bps,
            high_us=high_us,
            low_us=low_us,
            goodput_bps=8 * got["bytes"] / got["seconds"],
            marked=after.marked - before.marked,
            dropped=after.dropped - before.dropped,
            retransmitted=sum(one["retransmitted"] for one in sent),
            ecn=all(one["ecn"] for one in sent),
            marks=network.view.marks,
            control=control,
        )


def _port_to(network: Network, host: Node) -> SwitchPort:
    """Return the port of the switch that leads to a host."""
    return next(port for _, port, to in network.plan.ports() if to == host.name)


def _counted(network: Network, host: Node) -> Count:
    return next(count for count in network.view.counters() if count.to == host.name)


def _prepare(hosts: Sequence[Node]) -> str:
    """Let the kernel's TCP of these hosts use ECN. Return the congestion control of bulk flows: DCTCP, if the kernel has it."""
    control = "reno"
    for host in hosts:
        known = host.space.run("sysctl", "-n", "net.ipv4.tcp_available_congestion_control").split()
        control = next(name for name in ("dctcp", "cubic", "reno") if name in known)
        # On a busy machine, the first packet of a connection may come late, and is sent again, by default without ECN.
        host.space.run("sysctl", "-qw", "net.ipv4.tcp_ecn=1", "net.ipv4.tcp_ecn_fallback=0")
    return control


def _echoes(sender: Node, receiver: Node, tos: int) -> tuple[float, ...]:
    with _program(sender, "echoes", receiver.address, str(tos), str(ECHOES)) as program:
        return tuple(_answer(program))


@contextlib.contextmanager
def _program(host: Node, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program of `traffic` on a host. It is killed if it has not ended with the block."""
    command = host.space.command(sys.executable, traffic.__file__, *words)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def _tell(program: subprocess.Popen[str], line: str) -> None:
    if program.stdin is None:
        raise ValueError("its input is a pipe")
    program.stdin.write(line)
    program.stdin.flush()


def _answer(program: subprocess.Popen[str]) -> Any:
    """End a program's input, and return what it answers."""
    answer, _ = program.communicate(timeout=_ANSWER_S)
    if program.returncode:
        raise RunError(f"a program of the check ended with {program.returncode}; its message is above")
    return json.loads(answer)


_SCENARIO, _ANSWER = TypeAdapter(Scenario), TypeAdapter(tuple[Measured, Measured])
_REFUSAL = re.compile(r"(ScenarioError|RunError): (.*)", re.DOTALL)


def _main(file: str) -> None:
    """Check the scenario of a file; print what was measured as JSON, or the error."""
    scenario = _SCENARIO.validate_json(Path(file).read_bytes())
    try:
        found = check(scenario, lambda what: None)
    except (ScenarioError, RunError) as error:
        print(f"{type(error).__name__}: {error}")
    else:
        print(_ANSWER.dump_json(found).decode())


if __name__ == "__main__":
    _main(*sys.argv[1:])
