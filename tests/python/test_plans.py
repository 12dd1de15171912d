"""A scenario is planned once: by the process that runs it, and never for a key."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import flowloom
from conftest import SMALL
from flowloom import _native
from flowloom.claims import digests
from flowloom.figures import reader
from flowloom.figures.paper import run_figure
from flowloom.results import MACHINE_KEYS
from flowloom.scenario import Scenario
from test_cli import call


@pytest.fixture
def plans(monkeypatch):
    """The plans that this process has made."""
    plan, made = _native.plan, []

    def counted(*words):
        made.append(plan(*words))
        return made[-1]

    monkeypatch.setattr(_native, "plan", counted)
    return made


class Queue(ThreadPoolExecutor):
    """Runs one job after the other in this process, and notes how many plans there were when the first was submitted."""

    def __init__(self, plans):
        super().__init__(1)
        self.plans, self.before = plans, None

    def submit(self, *words):
        self.before = len(self.plans) if self.before is None else self.before
        return super().submit(*words)


def test_a_key_needs_no_plan(scenario, plans):
    found = Scenario.of(scenario)
    assert found.key() == flowloom.run(scenario).provenance["key"]
    # A plan also knows what follows from the network.
    known = {"fabric.buffer": "36.864kB", "fabric.routing": "spray_round_robin"}
    assert found.set(known).resolve() == found.plan().resolved
    assert len(plans) == 2


@pytest.mark.parametrize("out", [False, True])
def test_a_run_plans_once(scenario, plans, tmp_path, out):
    flowloom.run(scenario, out=tmp_path / "api" if out else None)
    assert len(plans) == 1
    call("run", scenario, *(("--out", tmp_path / "command") if out else ()))
    assert len(plans) == 2


@pytest.mark.parametrize("command", ["show", "doctor"])
def test_a_command_about_a_scenario_plans_once(scenario, plans, command):
    call(command, scenario)
    assert len(plans) == 1


def test_a_sweep_plans_each_run_where_it_runs(scenario, plans, tmp_path):
    queue = Queue(plans)
    flowloom.sweep(scenario, {"workload.load": [0.3, 0.5]}, seeds=2, executor=queue, out=tmp_path / "out")
    assert (queue.before, len(plans)) == (0, 4)
    flowloom.sweep(scenario, {"workload.load": [0.3, 0.5]}, seeds=3, executor=Queue(plans), out=tmp_path / "out")
    assert len(plans) == 6, "four runs were stored"


def test_the_process_of_a_sweep_plans_nothing(scenario, plans):
    assert len(flowloom.sweep(scenario, {"workload.load": [0.3, 0.5]}, workers=1)) == 2
    assert not plans


def test_transports_are_judged_with_one_network_and_its_flows(scenario, plans):
    base = Scenario.of(scenario).set({"topology": {"kind": "leaf_spine"}, "fabric.routing": "spray_random"})
    refused = base.refusals(["phost", "expresspass", "dctcp"])
    assert refused.keys() == {"expresspass"} and not plans
    with pytest.raises(flowloom.ScenarioError) as error:
        base.set({"transport.name": "expresspass"}).plan()
    assert refused["expresspass"] == str(error.value)


def test_a_figure_plans_each_run_and_each_probe_once(papers, plans, tmp_path):
    figure = reader.read(papers / "fig1.toml")
    digests.today([(figure, "quick")])
    probes = len(plans)
    assert probes == 6, "two loads with three transports"
    digests.today([(figure, "quick")])
    assert len(plans) == probes, "the digests are stored"
    made = run_figure(figure, "quick", out=tmp_path / "out", runs=tmp_path / "runs", executor=Queue(plans))
    assert len(plans) - probes == 6 * made.seeds


def test_a_run_uses_its_plan_up(scenario):
    plan = Scenario.of(scenario).plan()
    plan.run()
    with pytest.raises(ValueError, match="make another plan"):
        plan.run()
    with pytest.raises(ValueError, match="make another plan"):
        plan.until(1)
    assert 'name = "phost"' in plan.resolved and plan.misfits == [] and plan.data_queue_bounds() is None
    assert json.loads(plan.deployment())["transport"] == "phost"


def test_a_plan_runs_until_another_time_as_its_scenario_does():
    """Half of the flows finish by then."""
    plan, limit = Scenario.of(SMALL).plan(), 100_000_000
    (cut, whole), limited = (each.run() for each in (plan.until(limit), plan)), flowloom.run(SMALL, run__time_limit="100us")
    summary = {key: value for key, value in json.loads(cut["summary"]).items() if key not in MACHINE_KEYS}
    assert summary == {key: limited.summary[key] for key in summary}
    assert 0 < summary["finished"] < json.loads(whole["summary"])["finished"] == 200
