"""Runs on a Dask cluster: the same bytes as here, with progress, and with workers that are lost."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

import flowloom
from conftest import eventually
from flowloom import RunError, clusters
from flowloom.cli import app
from flowloom.jobs import Job, run_jobs
from flowloom.progress import Silent

distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).parents[2]
SMALL = """
[topology]
kind = "single_switch"
hosts = 4
[workload]
kind = "poisson"
load = 0.5
sizes = "web_search"
flows = 200
[transport]
name = "phost"
"""


@contextlib.contextmanager
def two_workers():
    """A cluster of two workers, each a process of its own."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster():
    with two_workers() as client:
        yield client


@pytest.fixture
def address(cluster):
    return cluster.scheduler.address


class Seen(Silent):
    """Keeps what it is told, and calls a function at the first progress."""

    def __init__(self, first=lambda: None):
        self.labels, self.warnings, self._first = set(), [], first

    def progress(self, key, label, done, sim_s, packet_hops):
        first, self.labels = not self.labels, self.labels | {label}
        if first:
            threading.Thread(target=self._first).start()  # this is the thread that Dask's answers need

    def warn(self, text):
        self.warnings.append(text)


def files_of(folder):
    """The files of the runs of a sweep, but for those that say when and where they were made."""
    files = (path for path in Path(folder, "runs").rglob("*") if path.is_file() and path.name != "provenance.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if not path.name.startswith(".")}


def test_a_sweep_on_a_cluster_has_the_same_bytes(address, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL, encoding="utf-8")
    words = ["sweep", str(tmp_path / "small.toml"), "--vary", "workload.load=0.3,0.6", "--seeds", "2", "--no-plot", "--out"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "there"), "--cluster", address])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, [*words, str(tmp_path / "here")]).exit_code == 0
    there = files_of(tmp_path / "there")
    assert len([name for name in there if name.endswith("flows.parquet")]) == 4
    assert there == files_of(tmp_path / "here")


def test_a_lost_worker_costs_no_run_and_progress_is_told():
    with two_workers() as client, flowloom.Cluster(client) as executor:
        pids = client.run(os.getpid)
        lost = []

        def lose_one():
            lost.extend(worker for worker, tasks in client.processing().items() if tasks)
            os.kill(pids[lost[0]], signal.SIGKILL)

        seen = Seen(lose_one)
        assert executor.threads == 2
        base = SMALL.replace("flows = 200", "flows = 3000")
        made = flowloom.sweep(base, {"workload.load": [0.5, 0.6, 0.7]}, executor=executor, reporter=seen)
        assert [run.results.summary["finished"] for run in made] == [3000] * 3
        assert lost
        assert lost[0] not in client.scheduler_info()["workers"]


def test_a_worker_that_would_compute_something_else_refuses(cluster):
    scenario = flowloom.Scenario.of(SMALL)
    job = Job("other", scenario, "another key")
    with flowloom.Cluster(cluster) as executor, pytest.raises(RunError, match=r"other: worker tcp://.* has another build of"):
        run_jobs([job], executor=executor)


def test_what_ends_early_ends_on_the_workers(cluster):
    seen = Seen()
    job = Job.of("long", flowloom.Scenario.of(SMALL.replace("flows = 200", "flows = 1000000")))
    with flowloom.Cluster(cluster) as executor:
        with executor.running([job], seen):
            assert eventually(lambda: seen.labels)
        assert eventually(lambda: not any(cluster.run(lambda dask_worker: len(dask_worker.state.executing)).values()))


def test_a_worker_that_fails_in_its_own_way_is_told(cluster):
    with flowloom.Cluster(cluster) as executor:
        assert executor.submit(int, "7").result() == 7
        with pytest.raises(RunError, match="a worker failed: ValueError: invalid literal"):
            executor.submit(int, "seven").result()


def test_a_cluster_without_workers_is_waited_for():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as local,
        distributed.Client(local, set_as_default=False) as client,
        flowloom.Cluster(client) as executor,
    ):
        seen = Seen()
        with executor.running([Job.of("one", flowloom.Scenario.of(SMALL))], seen) as futures:
            (warning,) = seen.warnings
            assert "no workers" in warning
            local.scale(1)
            (future,) = futures
            assert future.result(600).summary["finished"] == 200


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cluster", "127.0.0.1:1"], "cluster 127.0.0.1:1: no Dask scheduler answers"),
        (["--cluster", "nonsense://x"], "cluster nonsense://x: "),
        (["--cluster", "127.0.0.1:1", "--jobs", "2"], "--jobs and --cluster: "),
    ],
)
def test_a_cluster_that_is_not_there_is_an_error_in_the_input(tmp_path, monkeypatch, words, message):
    monkeypatch.setattr(clusters, "PATIENCE_S", 1.0)
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    for command in (
        ["sweep", str(path), "--vary", "workload.load=0.3", "--out", str(tmp_path / "out")],
        ["paper", "run", "pase/fig3"],
    ):
        done = CliRunner().invoke(app, [*command, *words])
        assert done.exit_code == 2
        assert message in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "address", ["", " ", "foo", "foo:bar", "tcp://foo", "tcp://:8786", "nonsense://x", "ucx://x:1", "tcp://x:99999"]
)
def test_what_is_no_address_is_not_given_to_dask(monkeypatch, address):
    """Dask's client waits for 20 s when it is deleted after such an error, and prints a traceback."""
    given = []
    monkeypatch.setattr(distributed, "Client", lambda *words, **_: given.append(words))
    with pytest.raises(flowloom.ScenarioError, match=r"^cluster .*; give an address such as tcp://10"):
        flowloom.Cluster(address)
    assert not given
    for good in ("127.0.0.1:8786", "tcp://[::1]:8786", "tls://node:1"):
        flowloom.Cluster(good)
    assert [words for (words,) in given] == ["127.0.0.1:8786", "tcp://[::1]:8786", "tls://node:1"]


def test_the_page_leads_from_nothing_to_a_figure(clone, tmp_path):
    page = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    install, scheduler, worker, command = (
        block.replace("8786", port) for block in re.findall(r"^```sh\n(.*)\n```$", page, re.M)
    )
    assert install == "pip install '.[dask]'"
    with contextlib.ExitStack() as stack:
        for line in (scheduler, worker):
            _, *words = line.split()
            stack.enter_context(started([sys.executable, "-m", "dask", *words, "--no-dashboard"], tmp_path / f"{words[0]}.log"))
            assert eventually(lambda: answers(port))
        _, *words = command.split()
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert (clone / "results/pase/fig3/fig3.png").exists()


@contextlib.contextmanager
def started(words, log):
    with log.open("w") as file, subprocess.Popen(words, stdout=file, stderr=file) as process:
        yield
        process.terminate()


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
        return True
    return False
