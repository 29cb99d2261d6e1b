"""A supervisor whose disk is full, or absent for a while."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.job import scontrol
from fsdpctl.backends.slurm.job.agents import OwnJob, SlurmAgents
from fsdpctl.contract import State
from fsdpctl.contract.codec import read_json, write_json
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import AllocatedNode, Allocation
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise import disk, loop
from fsdpctl.supervise.agents import Next, Step
from fsdpctl.supervise.disk import begin_attempt, retry_disk_errors
from tests.testbed.disks import Mount

NODES = (AllocatedNode("node1", "10.0.0.1"),)


def slurm_agents(run: RunPaths) -> SlurmAgents:
    host = SubmitHost("r-aaaa", str(run.root), "/", "python3", ())
    plan = build_plan(load_profile("slurm-h100"), load_job("llm-tiny"), host)
    return SlurmAgents(run, plan, OwnJob("7", 1, ("node1",), None))


def test_an_attempt_waits_while_the_disk_is_full(small_disk: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    run, pauses = RunPaths(small_disk.path), []
    agents = slurm_agents(run)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            small_disk.empty()

    monkeypatch.setattr(scontrol, "find_addresses", lambda names: NODES)  # or it sleeps, too, until scontrol ends
    monkeypatch.setattr(disk.time, "sleep", sleep)
    small_disk.fill()
    attempt = retry_disk_errors(lambda: begin_attempt(agents), agents.disk_tries)
    assert attempt is not None and attempt == run.attempt(1)
    assert read_json(Allocation, attempt.allocation) == Allocation("7", 1, NODES)
    assert pauses == [1.0, 2.0, 4.0]

    small_disk.fill()
    assert retry_disk_errors(lambda: begin_attempt(agents), agents.disk_tries) is None
    assert pauses[3:9] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0] and len(pauses) == 3 + agents.disk_tries - 1
    assert run.attempts() == [attempt]


def test_errors_of_long_ago_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = [0.0], []

    def work() -> str:
        calls.append(now[0])
        if len(calls) == 9:
            return "done"
        now[0] += disk.QUIET_S + 1 if len(calls) % 2 else 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(disk.time, "monotonic", lambda: now[0])
    assert retry_disk_errors(work, tries=3) == "done"


def test_a_run_that_was_deleted_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def work() -> None:
        calls.append(1)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(disk.time, "sleep", lambda seconds: None)
    assert retry_disk_errors(work, 100, lambda: len(calls) == 2) is None
    assert len(calls) == 2


def test_on_a_full_disk_a_verdict_is_logged_where_it_can_be_and_the_exit_code_stays(
    small_disk: Mount, tmp_path: Path
) -> None:
    script = """
import sys
from fsdpctl.node.os.log import log
log("attempt 1 is FAILED: rank 2 broke")
sys.exit(7)
"""
    small_disk.fill()
    for path in (tmp_path / "batch.log", small_disk.path / "batch.log"):
        with open(path, "w", encoding="utf-8") as file:
            assert subprocess.run([sys.executable, "-c", script], stdout=file).returncode == 7
    assert (tmp_path / "batch.log").read_text() == "attempt 1 is FAILED: rank 2 broke\n"


def test_a_requeue_is_asked_for_on_a_full_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Slurm ends the script soon: a verdict that cannot be written must not delay the requeue."""
    run = RunPaths(tmp_path / "run")
    run.attempt(1).root.mkdir(parents=True)
    write_json(run.record, RunRecord.new("r-aaaa", "r", "slurm", "slurm", 1.0, 1))
    agents, handed_back = slurm_agents(run), []

    def refuse(attempt: AttemptPaths, verdict: Verdict) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    step = Step(Next.REQUEUE, Verdict(State.STOPPED, "preempted, requeued", restart=True))
    monkeypatch.setattr(loop, "record_verdict", refuse)
    monkeypatch.setattr(loop.Supervisor, "_run_attempt", lambda *_: step)
    monkeypatch.setattr(agents, "open_attempt", lambda: run.attempt(1))
    monkeypatch.setattr(agents, "hand_back", lambda attempt, step: handed_back.append(attempt))
    assert loop.Supervisor(agents).work() == step.verdict
    assert handed_back == [run.attempt(1)]
    assert "attempt 1 is STOPPED: preempted, requeued; not written: [Errno 28]" in capfd.readouterr().out
