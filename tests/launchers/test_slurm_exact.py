"""Whatever Slurm does to it, the run that comes back is the run that was never disturbed, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.launchers import exact
from tests.launchers.exact import Curve
from tests.launchers.harness import Run, kill, wait_for
from tests.launchers.slurm_bench import SlurmRun, submit_to, write_profile
from tests.testbed.slurm import SlurmCluster

SLOW = """
import os, sys, threading, time
def patch():
    while not hasattr(sys.modules.get("train.{module}"), "{owner}"):
        time.sleep(0.01)
    owner = sys.modules["train.{module}"].{owner}
    original = owner.{method}
    owner.{method} = lambda *words: (time.sleep({pause_s}), original(*words))[1]
if "RANK" in os.environ:
    threading.Thread(target=patch, daemon=True).start()
"""
SLOW_STEP = {"module": "loop", "owner": "Trainer", "method": "_train_step"}
SLOW_SAVE = {"module": "storage", "owner": "FileSystemWriter", "method": "write_data"}
# Slow enough that whatever happens to it happens while it trains.
LONG = ("--set", "trainer.batch.micro_batch=1")


@pytest.fixture
def undisturbed(project: Path, slurm: SlurmCluster, reference: exact.Reference) -> Curve:
    return reference.curve(lambda: launch(slurm, project))


def launch(cluster: SlurmCluster, project: Path, *words: str, partition: str = "main", more: str = "") -> SlurmRun:
    profile = write_profile(project, partition, more)
    return submit_to(cluster, "./exact.yaml", "--profile", profile, *LONG, *words, cwd=project)


def slow_down(monkeypatch: pytest.MonkeyPatch, project: Path, what: dict[str, str], pause_s: float) -> None:
    """Let something take longer, from outside of the trainer: by what Python runs first."""
    (project / "slow").mkdir()
    (project / "slow" / "sitecustomize.py").write_text(SLOW.format(**what, pause_s=pause_s))
    monkeypatch.setenv("PYTHONPATH", str(project / "slow"))


def assert_exact(run: SlurmRun, undisturbed: Curve, limit_s: float = 150) -> None:
    status = run.wait_ended(limit_s)
    assert status["state"] == "SUCCEEDED", run.describe()
    assert run.curve() == undisturbed
    run.assert_nothing_left()
    assert run.cluster.job(run.job_id)["JobState"] == "COMPLETED"


def test_preempted_twice(slurm: SlurmCluster, project: Path, undisturbed: Curve) -> None:
    run = launch(slurm, project)
    for restarts in (1, 2):
        run.wait_step(8 * restarts)
        slurm.preempt(seconds=0)
        slurm.release(run.job_id, restarts)
    assert_exact(run, undisturbed)
    assert [reason.split(";")[0] for reason in run.reasons()] == ["preempted, requeued"] * 2 + ["finished at step 60"]


def test_preempted_without_a_warning(slurm: SlurmCluster, project: Path, undisturbed: Curve) -> None:
    run = launch(slurm, project, partition="rude")
    run.wait_step(9)
    slurm.preempt(seconds=0)
    slurm.release(run.job_id, restarts=1)
    assert_exact(run, undisturbed)


def test_requeued_by_hand(slurm: SlurmCluster, project: Path, undisturbed: Curve) -> None:
    run = launch(slurm, project)
    run.wait_step(9)
    slurm.run("scontrol", "requeue", run.job_id)
    slurm.release(run.job_id, restarts=1)
    assert_exact(run, undisturbed)


@pytest.mark.parametrize("victim", [exact.rank, exact.torchrun, exact.agent])
def test_a_killed_part_comes_back_in_the_same_allocation(
    victim: Callable[[Run], list[int]], slurm: SlurmCluster, project: Path, undisturbed: Curve
) -> None:
    run = launch(slurm, project)
    run.wait_step(9)
    kill(victim(run))
    assert_exact(run, undisturbed)
    assert run.status()["attempt"] == 2
    assert slurm.job(run.job_id)["Restarts"] == "0"


def test_a_dead_node_is_left_behind(slurm: SlurmCluster, project: Path, undisturbed: Curve) -> None:
    run = launch(slurm, project)
    run.wait_step(9)
    victim = run.nodes(1)[1]
    kill(run.pids(1))
    slurm.kill(victim)
    slurm.release(run.job_id, restarts=1)
    wait_for(
        lambda: len(run.paths.attempts()) >= 2 and run.paths.attempts()[-1].allocation.exists(), 60, run.describe()
    )
    assert victim not in run.nodes(run.paths.attempts()[-1].number)
    assert_exact(run, undisturbed)


def test_the_controller_may_be_away(slurm: SlurmCluster, project: Path, undisturbed: Curve) -> None:
    run = launch(slurm, project)
    run.wait_step(5)
    slurm.wait_saved(run.job_id)
    slurm.kill("slurmctld")
    run.wait_step(12)
    status = run.status()
    assert (status["state"], status["attempt"]) == ("RUNNING", 1), status
    slurm.start_controller()
    assert_exact(run, undisturbed)


@pytest.mark.timeout(1800)
def test_the_time_limit_is_hit_twice(
    slurm: SlurmCluster, project: Path, undisturbed: Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One submit of a training that takes longer than the partition ever gives: two minutes, Slurm counts in those."""
    slow_down(monkeypatch, project, SLOW_STEP, pause_s=3)
    run = launch(slurm, project, "--set", "time_limit=72h", "--set", "grace=5s", partition="short", more=", time: 2m")
    assert_exact(run, undisturbed, limit_s=1700)
    *hits, last = [reason.split(";")[0] for reason in run.reasons()]
    assert last == "finished at step 60"
    assert len(hits) >= 2 and set(hits) == {"time limit, requeued"}


@pytest.mark.timeout(600)
def test_a_grace_that_is_too_short_loses_one_interval_and_says_so(
    slurm: SlurmCluster, project: Path, undisturbed: Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(monkeypatch, project, SLOW_SAVE, pause_s=25)  # Slurm gives 1 s, 5 more until KILL, and is slow itself
    run = launch(slurm, project, "--set", "trainer.checkpoint.every_steps=20", partition="brief")
    saved = run.paths.checkpoints / "step-00000020"
    wait_for(saved.exists, 200, run.describe)
    slurm.preempt(seconds=0)
    slurm.release(run.job_id, restarts=1)
    assert list(run.paths.checkpoints.glob("step-????????")) == [saved]  # whole ones: a cut one has more in its name
    assert_exact(run, undisturbed, limit_s=300)
    # Slurm's own KILL, where a save was in flight; else the trainer itself saw that there is no time for one.
    assert re.search("ended by Slurm|not saved: a save took", run.reasons()[0]), run.reasons()
