"""ClusterProfile + JobSpec -> LaunchPlan. Pure: time, ids, GPUs and paths come in as arguments."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fsdpctl.backends.slurm.profile_keys import SlurmBackend
from fsdpctl.backends.slurm.slurm_plan import plan_slurm
from fsdpctl.contract.plan import Entry, Head, LaunchPlan, Mesh, PlannedNode, Ports, SlurmPlan
from fsdpctl.contract.trainer.mesh import resolve_mesh, split_batch
from fsdpctl.errors import UsageError
from fsdpctl.launch.nodes import choose_device, choose_nodes, count_gpus, count_procs
from fsdpctl.schema.types import format_duration
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile, LocalBackend, Network, SshBackend

_RANKS = ("nodes", "procs_per_node")
FOLLOWS_FROM = {
    "trainer.mesh": ("trainer.mesh", *_RANKS),
    "trainer.batch": ("trainer.batch.sequences", "trainer.batch.tokens", "trainer.model.seq_len", *_RANKS),
    "gpus_per_node": ("nodes",),
}
"""The keys, and those below them, that a problem named by its own key may come of."""


@dataclass(frozen=True)
class SubmitHost:
    """What the submitting machine contributes to a plan."""

    run_id: str
    run_dir: str
    submit_dir: str
    python: str  # the interpreter that runs fsdpctl
    gpus: tuple[str, ...]  # indices of this machine's GPUs, for local runs


@dataclass(frozen=True)
class _Fit:
    """What follows from profile and job together, and may come out wrong."""

    nodes: tuple[PlannedNode, ...]
    procs_per_node: int
    mesh: Mesh | None
    time_limit_s: int | None
    slurm: SlurmPlan | None


class IncompatibleError(UsageError):
    """A job and a profile, each of them right, do not go together; each problem begins with the key that is wrong."""

    def __init__(self, subject: str, problems: Sequence[str]) -> None:
        super().__init__("\n".join([f"{subject}:", *problems]))
        self.subject, self.problems = subject, problems


def build_plan(profile: ClusterProfile, job: JobSpec, site: SubmitHost) -> LaunchPlan:
    """Check profile and job against each other and return the whole launch as a value.

    Raises IncompatibleError that lists every problem at once.
    """
    problems: list[str] = []
    fit = _fit(profile, job, site, problems)
    if problems:
        raise IncompatibleError(f"job {job.name} does not fit profile {profile.name}", problems)
    return _launch_plan(profile, job, site, fit)


def _fit(profile: ClusterProfile, job: JobSpec, site: SubmitHost, problems: list[str]) -> _Fit:
    nodes = choose_nodes(profile, job, site.gpus, problems)
    procs = count_procs(profile, job, site.gpus, problems)
    mesh = _plan_mesh(job, procs, problems)
    if mesh is not None and not _shares_disk(profile):
        _keep_copies_whole(mesh, job.nodes, procs, problems)
    return _Fit(
        nodes=nodes,
        procs_per_node=procs,
        mesh=mesh,
        time_limit_s=_plan_time_limit(profile, job, problems),
        slurm=_plan_slurm(profile, site, problems),
    )


def _launch_plan(profile: ClusterProfile, job: JobSpec, site: SubmitHost, fit: _Fit) -> LaunchPlan:
    return LaunchPlan(
        run_id=site.run_id,
        job_name=job.name,
        backend=profile.backend.kind,
        nodes=fit.nodes,
        procs_per_node=fit.procs_per_node,
        device=choose_device(profile, site.gpus),
        mesh=fit.mesh,
        head=_plan_head(profile),
        ports=Ports(profile.ports.first, profile.ports.last),
        rendezvous=profile.rendezvous,
        interface=profile.network.interface,
        allow_loopback=profile.allow_loopback,
        join_timeout_s=profile.join_timeout,
        peer_timeout_s=profile.peer_timeout,
        python=_python(profile, site, inside=True),
        setup=_plan_setup(profile),
        entry=_plan_entry(job, site),
        env={**network_env(profile.network), **profile.env, **job.env},
        pass_env=profile.pass_env,
        run_dir=site.run_dir,
        workdir=profile.workdir,
        submit_dir=site.submit_dir,
        time_limit_s=fit.time_limit_s,
        grace_s=job.grace,
        restarts=job.restarts,
        slurm=fit.slurm,
        debug=job.debug or profile.debug,
        shared_disk=_shares_disk(profile),
    )


def network_env(network: Network) -> dict[str, str]:
    """NCCL's environment from the profile; the interface is added on the node, where its name is known."""
    env = {}
    if network.ib_hcas:
        env["NCCL_IB_HCA"] = ",".join(network.ib_hcas)
    if network.ib_gid_index is not None:
        env["NCCL_IB_GID_INDEX"] = str(network.ib_gid_index)
    if network.socket_family is not None:
        env["NCCL_SOCKET_FAMILY"] = network.socket_family
    return {**env, **network.nccl}


