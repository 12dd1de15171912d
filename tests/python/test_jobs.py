from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import flowloom
from conftest import HANG_S, SMALL
from flowloom import RunError, ScenarioError
from flowloom.jobs import Store, whole_number

LOADS = {"workload.load": [0.2, 0.4, 0.6]}


def parquets(out):
    return {p.parent.name: p.read_bytes() for p in (out / "runs").glob("[!.]*/flows.parquet")}


def test_results_do_not_depend_on_the_number_of_workers(scenario, tmp_path):
    for workers in (1, 2):
        flowloom.sweep(scenario, LOADS, seeds=2, workers=workers, out=tmp_path / str(workers))
    one, two = parquets(tmp_path / "1"), parquets(tmp_path / "2")
    assert len(one) == 6
    assert one == two
    assert (tmp_path / "1/sweep.csv").read_bytes() == (tmp_path / "2/sweep.csv").read_bytes()


def test_any_executor_will_do(scenario):
    with ThreadPoolExecutor(2) as executor:
        threads = flowloom.sweep(scenario, LOADS, executor=executor)
    processes = flowloom.sweep(scenario, LOADS, workers=2)
    assert threads.table().equals(processes.table())
    assert [run.point["workload.load"] for run in threads] == LOADS["workload.load"]


def test_a_dask_cluster_will_do(scenario, tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, local_directory=str(tmp_path)
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        dask = flowloom.sweep(scenario, LOADS, executor=client.get_executor())
    assert dask.table().equals(flowloom.sweep(scenario, LOADS, workers=1).table())


def test_seeds_count_from_the_scenarios_own(scenario):
    runs = flowloom.sweep(flowloom.Scenario.of(scenario).set({"run.seed": 5}), LOADS, seeds=2, workers=2)
    assert [run.seed for run in runs] == [5, 6] * 3


class Counting:
    """An executor that counts submitted calls."""

    def __init__(self) -> None:
        self.inner = ThreadPoolExecutor(1)
        self.submitted = 0

    def submit(self, *args):
        self.submitted += 1
        return self.inner.submit(*args)


def test_a_finished_run_is_not_made_again_and_one_without_flows_is(scenario, tmp_path):
    def runs(**options) -> int:
        executor = Counting()
        flowloom.sweep(scenario, options.pop("axes", LOADS), executor=executor, out=tmp_path / "s", **options)
        return executor.submitted

    assert runs(flows=False) == 3
    assert runs(flows=False) == 0
    assert runs() == 3  # the saved run has no flows, and now they are needed
    assert runs() == 0
    assert runs(seeds=2) == 3
    # The new table lacks runs of the earlier one, so it needs `force`.
    assert runs(axes={"workload.load": [0.2, 0.5]}, force=True) == 1


def test_a_run_whose_folder_another_process_removes_meanwhile_is_not_finished(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    is_dir = Path.is_dir

    def removed(path):
        there = is_dir(path)
        path.rmdir()
        return there

    monkeypatch.setattr(Path, "is_dir", removed)
    assert Store(tmp_path).find("run") is None
    assert Store(tmp_path).find("never") is None


def test_a_scenario_given_twice_is_run_once(scenario):
    executor = Counting()
    done = flowloom.sweep(scenario, {"topology.delay": ["1us", "1000ns"]}, executor=executor)
    assert executor.submitted == 1
    assert len(done) == 2


@pytest.mark.parametrize("values", [[0.2, 0.4, 0.2], [1, 1.0], ["web_search", "web_search"], [{"fixed": "2kB"}] * 2])
def test_a_value_given_twice_is_not_another_seed(scenario, values):
    executor = Counting()
    with pytest.raises(ScenarioError, match=r"^workload\.sizes: .* is given twice; give each value once$"):
        flowloom.sweep(scenario, {"workload.sizes": values}, executor=executor)
    assert executor.submitted == 0


@pytest.mark.parametrize(("values", "found"), [(0.5, "0.5"), (None, "None"), ("0.5", 'the text "0.5"'), ([], "no values")])
def test_an_axis_needs_a_list(scenario, values, found):
    complaint = f"workload.load: found {found}; an axis needs a list of values, such as [0.5, 0.8]"
    with pytest.raises(ScenarioError, match=re.escape(complaint)):
        flowloom.sweep(scenario, {"workload.load": values})
    with pytest.raises(ScenarioError, match=re.escape(complaint)):
        flowloom.compare(scenario, ["phost"], over={"workload.load": values})


def test_a_key_before_the_table_that_replaces_it_is_an_error(scenario):
    """Its values would be labels of runs that do not differ in them."""
    executor = Counting()
    tables = [{"kind": "burst", "sizes": "web_search", "flows": 3}, {"kind": "burst", "sizes": "imc10", "flows": 3}]
    complaint = r"workload\.flows has no effect: workload, which comes after it, is the whole table; give workload first"
    with pytest.raises(ScenarioError, match=f"^{complaint}"):
        flowloom.sweep(scenario, {"workload.flows": [5, 6], "workload": tables}, executor=executor)
    with pytest.raises(ScenarioError, match=f'^variant "a": {complaint}'):
        flowloom.compare(scenario, variants={"a": {"workload.flows": 5, "workload": tables[0]}}, executor=executor)
    with pytest.raises(ScenarioError, match=f"^{complaint}"):
        flowloom.run(scenario, {"workload.flows": 5, "workload": tables[0]})
    assert executor.submitted == 0
    done = flowloom.sweep(scenario, {"workload": tables, "workload.flows": [5, 6]}, executor=executor)
    assert [run.results.summary["flows"] for run in done] == [5, 6, 5, 6]


def test_a_key_is_the_same_however_it_is_written(scenario):
    executor = Counting()
    with pytest.raises(ScenarioError, match=r"^workload\.load is given twice; give each key once$"):
        flowloom.sweep(scenario, {"workload.load": [0.2], "workload__load": [0.3]}, executor=executor)
    for seed in ("run.seed", "run__seed", " run.seed"):
        with pytest.raises(ScenarioError, match=r"^the axis run\.seed gives the seeds already"):
            flowloom.sweep(scenario, {seed: [1, 2]}, seeds=2, executor=executor)
    assert executor.submitted == 0
    assert flowloom.sweep(scenario, {"workload__load ": [0.2]}, executor=executor).runs[0].point == {"workload.load": 0.2}


def test_nothing_runs_if_one_point_is_invalid(scenario, tmp_path):
    executor = Counting()
    with pytest.raises(ScenarioError, match=r"workload\.load"):
        flowloom.sweep(scenario, {"workload.load": [0.2, 7]}, executor=executor, out=tmp_path / "s")
    assert executor.submitted == 0
    assert not (tmp_path / "s").exists()


def test_a_failed_run_does_not_take_the_others_with_it(fake, tmp_path):
    with ThreadPoolExecutor(1) as executor, pytest.raises(RunError, match=r"1 of 3 runs failed:\nfails: .*no progress"):
        flowloom.sweep("[run]\n", {"workload.kind": ["poisson", "fails", "burst"]}, executor=executor, out=tmp_path / "s")
    assert len(parquets(tmp_path / "s")) == 2


def test_an_error_of_the_simulator_takes_no_other_run_with_it(fake, tmp_path):
    reason = r"1 of 2 runs failed:\npanics: an error in Flowloom itself, please report it: an assertion failed"
    with ThreadPoolExecutor(1) as executor, pytest.raises(RunError, match=reason):
        flowloom.sweep("[run]\n", {"workload.kind": ["panics", "poisson"]}, executor=executor, out=tmp_path / "s")
    assert len(parquets(tmp_path / "s")) == 1


def test_a_directory_of_something_else_is_refused_before_anything_runs(scenario, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "notes.txt").write_text("precious")
    executor = Counting()
    with pytest.raises(ScenarioError, match="holds something else"):
        flowloom.sweep(scenario, LOADS, executor=executor, out=tmp_path / "s")
    assert executor.submitted == 0


def test_a_script_needs_no_main_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import flowloom
        print(len(flowloom.sweep({SMALL!r}, {LOADS!r}, workers=2)))
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout == "3\n"
    assert done.stderr == ""


def interrupted_sweep(scenario, out, axes):
    command = [sys.executable, "-m", "flowloom", "sweep", str(scenario), "--vary", axes, "--out", str(out), "--jobs", "1"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + HANG_S
    while not parquets(out) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGINT)  # a terminal sends the signal to the workers too
    _, stderr = child.communicate(timeout=HANG_S)
    return child.returncode, stderr


def test_ctrl_c_keeps_what_is_finished_and_the_next_start_goes_on(scenario, tmp_path):
    out = tmp_path / "s"
    # The first run takes milliseconds, and the others would take minutes.
    code, stderr = interrupted_sweep(scenario, out, "workload.flows=100,300001,300002")
    assert code == 130
    assert "finished runs are kept" in stderr
    assert "Traceback" not in stderr
    kept = parquets(out)
    assert len(kept) == 1
    assert not list(out.rglob(".*partial*"))
    executor = Counting()
    flowloom.sweep(scenario, {"workload.flows": [100, 200]}, executor=executor, out=out)
    assert executor.submitted == 1
    assert kept.items() <= parquets(out).items()


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8])
def test_numbers_of_seeds_and_workers_may_be_of_any_integer_type(fake, kind):
    with ThreadPoolExecutor(1) as executor:
        made = flowloom.sweep(SMALL, {"workload.load": [0.5]}, seeds=kind(2), workers=kind(1), executor=executor)
    assert [run.seed for run in made] == [1, 2]
    assert type(whole_number("workers", kind(2), "processes")) is int


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, None, np.int64(0), np.float64(2)])
def test_a_number_that_is_none_is_refused_by_its_name(value):
    with pytest.raises(ScenarioError, match=r"^workers: found .*; give a whole number of processes, at least 1$"):
        whole_number("workers", value, "processes")
