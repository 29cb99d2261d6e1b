"""Runs in an interactive allocation: which shells have one, and what their supervisor does at its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.slurm import agents as module
from fsdpctl.backends.slurm.agents import AllocationAgents
from fsdpctl.backends.slurm.allocation import find_allocation
from fsdpctl.backends.slurm.job.agents import OwnJob
from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise.agents import Next
from fsdpctl.supervise.history import History

SALLOC = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]"}


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({}, None),
        (SALLOC, "7"),
        ({**SALLOC, "SLURM_STEP_ID": "4294967290"}, "7"),  # LaunchParameters=use_interactive_step
        ({**SALLOC, "SLURM_STEP_ID": "0"}, None),  # `srun --pty bash`
        ({**SALLOC, "ENVIRONMENT": "BATCH"}, None),
        ({**SALLOC, "FSDPCTL_RUN_ID": "llm-aaaa"}, None),  # a rank that submits
    ],
)
def test_a_shell_of_salloc_has_an_allocation(env: dict[str, str], found: str | None) -> None:
    assert find_allocation(env) == found


def agents(root: Path) -> AllocationAgents:
    """The agents of a run of one node, in an allocation of two."""
    site = SubmitHost("r-aaaa", f"{root}/r-aaaa", "/", "python3", ())
    plan = build_plan(load_profile("slurm-h100"), load_job("llm300m"), site)
    return AllocationAgents(RunPaths.of(plan.run_dir), plan, OwnJob("7", 0, ("node1", "node2"), None))


def test_srun_gets_the_first_nodes_of_the_allocation_and_nothing_of_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SLURM_JOB_ID": "8", "SLURM_CPU_BIND": "x", "RANK": "3", "PYTHONPATH": "/mine"}.items():
        monkeypatch.setenv(name, value)
    found = agents(tmp_path)
    assert found.srun_command(found.run.attempt(1))[:3] == ["srun", "--nodelist=node1", "--nodes=1"]
    env = found.inherited()
    assert (env["SLURM_JOB_ID"], env["FSDPCTL_RUN_ID"]) == ("7", "r-aaaa")
    assert env["PYTHONPATH"] == f"{found.run.code}" and not {"SLURM_CPU_BIND", "RANK"} & env.keys()


def test_a_node_is_swept_in_the_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the job's id, as in a login shell, srun would ask for nodes of its own."""
    srun = tmp_path / "srun"
    srun.write_text(f'#!/bin/sh\necho "$SLURM_JOB_ID" >>{tmp_path}/jobs\n')
    srun.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    found = agents(tmp_path)
    attempt = found.run.attempt(1)
    attempt.node(0).root.mkdir(parents=True)
    attempt.node(0).agent.touch()
    found.end(attempt)
    assert (tmp_path / "jobs").read_text() == "7\n"


@pytest.mark.parametrize(("has_ended", "then"), [(False, Next.AGAIN), (True, Next.LEAVE)])
def test_no_attempt_follows_the_end_of_the_allocation(
    has_ended: bool, then: Next, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_ended", lambda job_id: has_ended)
    found = agents(tmp_path)
    failed = Verdict(State.FAILED, "killed", restart=True)
    end = AttemptEnd(1, {}, None, None, None)
    step = found.decide(found.run.attempt(1), end, failed, History(0, 1, 1))
    assert (step.next, step.verdict.restart) == (then, not has_ended)
    assert replace(step.verdict, reason="", restart=True) == replace(failed, reason="")
