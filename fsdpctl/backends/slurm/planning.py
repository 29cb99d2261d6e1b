"""Turn the keys of a Slurm profile into the options of a job. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.backends.base import BackendPlan, Cluster
from fsdpctl.backends.slurm.batch_script import SIGNAL_MARGIN_S
from fsdpctl.backends.slurm.profile_keys import SlurmSection
from fsdpctl.contract.plan import ContainerPlan, PlannedNode, SlurmPlan

DEFAULT_PYTHON = "python3"


def plan_backend(keys: SlurmSection, cluster: Cluster) -> BackendPlan:
    """Return the options of the job, and nodes without names, which Slurm will assign."""
    outside = cluster.python or DEFAULT_PYTHON
    gpus = keys.gres_gpus or cluster.least_gpus
    return BackendPlan(
        nodes=cluster.nodes or tuple(PlannedNode(rank, f"node{rank}") for rank in range(cluster.num_nodes)),
        device="cuda" if gpus else "cpu",
        gpus=gpus,
        python=keys.container.python if keys.container is not None else cluster.container_python or outside,
        outside_python=outside,
        head_rule="the address on the interface that routes from the first allocated node to the others",
        longest_s=keys.time,
        stop_margin_s=SIGNAL_MARGIN_S,
        is_limited_by_scheduler=True,
        slurm=SlurmPlan(
            options=tuple(_options(keys, gpus)),
            max_requeues=keys.max_requeues,
            python=outside,
            comment=keys.comment or "",
            container=_plan_container(keys, cluster.runs_root),
        ),
    )


def _options(keys: SlurmSection, gpus: int) -> Iterator[str]:
    """Yield the backend's keys as options of sbatch; GPUs as `gres` where the profile requests them so."""
    values: dict[str, str | int | None] = {
        "partition": keys.partition,
        "account": keys.account,
        "qos": keys.qos,
        "constraint": keys.constraint,
        "reservation": keys.reservation,
        "nodelist": keys.nodelist,
        "exclude": keys.exclude,
        "dependency": keys.dependency,
        "gres": keys.gres,
        "gpus-per-node": gpus if gpus and keys.gres_gpus is None else None,
        "cpus-per-task": keys.cpus_per_task,
        "mem": keys.mem,
    }
    yield from (f"--{key}={value}" for key, value in values.items() if value is not None)
    yield from ["--exclusive"] if keys.exclusive else []
    yield from keys.extra


def _plan_container(keys: SlurmSection, runs_root: str) -> ContainerPlan | None:
    given = keys.container
    if given is None:
        return None
    return ContainerPlan(given.runtime, given.image, (runs_root, *given.mounts), given.options)
