"""The testbed is what it claims to be: nodes of their own, preemption with a grace, requeueing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.backends.slurm.batch_script import quote_option
from tests.testbed.slurm import NODES, SlurmCluster, wait_until


def test_a_job_runs_on_four_separate_nodes(slurm: SlurmCluster) -> None:
    told = slurm.run("srun", "--nodes=4", "bash", "-c", "echo $SLURMD_NODENAME")
    assert sorted(told.split()) == list(NODES)


def test_a_preempted_job_is_requeued_and_runs_again(slurm: SlurmCluster, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\nsrun bash -c 'trap exit TERM; while :; do sleep 0.1; done'\n")
    words = ["--parsable", "--nodes=2", "--requeue", f"--output={tmp_path}/log", str(script)]
    job_id = slurm.run("sbatch", "--partition=rude", *words)
    wait_until(lambda: slurm.job(job_id)["JobState"] == "RUNNING", "the job to run")
    slurm.preempt(seconds=0)
    slurm.release(job_id, restarts=1)
    wait_until(lambda: slurm.job(job_id)["JobState"] == "RUNNING", "the job to run again", 60)
    slurm.run("scancel", job_id)


def test_a_restarted_controller_still_has_its_jobs(slurm: SlurmCluster) -> None:
    job_id = slurm.run("sbatch", "--parsable", "--hold", "--wrap=true", "--output=/dev/null")
    slurm.wait_saved(job_id)
    slurm.kill("slurmctld")
    assert "Unable to contact slurm controller" in slurm.run("squeue")
    slurm.start_controller()
    assert slurm.job(job_id)["Reason"] == "JobHeldUser"
    slurm.run("scancel", job_id)


AWKWARD = ["a b", "a'b", 'a"b', "a\\b", "a#b", "$(x)`b`;&|*?~!", "\u00e9", "\\\\", "end\\", "x\"y'z w#", " x ", "[1]"]


@pytest.mark.parametrize("value", AWKWARD)
def test_sbatch_reads_quoted_options_unchanged(slurm: SlurmCluster, value: str) -> None:
    """The quoting of `#SBATCH` lines is sbatch's own; no manual describes it."""
    lines = ["#!/bin/bash", "#SBATCH --hold", f"#SBATCH {quote_option(f'--comment={value}')}", "true", ""]
    script = slurm.root / "script.sh"
    script.write_text("\n".join(lines))
    job_id = slurm.run("sbatch", "--parsable", "--output=/dev/null", str(script))
    told = slurm.run("squeue", "--noheader", f"--jobs={job_id}", "--format=<%k>")
    slurm.run("scancel", job_id)
    assert told == f"<{value}>"
