"""Configurations of real switches and hosts out of a scenario.

`plan` is what the simulator says of the scenario's ports and hosts, `needs` what a target must be able to do for it. A target
is a module with the name under which users ask for it, its answer to each kind of need, and the files that it writes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol, cast

from flowloom._native import ScenarioError
from flowloom.deploy import cumulus, eos, linux, sonic
from flowloom.deploy.files import File
from flowloom.deploy.needs import BESIDE_SWITCHES, Answer, Answers, Need, Verdict, needs_of
from flowloom.deploy.plan import Plan, plan_of
from flowloom.words import shown, suggestion

if TYPE_CHECKING:
    from flowloom.scenario import Scenario


class Target(Protocol):
    """A kind of switch."""

    NAME: str
    ABOUT: str
    ANSWERS: Answers

    def files(self, plan: Plan) -> list[File]:
        """Return the configuration of each kind of switch."""


TARGETS: dict[str, Target] = {module.NAME: cast("Target", module) for module in (linux, sonic, eos, cumulus)}
"""The targets by their names."""


@dataclasses.dataclass(frozen=True)
class Deployment:
    """What a scenario means for a kind of switch."""

    plan: Plan
    target: Target
    files: tuple[File, ...]
    """The configurations of switches, and the script for hosts if their kernel has the transport."""
    answers: tuple[tuple[Need, Answer], ...]
    """What the scenario needs, and what the target makes of it."""

    @property
    def impossible(self) -> list[Need]:
        """What is missing without which the transport does not work."""
        return [need for need, answer in self.answers if need.essential and answer.verdict is Verdict.NO]

    @property
    def verdict(self) -> Verdict:
        """Whether the target's switches do what those of the scenario do."""
        if self.impossible:
            return Verdict.NO
        found = {answer.verdict for need, answer in self.answers if need.kind not in BESIDE_SWITCHES}
        return Verdict.YES if found <= {Verdict.YES} else Verdict.NEARLY

    @property
    def summary(self) -> str:
        """What the target can do for the scenario: a line for each need, those that it meets first."""
        lines = [f"{self.plan.name} on {self.target.NAME}: what {self.plan.title} needs"]
        order = list(Verdict)
        for need, answer in sorted(self.answers, key=lambda pair: order.index(pair[1].verdict)):
            lines.append(f"  {answer.verdict.value:<6}  {need.what} ({need.source})")
            without = f"Without it, {need.without}." if need.without and answer.verdict is Verdict.NO else ""
            if answer.why or without:
                lines.append(f"          {' '.join(filter(None, (answer.why, without)))}")
        return "\n".join([*lines, self.conclusion])

    @property
    def conclusion(self) -> str:
        """Whether the transport works on the target: a sentence."""
        name, target = self.plan.name, self.target.NAME
        if missing := self.impossible:
            return f"{name} does not work on {target}: " + "; ".join(need.what for need in missing) + "."
        verdicts = [answer.verdict for _, answer in self.answers]
        if set(verdicts) == {Verdict.YES}:
            return f"{name} works on {target} as in the scenario."
        nearly, not_at_all = verdicts.count(Verdict.NEARLY), verdicts.count(Verdict.NO)
        found = f"of {len(verdicts)} needs, it meets {nearly} nearly and {not_at_all} not at all"
        return f"{name} works on {target}, but not as in the scenario: {found}."


def target_of(name: str) -> Target:
    """Return a target.

    Raises:
        ScenarioError: There is no target of this name.
    """
    if name not in TARGETS:
        raise ScenarioError(f"--for {shown(name)}: there is no such target; {suggestion(name, TARGETS)}")
    return TARGETS[name]


def deploy(scenario: Scenario, target: str, *, for_datagrams: bool = False) -> Deployment:
    """Return what a scenario means for a kind of switch, and for hosts.

    Args:
        scenario: The scenario.
        target: A name of `TARGETS`.
        for_datagrams: See `plan_of`.

    Raises:
        ScenarioError: The scenario is not valid, there is no such target, or the transport is a bound that no network can run.
    """
    chosen = target_of(target)
    plan = plan_of(scenario, for_datagrams=for_datagrams)
    hosts = linux.host(plan)
    files = (*chosen.files(plan), *([hosts] if hosts else []))
    answers = tuple((need, chosen.ANSWERS[need.kind]) for need in needs_of(plan))
    return Deployment(plan, chosen, files, answers)
