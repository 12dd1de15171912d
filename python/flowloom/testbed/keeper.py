"""The process that keeps a testbed up: `flowloom testbed up` starts it, and `down` ends it.

Its state is a file that names the process and the namespaces. When the process ends in any way, the kernel removes the network,
and the file is worth nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from flowloom import locks, storage
from flowloom._native import RunError, ScenarioError
from flowloom.scenario import Scenario
from flowloom.testbed import namespaces
from flowloom.testbed.network import Network, View

_WAIT_S = 20.0
_READY = "ready"


@dataclasses.dataclass(frozen=True)
class _State:
    process: int
    started: str
    """When the process started, in ticks of the kernel. Another process that gets its number later has another time."""
    view: View


_STATE, _SCENARIO = TypeAdapter(_State), TypeAdapter(Scenario)


def up(scenario: Scenario) -> View:
    """Set up the network of a scenario. It stays until `down`.

    Raises:
        ScenarioError: The scenario is not valid, or too large.
        RunError: A testbed is up already, or this machine cannot have one.
    """
    if why := namespaces.lacking():
        raise RunError(f"there is no testbed here: {why}")
    with _alone():
        return _up(scenario)


def _up(scenario: Scenario) -> View:
    if (state := _state()) is not None:
        raise RunError(f"a testbed is up: {state.view.title}; `flowloom testbed down` removes it")
    keeper = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        answer = _ask(keeper, _SCENARIO.dump_json(scenario).decode())
    except BaseException:
        keeper.kill()  # Ctrl-C; the network goes with it
        raise
    kind, _, why = answer.strip().partition(": ")
    if kind != _READY or (state := _state()) is None:
        raise (ScenarioError if kind == ScenarioError.__name__ else RunError)(why or "the keeper of the testbed ended at once")
    return state.view


def _ask(keeper: subprocess.Popen[str], scenario: str) -> str:
    """Give the keeper its scenario; return its answer. It goes on afterwards."""
    if keeper.stdin is None or keeper.stdout is None:
        raise ValueError("its input and its output are pipes")
    with keeper.stdin, keeper.stdout:
        keeper.stdin.write(scenario)
        keeper.stdin.close()
        return keeper.stdout.read()


def view() -> View:
    """Return the testbed that is up.

    Raises:
        RunError: There is none.
    """
    if (state := _state()) is None:
        raise RunError("no testbed is up; `flowloom testbed up` sets one up")
    return state.view


def command(node: str, words: Sequence[str]) -> list[str]:
    """Return a command that runs another one on a node of the testbed, where `/etc/hosts` has the names of all nodes.

    Raises:
        RunError: No testbed is up.
        ScenarioError: There is no such node.
    """
    found = view()
    inner = 'printf "%s\\n" "$1" > "$2" && mount --bind "$2" /etc/hosts && rm "$2" && shift 2 && exec "$@"'
    hosts = "\n".join(["127.0.0.1 localhost", *(f"{one.address} {one.name}" for one in found.nodes)])
    name = f"/tmp/flowloom-hosts.{os.getpid()}"
    return found.find(node).space.command("unshare", "--mount", "sh", "-c", inner, "sh", hosts, name, *words)


def down() -> bool:
    """Remove the testbed and end the programs in it. Return whether one was up."""
    if _state() is None:
        return False
    with _alone():
        return _down()


def _down() -> bool:
    state = _state()
    if state is None:
        return False
    for process in _programs(state.view):
        _end(process, signal.SIGKILL)
    _end(state.process, signal.SIGTERM)
    until = time.monotonic() + _WAIT_S
    while _started(state.process) == state.started:
        if time.monotonic() > until:
            _end(state.process, signal.SIGKILL)
        time.sleep(0.01)
    _file().unlink(missing_ok=True)
    return True


def _end(process: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(process, how)


def _programs(of: View) -> list[int]:
    """Return the processes in the namespaces of a testbed."""
    spaces = {Path(node.space.path).stat().st_ino for node in of.nodes}
    found = []
    for process in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            if Path(f"/proc/{process}/ns/net").stat().st_ino in spaces:
                found.append(process)
        except OSError:
            continue  # it has ended
    return found


def _file() -> Path:
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/run") / "flowloom-testbed.json"


def _alone() -> contextlib.AbstractContextManager[None]:
    """Wait for others that set up or remove the testbed: the state has room for one keeper, and nobody would end a second."""
    return locks.locked(_file().with_suffix(".lock"), wait=True)


def _state() -> _State | None:
    """Return the state of the testbed that is up. The file of one that has ended is removed."""
    try:
        state = _STATE.validate_json(_file().read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise RunError(f"{_file()} cannot be read as the state of a testbed; if none is up, remove it ({error})") from None
    if _started(state.process) == state.started:
        return state
    _file().unlink(missing_ok=True)
    return None


def _started(process: int) -> str:
    """Return when a process started; empty if there is none, or only what its parent has not yet collected."""
    try:
        # The name in parentheses may have blanks; proc(5) counts the state as field 3 and the time as field 22.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _keep() -> None:
    """Set up the network of the scenario on standard input, say so, and wait for a signal."""
    scenario = _SCENARIO.validate_json(sys.stdin.read())
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        with Network(scenario) as network:
            state = _State(os.getpid(), _started(os.getpid()), network.view)
            storage.write_text(_file(), _STATE.dump_json(state).decode())
            os.write(1, f"{_READY}\n".encode())
            # Whoever waits for the answer reads until its end.
            os.dup2(2, 1)
            signal.sigwait(signals)
    except (ScenarioError, RunError, OSError) as error:
        os.write(1, f"{type(error).__name__}: {error}\n".encode())


if __name__ == "__main__":
    _keep()
