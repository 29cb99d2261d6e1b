"""A sweep on a real Slurm: one job array where its runs ask for the same, whose tasks are runs like any other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.backends.slurm.job_refs import update_ref
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.registry import default_runs_root
from tests.backends.harness import COMMAND, fsdpctl, wait_for
from tests.backends.slurm.profile import SlurmRun, write_profile
from tests.backends.sweeps import write_project
from tests.services import require
from tests.testbed.slurm import SlurmCluster


class Sweep:
    """The commands of one sweep."""

    def __init__(self, slurm: SlurmCluster, project: Path, *words: str) -> None:
        self.slurm, self.project = slurm, project
        self.words = ["sweep", "./mine.yaml", "--profile", write_profile(project), "--set", "restarts=0", *words]
        write_project(project)

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[str]]:
        argv = [COMMAND, *self.words]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, cwd=self.project, stdout=pipe, stderr=pipe, text=True) as command:
            self.command = command
            try:
                yield command
            finally:
                command.kill()

    def run(self, *words: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        return fsdpctl(*self.words, *words, cwd=self.project, expect=expect, timeout=300)

    def rows(self) -> list[dict[str, Any]]:
        shown = self.run("--show", "--json", expect=None).stdout  # nothing before the sweep exists
        return list(json.loads(shown)["runs"]) if shown else []

    def states(self) -> list[str | None]:
        return [row["state"] for row in self.rows()]

    def child(self, row: dict[str, Any]) -> SlurmRun:
        return SlurmRun(row["run_id"], RunPaths(default_runs_root() / row["run_id"]), self.project, self.slurm)

    def wait_queued(self, count: int) -> None:
        def are_queued() -> bool:
            assert self.command.poll() is None, f"it ended: {self.command.communicate()}"
            return self.states() == ["QUEUED"] * count

        wait_for(are_queued, 120, lambda: f"{count} queued runs: {self.states()}")


@pytest.mark.timeout(900)
def test_one_array_whose_tasks_are_preempted_cancelled_and_resumed_one_by_one(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    require("torch")
    sweep = Sweep(slurm, tmp_path, "--set", "env.LR=3,2,1", "--at-once", "2")
    with sweep.started() as command:
        wait_for(lambda: sweep.states() == ["RUNNING", "RUNNING", "QUEUED"], 240, lambda: f"two runs: {sweep.rows()}")
        first, second, third = map(sweep.child, sweep.rows())
        first.wait_step(1)
        second.wait_step(1)
        status = third.status()
        array = status["job_id"].removesuffix("_2")
        assert array.isdigit() and [first.job_id, second.job_id] == [f"{array}_0", f"{array}_1"]
        assert "so many runs of its sweep as `--at-once` allows are alive" in status["reason"], status
        shell = fsdpctl("shell", first.run_id, cwd=tmp_path, stdin='echo "on $SLURMD_NODENAME"\n')
        assert f"on {first.nodes(1)[0]}" in shell.stdout.splitlines()

        fsdpctl("cancel", second.run_id, cwd=tmp_path)
        assert (second.status()["state"], first.status()["state"]) == ("CANCELLED", "RUNNING")
        third.wait_step(1)
        slurm.preempt(seconds=0)
        for run in (first, third):
            slurm.release(run.job_id, restarts=1)
        (tmp_path / "hold").unlink()
        out, errors = command.communicate(timeout=300)
    assert command.returncode == 1, errors
    assert f"job array {array}: 3 runs, at most 2 at a time\n" in errors
    header, *rows, best = out.splitlines()
    assert header.split() == ["RUN", "LR", "STATE", "STEP", "LOSS", "HELD-OUT", "TOKENS/S"]
    assert [row.split()[1:5] for row in rows] == [
        ["3", "SUCCEEDED", "3", "1.0000"],
        ["2", "CANCELLED", "1", "2.0000"],
        ["1", "SUCCEEDED", "3", "0.3333"],
    ]
    assert best == f"best: {third.run_id}"
    assert [len(run.paths.attempts()) for run in (first, second, third)] == [2, 1, 2]
    assert all("preempted" in run.reasons()[0] for run in (first, third)), first.reasons()
    assert first.paths.batch_log.read_text() and second.paths.batch_log.exists() and third.paths.batch_log.exists()

    fsdpctl("resume", second.run_id, cwd=tmp_path)
    assert second.wait_ended()["state"] == "SUCCEEDED", second.describe()
    assert second.job_id.isdigit() and sweep.run("--show").stdout.splitlines()[2].split()[2] == "SUCCEEDED"


def test_it_is_stopped_and_continued_as_one_and_differing_runs_have_a_job_each(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    blocker = slurm.run("sbatch", "--parsable", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 600")
    wait_for(lambda: slurm.job(blocker)["JobState"] == "RUNNING", 60, "the blocker to run")
    sweep = Sweep(slurm, tmp_path, "--set", "env.LR=1,2,3")
    for _ in range(2):
        with sweep.started():
            sweep.wait_queued(3)
        arrays = {sweep.child(row).job_id.partition("_")[0] for row in sweep.rows()}
        assert len(arrays) == 1 and slurm.run("squeue", "--noheader", "--format=%F").split().count(*arrays) == 1
        fsdpctl("stop", sweep.rows()[1]["run_id"], cwd=tmp_path)
        assert sweep.states() == ["QUEUED", "STOPPED", "QUEUED"], "only that task"
        assert "asked 2 runs to save and exit" in sweep.run("--stop").stderr
        assert sweep.states() == ["STOPPED"] * 3
        assert slurm.run("squeue", "--noheader", "--format=%i") == blocker

    differing = Sweep(slurm, tmp_path, "--set", "env.LR=1,2", "--set", "nodes=1,2")
    with differing.started() as command:
        differing.wait_queued(4)
        command.terminate()
        _, errors = command.communicate(timeout=60)
    assert "a job for each run, not one job array: they differ in --nodes\n" in errors
    first, *others = map(differing.child, differing.rows())
    assert len({run.job_id for run in (first, *others)}) == 4
    job_id = first.job_id
    update_ref(first.paths, job_id=None)  # as by a kill between sbatch and this
    words = ["submit", "./mine.yaml", "-p", differing.words[3], "--after", first.run_id, "--dry-run"]
    assert f"--dependency=afterok:{job_id}\n" in fsdpctl(*words, cwd=tmp_path).stdout
    differing.run("--stop")

    slurm.reconfigure("MaxArraySize=2")
    with sweep.started() as command:
        sweep.wait_queued(3)
        command.terminate()
        _, errors = command.communicate(timeout=60)
    assert "a job for each run, not one job array: Slurm does not accept the job: " in errors
    sweep.run("--stop")
    slurm.run("scancel", blocker)
