"""When some runs of a comparison or a sweep fail, the others are printed and saved, and the failed ones are named."""

from __future__ import annotations

import csv
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

import flowloom
from flowloom import jobs
from flowloom.cli import app
from flowloom.jobs import FailedRuns, Job, run_jobs
from flowloom.plots import style

# Nothing is delivered within a microsecond, so a transport fails; `ideal` moves no packets and has no such limit.
FAILS = "run.stall_limit=1us"
REASON = "no progress: 1 flow is open, but no byte was delivered"


def call(*words, code: int):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def in_process(monkeypatch):
    """Run jobs in this process and draw empty pictures: starting processes and drawing take most of the time."""

    def outcomes(missing, *_):
        for job in missing:
            try:
                yield job, job.run(job.scenario, None)
            except flowloom.RunError as error:
                yield job, str(error)

    def save(_, stem):
        (picture := Path(f"{stem}.png")).touch()
        return [picture]

    monkeypatch.setattr(jobs, "_outcomes", outcomes)
    monkeypatch.setattr(style, "save", save)


def test_a_comparison_has_the_transports_that_finished(scenario, tmp_path):
    out = tmp_path / "c"
    words = ["compare", scenario, "--transports", "phost,ideal", "--set", FAILS, "--out", out, "--jobs", 1]
    made = call(*words, code=1)
    assert re.search(r"^ +ideal$", made.stdout, re.M) and "200 of 200" in made.stdout
    assert "1 runs in" in made.stdout and (out / "compare.png").exists()
    assert re.search(rf"^error: 1 of 2 runs failed:\nphost: {REASON}", made.stderr, re.M)
    with (out / "sweep.csv").open() as file:
        assert [row["variant"] for row in csv.DictReader(file)] == ["ideal"]
    assert len(list((out / "runs").iterdir())) == 1
    as_json = call(*words, "--json", code=1)
    assert [run["transport"] for run in json.loads(as_json.stdout)] == ["ideal"]
    assert f"phost: {REASON}" in as_json.stderr
    # The finished run is used again.
    assert "1 runs to simulate, 1 finished before" in as_json.stderr


def test_a_sweep_has_the_points_that_finished(scenario, tmp_path, in_process):
    out = tmp_path / "s"
    words = ["sweep", scenario, "--vary", "run.stall_limit=1us,10s", "--vary", "transport.name=phost,ideal", "--seeds", 2]
    made = call(*words, "--out", out, "--jobs", 1, code=1)
    rows = re.findall(r"^(1us|10s) +(phost|ideal) +400 of 400", made.stdout, re.M)
    assert rows == [("1us", "ideal"), ("10s", "phost"), ("10s", "ideal")]
    assert "error: 2 of 8 runs failed:" in made.stderr
    for seed in (1, 2):
        assert f"1us, phost, seed {seed}: {REASON}" in made.stderr
    assert len((out / "sweep.csv").read_text().splitlines()) == 1 + 6


def test_a_tournament_ranks_last_who_failed_in_a_round(scenario, tmp_path, in_process):
    words = ["compare", scenario, "--transports", "phost,ideal", "--over", "run.stall_limit=1us,10s", "--jobs", 1]
    made = call(*words, "--out", tmp_path / "t", code=1)
    places = [line for line in made.stdout.splitlines() if line.startswith(("ideal", "pHost"))]
    assert [line.split()[0] for line in places] == ["ideal", "pHost"]
    assert places[1].split()[1:4] == ["failed"] * 3
    assert {path.name for path in (tmp_path / "t").glob("*.png")} == {"compare-1us.png", "compare-10s.png", "tournament.png"}


def test_a_tournament_ranks_last_who_finished_no_flow(scenario, tmp_path, in_process):
    # A flow needs more than a microsecond, so none finishes in the first round.
    words = ["compare", scenario, "--transports", "phost", "--over", "run.time_limit=1us,10s", "--jobs", 1]
    assert re.search(r"^pHost +- ", call(*words, "--out", tmp_path / "t", code=0).stdout, re.M)


