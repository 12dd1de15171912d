"""What users call gives the same bytes for any number of threads. The tests of the lab compare all features of a scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

import flowloom
from test_cli import call

PARKING_LOT = Path(__file__).parents[2] / "papers/rivals/expresspass-parking-lot.toml"

SCENARIO = """
[topology]
kind = "leaf_spine"
racks = 3
hosts_per_rack = 4
spines = 2
[workload]
kind = "poisson"
flows = 300
load = 0.6
sizes = "web_search"
[observe]
links = ["all"]
hosts = ["all"]
period = "200us"
[transport]
name = "phost"
"""


def files(folder):
    """The bytes of all files of a result but the one that says when and where it was made."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "provenance.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_results_do_not_depend_on_the_number_of_threads(tmp_path):
    found = []
    for threads in (1, 2, 3, None):
        flowloom.run(SCENARIO, out=tmp_path / str(threads), threads=threads)
        found.append(files(tmp_path / str(threads)))
    assert {"flows.parquet", "summary.json", "series/links.parquet"} <= set(found[0])
    assert all(other == found[0] for other in found[1:])


def test_packets_that_are_shorter_than_control_packets_come_in_time(tmp_path):
    """ExpressPass has credits of 76 B, which cross a link faster than a control packet of 84 B."""
    for seed in (1, 2, 3):
        found = []
        for threads in (1, 2, 4):
            asked = flowloom.Scenario.of(PARKING_LOT).set({"run.time_limit": "3ms", "run.seed": seed})
            flowloom.run(asked, out=tmp_path / f"{seed}-{threads}", threads=threads)
            found.append(files(tmp_path / f"{seed}-{threads}"))
        assert found[1:] == found[:1] * 2


def test_the_command_takes_a_number_of_threads(tmp_path):
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(SCENARIO)
    found = []
    for threads in ("1", "3"):
        call("run", scenario, "--threads", threads, "--out", tmp_path / threads)
        found.append(files(tmp_path / threads))
    assert found[0] == found[1]
    call("run", scenario, "--threads", "0", code=2)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "two", True, 65_537, 2**64])
def test_a_wrong_number_of_threads_is_refused(threads):
    right = r"threads: found .*; give a whole number of threads, at least 1 and at most 65,536"
    with pytest.raises(flowloom.ScenarioError, match=right):
        flowloom.run(SCENARIO, threads=threads)
