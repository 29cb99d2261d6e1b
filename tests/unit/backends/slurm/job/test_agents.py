from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.job.agents import OwnJob, SlurmAgents, preempt_grace_s
from fsdpctl.backends.slurm.job.partition import Partition
from fsdpctl.contract import NodeExit, State
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.events import newest_events
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise.agents import Next
from fsdpctl.supervise.history import History

MAIN = Partition("main", None, grace_s=20, preempt_mode="REQUEUE", kill_wait_s=5)


@pytest.mark.parametrize(
    ("grace", "partition", "counts"),
    [
        ("20s", MAIN, 20),
        ("2m", MAIN, 25),
        ("2m", replace(MAIN, grace_s=0), 5),
        ("2m", replace(MAIN, preempt_mode="OFF"), 120),
        ("2m", None, 120),
    ],
)
def test_the_shorter_grace_counts(grace: str, partition: Partition | None, counts: int) -> None:
    site = SubmitHost("r-aaaa", "/runs/r-aaaa", "/", "python3", ())
    plan = build_plan(load_profile("slurm-h100"), load_job("llm300m", [f"grace={grace}"]), site)
    assert preempt_grace_s(plan, partition) == counts


def test_a_users_stop_does_not_wait_for_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer, here of a command that is missing, the attempt has its verdict all the same."""
    monkeypatch.setenv("PATH", str(tmp_path))
    run = RunPaths(tmp_path / "r-aaaa")
    site = SubmitHost("r-aaaa", str(run.root), "/", "python3", ())
    plan = build_plan(load_profile("slurm-h100"), load_job("llm300m"), site)
    agents = SlurmAgents(run, plan, OwnJob("7", 0, ("node1",), None))
    attempt = run.attempt(1)
    attempt.node(0).root.mkdir(parents=True)
    end = AttemptEnd(1, {0: NodeEnd(NodeExit.STOPPED, "")}, None, ControlFile("user", ""), None)
    verdict = Verdict(State.STOPPED, "stopped (user)")
    step = agents.decide(attempt, end, verdict, History(0, 0, 1))
    assert (step.next, step.verdict) == (Next.LEAVE, verdict)
    (event,) = newest_events(run, 5)
    assert event.text == "ends without an answer of Slurm: scontrol is not on the PATH of this machine"
