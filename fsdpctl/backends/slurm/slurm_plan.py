"""The keys of a Slurm profile -> what a run asks of Slurm. Pure."""

from __future__ import annotations

from fsdpctl.backends.slurm.profile_keys import SlurmBackend
from fsdpctl.contract.plan import ContainerPlan, SlurmPlan


def plan_slurm(backend: SlurmBackend, gpus: int, python: str, runs_root: str, problems: list[str]) -> SlurmPlan:
    """The backend's keys as sbatch spells them; GPUs as `gres` where the cluster wants them so."""
    values: dict[str, str | int | None] = {
        "partition": backend.partition,
        "account": backend.account,
        "qos": backend.qos,
        "constraint": backend.constraint,
        "reservation": backend.reservation,
        "nodelist": backend.nodelist,
        "exclude": backend.exclude,
        "dependency": backend.dependency,
        "gres": backend.gres,
        "gpus-per-node": gpus if gpus and backend.gres is None else None,
        "cpus-per-task": backend.cpus_per_task,
        "mem": backend.mem,
    }
    options = [f"--{key}={value}" for key, value in values.items() if value is not None]
    return SlurmPlan(
        options=(*options, *(["--exclusive"] if backend.exclusive else []), *backend.extra),
        max_requeues=backend.max_requeues,
        python=python,
        comment=backend.comment or "",
        container=_plan_container(backend, runs_root, problems),
    )


def _plan_container(backend: SlurmBackend, runs_root: str, problems: list[str]) -> ContainerPlan | None:
    given = backend.container
    if given is None:
        return None
    if set(runs_root) & set(":,"):
        problems.append(f"runs_root: {runs_root} cannot be mounted into a container: it has a ':' or ','")
    return ContainerPlan(given.runtime, given.image, (runs_root, *given.mounts), given.options)
