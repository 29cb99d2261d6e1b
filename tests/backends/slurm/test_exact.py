"""Whatever Slurm does to a run, it equals an undisturbed run bit for bit."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.job_refs import read_ref
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.events import newest_events
from tests.backends import exact
from tests.backends.exact import Curve
from tests.backends.harness import COMMAND, kill, wait_for
from tests.backends.slow import SAVE, STEP, Brake
from tests.backends.slurm.profile import SlurmRun, submit_to, write_profile
from tests.testbed.slurm import SlurmCluster


@pytest.fixture
def undisturbed(project: Path, slurm: SlurmCluster, reference: exact.Reference) -> Curve:
    return reference.curve(lambda: launch(slurm, project))


@pytest.fixture(autouse=True)
def brake(undisturbed: Curve, project: Path, monkeypatch: pytest.MonkeyPatch) -> Brake:
    brake = Brake(project / "slow", monkeypatch)
    brake.set((*STEP, 0.3))
    return brake


def launch_from_a_dying_shell(cluster: SlurmCluster, project: Path, *more: str) -> SlurmRun:
    """Kill the shell and the CLI as soon as sbatch has returned."""
    words = [str(COMMAND), "submit", "./exact.yaml", *exact.SMALL, "--name", "orphan", *more]
    shell = subprocess.Popen(
        ["bash", "-c", f"{shlex.join(words)}; sleep 1000"],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def submitted() -> RunPaths | None:
        runs = [RunPaths(path.parent) for path in Path(os.environ["FSDPCTL_HOME"]).glob("runs/orphan-*/slurm.json")]
        return next((run for run in runs if (ref := read_ref(run)) is not None and ref.job_id), None)

    paths = wait_for(submitted, 60, "sbatch to return")
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()
    return SlurmRun(paths.root.name, paths, project, cluster)


def launch(cluster: SlurmCluster, project: Path, *words: str, partition: str = "main", more: str = "") -> SlurmRun:
    profile = write_profile(project, partition, more)
    return submit_to(cluster, "./exact.yaml", "--profile", profile, *exact.SMALL, *words, cwd=project)


def assert_exact(run: SlurmRun, undisturbed: Curve, limit_s: float = 150) -> None:
    status = run.wait_ended(limit_s)
    assert status["state"] == "SUCCEEDED", run.describe()
    assert run.curve() == undisturbed
    run.assert_nothing_left()
    assert run.cluster.job(run.job_id)["JobState"] == "COMPLETED"


def test_loss_curve_is_identical_after_two_preemptions(
    slurm: SlurmCluster, project: Path, undisturbed: Curve, brake: Brake
) -> None:
    """With TERM to the steps, then as sites do it that send USR2, to the batch script."""
    brake.set((*STEP, 0.3), attempts=2)
    run = launch(slurm, project)
    for restarts, site in enumerate(("", "SlurmctldParameters=preempt_send_user_signal"), start=1):
        run.wait_step(8 * restarts)
        if site:
            slurm.reconfigure(site)
        slurm.preempt(seconds=0)
        slurm.release(run.job_id, restarts)
    assert_exact(run, undisturbed)
    assert [reason.split(" step ")[0] for reason in run.reasons()] == [
        *["preempted, asks for a requeue; stopped (preempt); saved at"] * 2,
        "finished at",
    ]
    events = [event.text for event in newest_events(run.paths, 100)]
    assert "SIGUSR2 came: Slurm takes the nodes back" in events and not any("SIGTERM" in text for text in events)


@pytest.mark.timeout(600)
def test_loss_curve_is_identical_after_killed_parts_and_requeues_without_grace(
    slurm: SlurmCluster, project: Path, undisturbed: Curve, brake: Brake
) -> None:
    """A run whose login shell was killed when it had hardly been submitted.

    Killed parts are restarted in the same allocation; then the job is requeued by hand and preempted.
    """
    victims = [exact.rank, exact.torchrun, exact.agent]
    brake.set((*STEP, 0.3), attempts=len(victims) + 2)
    words = ("--profile", write_profile(project, "rude"), "--set", f"restarts={len(victims)}")
    run = launch_from_a_dying_shell(slurm, project, *words)
    exact.strike_in_turn(run, victims)
    run.wait_attempt_steps(len(victims) + 1, 2)
    assert slurm.job(run.job_id)["Restarts"] == "0"
    slurm.run("scontrol", "requeue", run.job_id)
    slurm.release(run.job_id, restarts=1)
    run.wait_attempt_steps(len(victims) + 2, 2)
    slurm.preempt(seconds=0)
    slurm.release(run.job_id, restarts=2)
    assert_exact(run, undisturbed)
    assert len(run.reasons()) == len(victims) + 3
    status = run.status()
    uses = status["ledger"]
    assert set(uses) >= {"queue", "start", "step", "redone", "restart"}
    assert sum(uses.values()) == pytest.approx(status["events"][-1]["time"] - status["created"], rel=0.01)


def test_a_dead_node_is_not_used_again_and_a_run_survives_restarts_of_daemons(
    slurm: SlurmCluster, project: Path, undisturbed: Curve, brake: Brake
) -> None:
    """The controller for some steps, a slurmd for a moment; and a node that is drained lets its job end."""
    brake.set((*STEP, 0.4), attempts=9)
    run = launch(slurm, project)
    run.wait_step(9)
    victim = run.nodes(1)[1]
    kill(run.pids(1))
    slurm.kill(victim)
    slurm.release(run.job_id, restarts=1)
    wait_for(lambda: len(run.paths.attempts()) >= 2 and run.paths.attempts()[-1].allocation.exists(), 60, run.describe)
    last = run.paths.attempts()[-1].number
    assert victim not in run.nodes(last)

    run.wait_attempt_steps(last, 2)
    slurm.wait_saved(run.job_id)
    slurm.kill("slurmctld")
    run.wait_attempt_steps(last, 9)
    status = run.status()
    assert (status["state"], status["attempt"]) == ("RUNNING", last), status
    assert status["reason"].startswith(f"training, attempt {last}; Slurm does not answer: ")
    slurm.start_controller()
    first, second = run.nodes(last)
    slurm.kill(first)
    slurm.start_node(first)
    slurm.run("scontrol", "update", f"NodeName={second}", "State=DRAIN", "Reason=test")
    assert_exact(run, undisturbed)
    assert run.status()["attempt"] == last


@pytest.mark.timeout(600)
def test_loss_curve_is_identical_after_two_time_limits(
    slurm: SlurmCluster, project: Path, undisturbed: Curve, brake: Brake
) -> None:
    """One submit of a training that takes longer than the partition ever gives."""
    brake.set((*STEP, 1.5), attempts=2)  # Slurm sends its warning up to 30 s after it is due
    run = launch(slurm, project, "--set", "time_limit=72h", "--set", "grace=2m", more=", time: 4h")
    assert slurm.job(run.job_id)["TimeLimit"] == "04:00:00"
    for restarts in (1, 2):
        run.wait_step(len(run.metrics()) + 2)
        slurm.end_time_soon(run.job_id)
        slurm.release(run.job_id, restarts, "TimeLimit=04:00:00")
    assert_exact(run, undisturbed)
    assert [reason.split(" step ")[0] for reason in run.reasons()] == [
        *["time limit, asks for a requeue; stopped (time); saved at"] * 2,
        "finished at",
    ]


@pytest.mark.timeout(600)
def test_a_grace_too_short_for_a_save_loses_one_interval_and_is_reported(
    slurm: SlurmCluster, project: Path, undisturbed: Curve, brake: Brake
) -> None:
    """Of the job's grace and the partition's the shorter one counts: 1 s, and 5 more until KILL."""
    brake.set((*STEP, 1.0), (*SAVE, 6))
    words = ("--set", "grace=2m", "--set", "trainer.checkpoint.every_steps=20")
    run = launch(slurm, project, *words, partition="brief")
    saved = run.paths.checkpoints / "step-00000020"
    wait_for(saved.exists, 200, run.describe)
    slurm.preempt(seconds=0)
    slurm.release(run.job_id, restarts=1)
    assert list(run.paths.checkpoints.glob("step-????????")) == [saved]  # whole ones: a cut one has more in its name
    assert_exact(run, undisturbed)
    assert re.search(r"not saved: a save took .* left of the grace of 6 s", run.reasons()[0]), run.reasons()