def test_if_all_runs_fail_there_is_no_table(scenario, tmp_path, in_process):
    made = call("compare", scenario, "--transports", "phost", "--set", FAILS, "--out", tmp_path / "c", "--jobs", 1, code=1)
    assert made.stdout == "" and f"phost: {REASON}" in made.stderr
    assert not list(tmp_path.glob("c/*.csv")) and not list(tmp_path.glob("c/*.png"))
    (tmp_path / "ns3.csv").write_text("bytes,fct_us\n1000,7.5\n")
    words = ["--transports", "phost", "--set", FAILS, "--with", tmp_path / "ns3.csv", "--out", tmp_path / "c", "--jobs", 1]
    as_json = call("compare", scenario, *words, "--json", code=1)
    assert json.loads(as_json.stdout) == [] and f"phost: {REASON}" in as_json.stderr


def test_some_seeds_that_failed_are_not_counted(scenario, tmp_path, monkeypatch, in_process):
    def some(job_list, *_):
        for job in job_list:
            fails = job.label == "phost, seed 2"
            yield job, "it failed" if fails else job.run(job.scenario, None)

    monkeypatch.setattr(jobs, "_outcomes", some)
    words = ["--set", "workload.flows=50", "--seeds", 3, "--out", tmp_path / "o"]
    text = call("compare", scenario, "--transports", "phost,ideal", *words, code=1).stdout
    assert "Means of 2 to 3 seeds" in text and "not of the same flows" in text
    assert re.search(r"Flows finished +100 of 100 +150 of 150", text)


def test_in_python_the_error_has_the_runs_that_finished(scenario, tmp_path):
    axes = {"transport.name": ["phost", "ideal"]}
    with ThreadPoolExecutor(1) as executor, pytest.raises(flowloom.IncompleteSweep) as raised:
        flowloom.sweep(scenario, axes | {"run.stall_limit": ["1us"]}, executor=executor, out=tmp_path / "s")
    assert isinstance(raised.value, flowloom.RunError)
    assert [run.label for run in raised.value.sweep] == ["ideal, 1us"]
    assert [label for label, _ in raised.value.failures] == ["phost, 1us"]
    assert raised.value.sweep.table()["transport.name"].to_pylist() == ["ideal"]


def test_a_run_that_fails_this_time_takes_no_row_from_the_table(scenario, tmp_path, monkeypatch, in_process):
    out, axes = tmp_path / "s", {"transport.name": ["phost", "ideal"]}
    flowloom.sweep(scenario, axes, out=out, workers=1)
    (damaged,) = (run for run in (out / "runs").iterdir() if '"phost"' in (run / "summary.json").read_text())
    (damaged / "summary.json").write_text("{")
    monkeypatch.setattr(jobs, "_outcomes", lambda missing, *_: ((job, "it failed") for job in missing))
    with pytest.raises(flowloom.IncompleteSweep):
        flowloom.sweep(scenario, axes, out=out, workers=1)
    assert len((out / "sweep.csv").read_text().splitlines()) == 1 + 2


class Question:
    def key(self) -> str:
        return "k"


@pytest.mark.parametrize("error", [MemoryError(), flowloom.ScenarioError("a file is gone"), flowloom.RunError("stuck")])
def test_each_kind_of_failure_leaves_the_other_runs(error):
    def fail(*_):
        raise error

    good, result = Job("good", Question(), "a", lambda *_: flowloom.Results({}, "", {})), None
    with ThreadPoolExecutor(1) as executor, pytest.raises(flowloom.RunError, match="1 of 2 runs failed:\nbad: ") as raised:
        result = run_jobs([Job("bad", Question(), "b", fail), good], executor=executor)
    assert result is None and list(raised.value.done) == ["a"]


def test_runs_with_the_same_reason_share_a_line():
    failed = [(f"run {n}", "a worker died") for n in range(8)] + [("other", "no progress")]
    assert str(FailedRuns(failed, 9, {})) == (
        "9 of 9 runs failed:\nrun 0; run 1; run 2; run 3; run 4; run 5 and 2 more: a worker died\nother: no progress"
    )