def _plan_mesh(job: JobSpec, procs: int, problems: list[str]) -> Mesh | None:
    if job.trainer is None or procs < 1:
        return None
    try:
        replicate, shard = resolve_mesh(job.trainer.mesh, job.nodes, procs)
    except ValueError as error:
        problems.append(f"trainer.mesh: {error}")
        return None
    try:
        split_batch(job.trainer.batch, job.nodes * procs)
    except ValueError as error:
        problems.append(f"trainer.batch: {error}")
    return Mesh(job.trainer.mesh.strategy, replicate, shard)


def _shares_disk(profile: ClusterProfile) -> bool:
    return not isinstance(profile.backend, SshBackend) or profile.backend.shared_filesystem


def _keep_copies_whole(mesh: Mesh, nodes: int, procs: int, problems: list[str]) -> None:
    """Where nodes share no disk each one saves by itself, so it must hold the whole model."""
    if procs % mesh.shard:
        problems.append(
            f"trainer.mesh: {mesh.strategy} spreads one copy of the model over {mesh.shard} ranks, a node has {procs};"
            f" without a shared disk (backend.shared_filesystem: false) each of the {nodes} nodes keeps a whole one:"
            " use HYBRID_SHARD, NO_SHARD or DDP"
        )


def _plan_head(profile: ClusterProfile) -> Head:
    """An explicit address wins, always; else the head itself says which address its interface has."""
    if profile.master_address is not None:
        return Head(profile.master_address, f"master_address of profile {profile.name}")
    interface = profile.network.interface
    if interface != "auto":
        return Head(None, f"the address of interface {interface} on the head")
    if isinstance(profile.backend, SlurmBackend):
        return Head(None, "the address on the interface that routes from the first allocated node to the others")
    return Head(None, "the address on the interface that routes from the head to the other nodes")


def _plan_time_limit(profile: ClusterProfile, job: JobSpec, problems: list[str]) -> int | None:
    """Of one attempt; under Slurm no longer than the partition's allocations are."""
    longest = profile.backend.time if isinstance(profile.backend, SlurmBackend) else None
    if longest is not None and longest <= job.grace:
        problems.append(
            f"grace: {format_duration(job.grace)} to save do not fit into allocations of {format_duration(longest)}"
        )
    return min((limit for limit in (job.time_limit, longest) if limit is not None), default=None)


def _plan_setup(profile: ClusterProfile) -> tuple[str, ...]:
    """Shell lines: those of the profile may be what makes `module` known."""
    return (*profile.setup, *([f"module load {shlex.join(profile.modules)}"] if profile.modules else []))


def _plan_slurm(profile: ClusterProfile, site: SubmitHost, problems: list[str]) -> SlurmPlan | None:
    if not isinstance(profile.backend, SlurmBackend):
        return None
    runs_root = str(PurePath(site.run_dir).parent)
    python = _python(profile, site, inside=False)
    return plan_slurm(profile.backend, count_gpus(profile), python, runs_root, problems)


def _python(profile: ClusterProfile, site: SubmitHost, *, inside: bool) -> str:
    """The interpreter inside the container, where there is one, or outside of it."""
    if inside and isinstance(profile.backend, SlurmBackend) and profile.backend.container is not None:
        return profile.backend.container.python
    if profile.venv is not None:
        return f"{profile.venv}/bin/python"
    if profile.python is not None:
        return profile.python
    return site.python if isinstance(profile.backend, LocalBackend) else "python3"


def _plan_entry(job: JobSpec, site: SubmitHost) -> Entry:
    if job.entrypoint.script is not None:
        return Entry("script", job.entrypoint.script, job.args)
    module = job.entrypoint.module
    assert module is not None
    if job.entrypoint.is_bundled_trainer:
        return Entry("module", module, ("--config", f"{site.run_dir}/trainer.json"))
    return Entry("module", module, job.args)
