"""Shared fixtures: a scenario that runs in milliseconds, a figure with it, and a fake simulator for injecting failures."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fake_native
from flowloom import _native
from flowloom.transports import transports

# A shell starts background jobs with signals ignored, and all processes inherit that. Tests send these signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

HANG_S = 600.0
"""What takes longer than this is taken to hang. A busy machine may need a minute for what takes a second."""


def eventually(condition: Callable[[], object]) -> bool:
    """Wait until a condition holds, and return whether it did in time."""
    deadline = time.monotonic() + HANG_S
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(found)


@pytest.fixture
def kernel(tmp_path_factory):
    """Tests that attach programs to the kernel run one at a time: some compare all that it has of them before and after."""
    import fcntl

    # The workers of one run have folders in a common one.
    with (tmp_path_factory.getbasetemp().parent / "kernel.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


SMALL = """\
[topology]
kind = "single_switch"
hosts = 8
host_rate = "10Gb/s"
delay = "200ns"

[workload]
kind = "poisson"
sizes = "imc10"
load = 0.5
flows = 200

[transport]
name = "phost"
"""

FIGURE = """\
title = "Slowdown against load"

[[axis]]
name = "load"
key = "workload.load"
values = [0.3, 0.6]

[[axis]]
name = "transport"
key = "transport.name"
values = ["phost", "pfabric", "ideal"]

[scale.quick]
seeds = 2
seeds_max = 4

[scale.full]
seeds = 2
set = [{ keys = { "workload.flows" = 300 } }]

[[panel]]
kind = "lines"
x = "load"
y = "slowdown.mean"

[[claim]]
id = "tiny/1"
says = "The bound is never beaten on average."

[[claim.check]]
kind = "ratio"
metric = "nfct"
of = { transport = ["phost", "pfabric"] }
to = { transport = "ideal" }
at_least = 1.0

[[claim]]
id = "tiny/2"
says = "Something that cannot be."
check = [{ kind = "level", metric = "slowdown.mean", where = { transport = "phost" }, at_most = 0.5 }]
"""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what has not begun by FLOWLOOM_TESTS_UNTIL, in seconds since 1970: CI ends a run that takes too long."""
    if time.time() > float(os.environ.get("FLOWLOOM_TESTS_UNTIL", "inf")):
        pytest.skip("the time for tests is over")


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own cache of digests, apart from the user's."""
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of papers with one paper, `tiny`, and one figure, `fig1`."""
    folder = tmp_path / "papers" / "tiny"
    folder.mkdir(parents=True)
    (folder / "default.toml").write_text(SMALL)
    (folder / "fig1.toml").write_text(FIGURE)
    monkeypatch.setenv("FLOWLOOM_PAPERS", str(folder.parent))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch):
    """Replace the simulator by the fake one, in this process."""
    transports()  # they are read once, and not from the fake
    for name in ("resolve", "refusals", "plan", "catalogue"):
        monkeypatch.setattr(_native, name, getattr(fake_native, name))
    for name in ("ScenarioError", "RunError"):
        monkeypatch.setattr(fake_native, name, getattr(_native, name))
    return fake_native


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A working directory with the files of a fresh clone that commands use."""
    for name in ("examples", "papers"):
        shutil.copytree(Path(__file__).parents[2] / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
