"""The part of the submitting shell's environment that is passed to Slurm's commands and to a job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fsdpctl.backends.submit_environment import own_environment

# SLURM_CPU_BIND and the like of an outer step would reach the job's script, and SBATCH_PARTITION would override the
# script that the dry run printed. Variables that locate the controller are kept.
_NOT_OURS = re.compile(r"(SLURM|SBATCH|SRUN|SALLOC|SQUEUE|SCANCEL|SINFO|SACCT|PMI|PMIX|OMPI)_.*")
_REACHES_SLURM = re.compile(r"SLURM_(CONF|CONF_SERVER|JWT)")


def tool_environment(inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for squeue, scancel and the like: without variables that set options."""
    return {name: value for name, value in inherited.items() if _is_clean(name)}


def job_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for sbatch, which passes all of it to the job."""
    return own_environment(tool_environment(inherited))


def _is_clean(name: str) -> bool:
    return not _NOT_OURS.fullmatch(name) or bool(_REACHES_SLURM.fullmatch(name))


@contextmanager
def swapped(environment: Mapping[str, str]) -> Iterator[None]:
    """Replace this process's environment for a while: submitit passes it to sbatch."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
