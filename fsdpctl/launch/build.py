"""Build a LaunchPlan from a ClusterProfile and a JobSpec. Pure: ids, GPUs and paths are arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fsdpctl.backends.base import BackendPlan
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.entry import Entry
from fsdpctl.contract.plan import HangLimits, Head, LaunchPlan, Mesh, PlannedNode, Ports, TrackerName
from fsdpctl.contract.problems import Problem
from fsdpctl.contract.trainer.mesh import resolve_mesh, split_batch
from fsdpctl.errors import UsageError
from fsdpctl.launch.environment import plan_container, plan_setup
from fsdpctl.launch.host import SubmitHost
from fsdpctl.launch.nodes import choose_nodes, count_procs, describe_cluster
from fsdpctl.schema.types import format_duration
from fsdpctl.specs.job import Hang, JobSpec
from fsdpctl.specs.notify import plan_targets
from fsdpctl.specs.profile import ClusterProfile, Network

_PATH = "PYTHONPATH"
_RANKS = ("nodes", "procs_per_node")
_MESH = ("trainer.mesh", *_RANKS)
_BATCH = ("trainer.batch.sequences", "trainer.batch.tokens", "trainer.model.seq_len", *_RANKS)


@dataclass(frozen=True)
class _Fit:
    """The parts of a plan that depend on both profile and job, and may not fit together."""

    backend: BackendPlan
    nodes: Sequence[PlannedNode]
    procs_per_node: int
    mesh: Mesh | None
    time_limit_s: int | None


class IncompatibleError(UsageError):
    """A job and a profile, each of them valid, do not fit together."""

    def __init__(self, subject: str, problems: Sequence[Problem], locations: Sequence[str] = ()) -> None:
        """Join the problems to one message. `locations`: the file and line, or option, of each one; "" if unknown."""
        located = zip(problems, locations or [""] * len(problems), strict=True)
        lines = [f"{location}: {problem}" if location else str(problem) for problem, location in located]
        super().__init__("\n".join([f"{subject}:", *lines]))
        self.subject, self.problems = subject, problems


def build_plan(profile: ClusterProfile, job: JobSpec, host: SubmitHost) -> LaunchPlan:
    """Check profile and job against each other and return the whole launch as a value.

    Raise IncompatibleError, which lists every problem at once.
    """
    problems: list[Problem] = []
    fit = _fit(profile, job, host, problems)
    if problems:
        raise IncompatibleError(f"job {job.name} does not fit profile {profile.name}", problems)
    return _launch_plan(profile, job, host, fit)


def _fit(profile: ClusterProfile, job: JobSpec, host: SubmitHost, problems: list[Problem]) -> _Fit:
    cluster = describe_cluster(profile, job, host, runs_root=_runs_root(host))
    planned = get_backend(profile.backend.kind).planning.plan_backend(profile.backend, cluster)
    nodes = choose_nodes(profile, job, planned, problems)
    problems += planned.problems
    procs = count_procs(profile, job, planned, problems)
    mesh = _plan_mesh(job, procs, problems)
    if profile.has_container and set(_runs_root(host)) & set(":,"):
        text = f"{_runs_root(host)} cannot be mounted into a container: it has a ':' or ','"
        problems.append(Problem("runs_root", text))
    saves = job.trainer is not None and job.trainer.checkpoint.mode != "none"
    if mesh is not None and saves and not planned.shared_disk:
        _check_whole_copies(mesh, job.nodes, procs, problems)
    if job.entrypoint.is_bundled_trainer and any({**profile.env, **job.env, **node.env}.get(_PATH) for node in nodes):
        problems.append(Problem(f"env.{_PATH}", "the bundled trainer imports its own copy; only own scripts have it"))
    return _Fit(planned, nodes, procs, mesh, _plan_time_limit(job, planned, problems))


def _runs_root(host: SubmitHost) -> str:
    return str(PurePath(host.run_dir).parent)


def _launch_plan(profile: ClusterProfile, job: JobSpec, host: SubmitHost, fit: _Fit) -> LaunchPlan:
    return LaunchPlan(
        run_id=host.run_id,
        job_name=job.name,
        backend=profile.backend.kind,
        nodes=tuple(fit.nodes),
        procs_per_node=fit.procs_per_node,
        device=fit.backend.device,
        mesh=fit.mesh,
        head=_plan_head(profile, fit.backend.head_rule),
        ports=Ports(profile.ports.first, profile.ports.last),
        rendezvous=profile.rendezvous,
        interface=profile.network.interface,
        allow_loopback=profile.allow_loopback,
        join_timeout_s=profile.join_timeout,
        peer_timeout_s=profile.peer_timeout,
        python=fit.backend.python,
        setup=plan_setup(profile),
        entry=_plan_entry(job, host),
        env={**network_env(profile.network), **profile.env, **job.env},
        pass_env=profile.pass_env,
        run_dir=host.run_dir,
        workdir=profile.workdir,
        submit_dir=host.submit_dir,
        time_limit_s=fit.time_limit_s,
        grace_s=job.grace,
        restarts=job.restarts,
        slurm=fit.backend.slurm,
        debug=job.debug or profile.debug,
        shared_disk=fit.backend.shared_disk,
        is_limited_by_scheduler=fit.backend.is_limited_by_scheduler,
        ssh=fit.backend.ssh,
        hang=plan_hang_limits(job.hang),
        restart_on=job.restart_on,
        hostname_suffix=profile.hostname_suffix,
        stop_signal=job.stop_signal,
        report_to=_plan_report_to(job),
        container=plan_container(profile.environment, _runs_root(host)),
        outside_python=fit.backend.outside_python if profile.has_container else "",
        # In a container, a process that stays for the next attempt would end with the agent.
        warm=not profile.has_container and _is_warm(job),
        warm_imports=job.warm_imports,
        progress_regex=job.progress_regex,
        notify=tuple(dict.fromkeys((*plan_targets(profile.notify), *host.notify))),
        installed_python=host.python,
    )


def _is_warm(job: JobSpec) -> bool:
    """Return what the job asks for; by default the bundled trainer is warm."""
    if job.warm is not None:
        return job.warm
    return bool(job.warm_imports) or job.entrypoint.is_bundled_trainer


def plan_hang_limits(hang: Hang) -> HangLimits:
    """Return the limits of the ranks; `after` is that of a step and of a user's script."""
    return HangLimits(
        step_s=hang.after or HangLimits.step_s,
        data_s=hang.data,
        start_s=hang.start,
        disk_s=hang.disk,
        leave_s=hang.leave_after,
        script_s=hang.after,
    )


