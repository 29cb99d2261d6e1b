"""The jobs of a run, recorded before and after each sbatch: `slurm.json` in the run directory.

A submit that is killed in between leaves a reference without a job id. The job, if there is one, is then found by its
comment, and once it has begun by its claim.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError, read_json, write_json
from fsdpctl.contract.control_files import read_control_file
from fsdpctl.contract.paths import RunPaths


@dataclass(frozen=True)
class SlurmRef:
    """One sbatch of a run."""

    submission: int  # the run's first is 1
    intended: float  # seconds since the epoch, before sbatch
    job_id: str | None = None
    final: State | None = None  # the state that the CLI gave it, where no attempt was recorded
    reason: str = ""
    is_interactive: bool = False  # the job is an allocation of the user's, in which the run was started
    array_task: str | None = None  # `ARRAY/TASK`, where the job is a task of a job array


@dataclass(frozen=True)
class SlurmRefs:
    """All jobs of a run, the oldest first."""

    jobs: tuple[SlurmRef, ...]


def read_ref(run: RunPaths) -> SlurmRef | None:
    """Return the newest reference."""
    jobs = _read(run).jobs
    return jobs[-1] if jobs else None


def read_job_ids(run: RunPaths) -> list[str]:
    """Return the ids of all jobs of a run; none if they cannot be read."""
    return [ref.job_id for ref in _find_refs(run) if ref.job_id is not None]


def read_owners(run: RunPaths) -> set[str]:
    """Return what Slurm's jobs of a run are recognized by, as `batch_script.owner_of` returns it."""
    return {run.root.name, *(ref.array_task for ref in _find_refs(run) if ref.array_task is not None)}


def append_ref(run: RunPaths, ref: SlurmRef) -> None:
    write_json(run.slurm, SlurmRefs((*_read(run).jobs, ref)))


def update_ref(run: RunPaths, **changes: object) -> None:
    """Change the newest reference."""
    *older, newest = _read(run).jobs
    write_json(run.slurm, SlurmRefs((*older, replace(newest, **changes))))  # type: ignore[arg-type]


def _find_refs(run: RunPaths) -> tuple[SlurmRef, ...]:
    """Return all references; none if they cannot be read."""
    try:
        return _read(run).jobs
    except (CodecError, OSError):
        return ()


def _read(run: RunPaths) -> SlurmRefs:
    try:
        jobs = read_json(SlurmRefs, run.slurm).jobs
    except FileNotFoundError:
        return SlurmRefs(())
    return SlurmRefs(tuple(ref if ref.job_id is not None else _find_claimed(run, ref) for ref in jobs))


def _find_claimed(run: RunPaths, ref: SlurmRef) -> SlurmRef:
    """Return the reference with the job that has begun this submission, if one has."""
    claim = read_control_file(run.job_claim(ref.submission))
    return replace(ref, job_id=claim.cause) if claim is not None and claim.cause else ref
