from __future__ import annotations

import os

from fsdpctl.backends.slurm.environment import job_environment, swapped, tool_environment

INHERITED = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "SLURM_CONF": "/etc/slurm.conf",
    "SLURM_JWT": "token",
    "SLURM_JOB_ID": "7",
    "SLURM_CPU_BIND": "mask",
    "SBATCH_PARTITION": "other",
    "SQUEUE_FORMAT": "%i",
    "PMIX_RANK": "1",
    "RANK": "3",
    "MASTER_ADDR": "elsewhere",
    "PET_NNODES": "9",
    "FSDPCTL_RUN_ID": "outer",
    "PYTHONPATH": "/mine",
}


def test_variables_of_an_outer_job_are_removed() -> None:
    assert job_environment(INHERITED) == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JWT": "token",
        "FSDPCTL_USER_PYTHONPATH": "/mine",
    }


def test_no_option_of_the_shell_reaches_a_tool() -> None:
    assert not {"SBATCH_PARTITION", "SQUEUE_FORMAT", "SLURM_JOB_ID"} & set(tool_environment(INHERITED))


def test_the_swap_is_undone_whatever_happens() -> None:
    before = dict(os.environ)
    try:
        with swapped({"X": "1"}):
            assert dict(os.environ) == {"X": "1"}
            raise KeyError
    except KeyError:
        pass
    assert dict(os.environ) == before