def network_env(network: Network) -> dict[str, str]:
    """Return NCCL's environment from the profile; the node adds the interface, because its name is known there."""
    env = {}
    if network.ib_hcas:
        env["NCCL_IB_HCA"] = ",".join(network.ib_hcas)
    if network.ib_gid_index is not None:
        env["NCCL_IB_GID_INDEX"] = str(network.ib_gid_index)
    if network.socket_family is not None:
        env["NCCL_SOCKET_FAMILY"] = network.socket_family
    return {**env, **network.nccl}


def _plan_mesh(job: JobSpec, procs: int, problems: list[Problem]) -> Mesh | None:
    if job.trainer is None or procs < 1:
        return None
    try:
        replicate, shard = resolve_mesh(job.trainer.mesh, job.nodes, procs)
    except ValueError as error:
        problems.append(Problem("trainer.mesh", str(error), follows_from=_MESH))
        return None
    try:
        split_batch(job.trainer.batch, job.nodes * procs)
    except ValueError as error:
        problems.append(Problem("trainer.batch", str(error), follows_from=_BATCH))
    return Mesh(job.trainer.mesh.strategy, replicate, shard)


def _check_whole_copies(mesh: Mesh, nodes: int, procs: int, problems: list[Problem]) -> None:
    """Add a problem if a node does not hold the whole model: without a shared disk, each node saves by itself."""
    if procs % mesh.shard:
        text = (
            f"{mesh.strategy} spreads one copy of the model over {mesh.shard} ranks, a node has {procs};"
            f" without a shared disk (backend.shared_filesystem: false) each of the {nodes} nodes keeps a whole one:"
            " use HYBRID_SHARD, NO_SHARD or DDP"
        )
        problems.append(Problem("trainer.mesh", text, follows_from=_MESH))


def _plan_head(profile: ClusterProfile, rule: str) -> Head:
    """Return the head: the profile's address if there is one; else the head resolves the address of its interface."""
    if profile.master_address is not None:
        return Head(profile.master_address, f"master_address of profile {profile.name}")
    interface = profile.network.interface
    return Head(None, rule if interface == "auto" else f"the address of interface {interface} on the head")


def _plan_time_limit(job: JobSpec, planned: BackendPlan, problems: list[Problem]) -> int | None:
    """Return the time limit of one attempt in seconds, at most that of the backend's allocations."""
    longest_s, stop_s = planned.longest_s, job.grace + planned.stop_margin_s
    limit_s = min((limit for limit in (job.time_limit, longest_s) if limit is not None), default=None)
    if longest_s is not None and longest_s <= job.grace:
        text = f"{format_duration(job.grace)} to save do not fit into allocations of {format_duration(longest_s)}"
        problems.append(Problem("grace", text))
    elif limit_s is not None and limit_s <= stop_s:
        text = f"{format_duration(limit_s)} leave no time for a step: the stop comes {format_duration(stop_s)} before"
        problems.append(Problem("grace" if limit_s == longest_s else "time_limit", text, ("grace", "time_limit")))
    return limit_s


def _plan_report_to(job: JobSpec) -> tuple[TrackerName, ...]:
    """Return the trackers; the bundled trainer writes TensorBoard's files by itself."""
    return tuple(name for name in job.report_to if name != "tensorboard" or not job.entrypoint.is_bundled_trainer)


def _plan_entry(job: JobSpec, host: SubmitHost) -> Entry:
    if job.entrypoint.script is not None:
        return Entry("script", job.entrypoint.script, job.args)
    module = job.entrypoint.module
    assert module is not None
    if job.entrypoint.is_bundled_trainer:
        return Entry("module", module, ("--config", f"{host.run_dir}/trainer.json"))
    return Entry("module", module, job.args)
