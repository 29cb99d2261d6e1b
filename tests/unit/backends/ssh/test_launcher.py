"""How long a start over SSH is waited for."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fsdpctl.backends.ssh import launcher
from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.errors import FsdpctlError, LaunchError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.os.processes import identify
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import parse_job, parse_profile

SLOW = 10
"""How many looks it takes; each as long as one request to a host may take."""


@dataclass
class Supervisor:
    """Instead of a process: acts at the last of some looks, by a clock that moves at each look."""

    run: RunPaths
    plan: LaunchPlan
    ends_with: Verdict | None = None
    looks: int = 0
    identity: ProcessIdentity | None = field(default_factory=lambda: identify(os.getpid()))

    def monotonic(self) -> float:
        return 60.0 * self.looks

    def sleep(self, seconds: float) -> None:
        self.looks += 1
        if self.looks < SLOW:
            return
        attempt = self.run.attempt(1)
        if self.ends_with is not None:
            write_json(attempt.verdict, self.ends_with)
            self.identity = None
            return
        for node in self.plan.nodes:
            write_json(attempt.node(node.rank).agent, identify(os.getpid()))

    def find(self, run: RunPaths) -> ProcessIdentity | None:
        return self.identity


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    run = RunPaths(tmp_path)
    profile = "name: p\nbackend: ssh\nnodes: [{id: a, address: 10.0.0.1}, {id: b, address: 10.0.0.2}]\n"
    job = "name: j\nentrypoint: {script: s.py}\nnodes: 2\n"
    host = SubmitHost("j-abcd", str(tmp_path), "/here", "python3", ())
    supervisor = Supervisor(run, build_plan(parse_profile(profile, "p"), parse_job(job, "j"), host))
    for node in supervisor.plan.nodes:
        run.attempt(1).node(node.rank).root.mkdir(parents=True)
    monkeypatch.setattr(launcher, "claim_attempt", lambda run: run.attempt(1))
    monkeypatch.setattr(launcher.control, "start_supervisor", lambda run: None)
    monkeypatch.setattr(launcher.control, "find_supervisor", supervisor.find)
    monkeypatch.setattr(launcher, "time", supervisor)
    return supervisor


def test_hosts_that_start_late_are_waited_for_while_the_supervisor_lives(supervisor: Supervisor) -> None:
    launcher.start(supervisor.run, supervisor.plan)
    assert supervisor.looks == SLOW


def test_a_verdict_ends_a_start(supervisor: Supervisor) -> None:
    supervisor.ends_with = Verdict(State.FAILED, "b: no answer within 60 s")
    with pytest.raises(LaunchError, match="b: no answer within 60 s"):
        launcher.start(supervisor.run, supervisor.plan)


def test_the_end_of_the_supervisor_ends_a_start(supervisor: Supervisor) -> None:
    supervisor.identity = None
    with pytest.raises(FsdpctlError, match="the supervisor ended"):
        launcher.start(supervisor.run, supervisor.plan)
