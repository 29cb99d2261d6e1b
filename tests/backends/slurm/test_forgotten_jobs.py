"""Runs whose job the controller has forgotten, with and without accounting; and how rarely it is asked."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.backends.harness import COMMAND, fsdpctl
from tests.backends.slurm.profile import SlurmRun, submit_to, write_profile
from tests.services import require
from tests.testbed.slurm import SlurmCluster, wait_until

JOB = "name: probe\nnodes: 1\nprocs_per_node: 1\nentrypoint: {script: script.py}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require("torch")
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "script.py").write_text("")
    (directory / "job.yaml").write_text(JOB)
    return directory


@pytest.fixture
def questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A line for each call of squeue and sacct: its name, the pid of the caller, and the time."""
    log, shims = tmp_path / "questions", tmp_path / "shims"
    shims.mkdir()
    log.touch()
    for tool in ("squeue", "sacct"):
        shim = shims / tool
        shim.write_text(f'#!/bin/bash\necho "{tool} $PPID $(date +%s.%N)" >>{log}\nexec {shutil.which(tool)} "$@"\n')
        shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return log


def test_without_accounting_a_forgotten_job_is_lost(slurm: SlurmCluster, project: Path, questions: Path) -> None:
    fsdpctl("submit", "./job.yaml", "--profile", write_profile(project), "--name", "ended", "--follow", cwd=project)
    assert_asked_rarely(questions)
    waiting = submit_held(slurm, project)
    stranger = forget(slurm, waiting)
    questions.write_text("")
    assert states(project) == {
        "ended": ("SUCCEEDED", "finished"),
        "waiting": ("LOST", f"Slurm does not know job {waiting.job_id} any more"),
    }
    assert [line.split()[0] for line in questions.read_text().splitlines()] == ["squeue", "sacct"], "one for all runs"
    fsdpctl("cancel", waiting.run_id, cwd=project, expect=None)
    assert slurm.job(stranger)["JobState"] == "PENDING", "it has the id, but is not the run's job"


def test_accounting_knows_a_forgotten_job_an_unknown_account_and_a_limit_of_jobs(
    slurm: SlurmCluster, project: Path, accounting: str
) -> None:
    waiting = submit_held(slurm, project)
    slurm.run("scancel", waiting.job_id)
    told = ["sacct", "--noheader", "--format=State%40,WorkDir%400", f"--jobs={waiting.job_id}"]
    wait_until(lambda: f"CANCELLED by 0 {waiting.paths.root}" in " ".join(slurm.run(*told).split()), "the accounts")
    stranger = forget(slurm, waiting, accounting)
    assert states(project) == {"waiting": ("CANCELLED", f"job {waiting.job_id} is CANCELLED in Slurm")}
    slurm.reconfigure(f"{accounting}\nAccountingStorageEnforce=associations")
    profile = write_profile(project, more=", account: none-such")
    done = fsdpctl("submit", "./job.yaml", "--profile", profile, cwd=project, expect=4)
    assert "Invalid account or account/partition combination specified" in done.stderr
    waits_at_the_limit_of_jobs(slurm, project, accounting, stranger)


def waits_at_the_limit_of_jobs(slurm: SlurmCluster, project: Path, accounting: str, stranger: str) -> None:
    """Assert that a submit is refused while the user may have no job but `stranger`, and waits if it is asked to."""
    slurm.run("sacctmgr", "--immediate", "modify", "user", slurm.user, "set", "maxsubmitjobs=1")
    slurm.reconfigure(f"{accounting}\nAccountingStorageEnforce=limits")
    words = ("submit", "./job.yaml", "--profile", write_profile(project), "--name", "limited")
    refused = fsdpctl(*words, cwd=project, expect=4).stderr
    assert "Slurm accepts no more jobs of this user now: " in refused and "--wait-for-slot" in refused
    assert "limited" not in states(project)
    waiting = subprocess.Popen([COMMAND, *words, "--wait-for-slot"], cwd=project, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    assert any("waits for a slot" in line for line in waiting.stderr), "it ended"
    assert states(project)["limited"][0] == "PLANNED"
    slurm.run("scancel", stranger)
    said = waiting.communicate(timeout=60)[1]
    assert waiting.returncode == 0 and "started limited" in said
    wait_until(lambda: states(project)["limited"][0] == "SUCCEEDED", "the run", 60)
    assert (
        "there is no slot to wait for"
        in fsdpctl("submit", "./job.yaml", "--wait-for-slot", cwd=project, expect=2).stderr
    )


def states(project: Path) -> dict[str, tuple[str, str]]:
    return {
        row["job"]: (row["state"], row["reason"]) for row in json.loads(fsdpctl("ls", "--json", cwd=project).stdout)
    }


def submit_held(slurm: SlurmCluster, project: Path) -> SlurmRun:
    profile = write_profile(project, more=", extra: [--hold]")
    return submit_to(slurm, "./job.yaml", "--profile", profile, "--name", "waiting", cwd=project)


def forget(slurm: SlurmCluster, run: SlurmRun, lines: str = "") -> str:
    """Let the controller lose its state, and give the run's job id to a job that is not of fsdpctl."""
    slurm.reconfigure(f"{lines}\nFirstJobId={run.job_id}", forget=True)
    stranger = slurm.run("sbatch", "--parsable", "--hold", "--wrap=true", "--output=/dev/null")
    assert stranger == run.job_id
    return stranger


def assert_asked_rarely(questions: Path) -> None:
    """Assert that only one process asked, and never twice within two seconds."""
    asked: dict[str, list[float]] = {}
    for line in questions.read_text().splitlines():
        tool, asker, when = line.split()
        assert tool == "squeue"
        asked.setdefault(asker, []).append(float(when))
    (times,) = asked.values()
    assert len(times) >= 2
    assert min(later - earlier for earlier, later in pairwise(times)) >= 2.0
