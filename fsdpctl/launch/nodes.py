"""Which nodes a run takes, and how many GPUs and ranks each has. Pure; `local_gpus`: indices of this machine's GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.contract.plan import Device, PlannedNode
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile, LocalBackend

CPU_PROCS_PER_NODE = 2
"""Ranks per node where there are no GPUs and nothing else is said: enough to shard within a node."""


def choose_nodes(
    profile: ClusterProfile, job: JobSpec, local_gpus: Sequence[str], problems: list[str]
) -> tuple[PlannedNode, ...]:
    """The first ones of the profile; parts of this machine; or as many as a scheduler shall give, still nameless."""
    if profile.nodes and job.nodes > len(profile.nodes):
        problems.append(f"nodes: {job.nodes} wanted, but the profile lists {len(profile.nodes)}")
        return ()
    if profile.nodes:
        chosen = profile.nodes[: job.nodes]
        return tuple(PlannedNode(rank, node.id, node.address, node.port, node.env) for rank, node in enumerate(chosen))
    if isinstance(profile.backend, LocalBackend):
        shares = _divide_gpus(profile, job, local_gpus, problems)
        return tuple(
            PlannedNode(rank, f"local{rank}", "127.0.0.1", env=_visible(share)) for rank, share in enumerate(shares)
        )
    return tuple(PlannedNode(rank, f"node{rank}") for rank in range(job.nodes))


def _divide_gpus(
    profile: ClusterProfile, job: JobSpec, local_gpus: Sequence[str], problems: list[str]
) -> list[Sequence[str]]:
    """This machine's GPUs, the same number for each of the local nodes."""
    if choose_device(profile, local_gpus) == "cpu":
        return [()] * job.nodes
    wanted = profile.gpus_per_node
    if wanted is None:
        if len(local_gpus) % job.nodes:
            problems.append(
                f"nodes: {len(local_gpus)} GPUs do not divide over {job.nodes} local nodes;"
                " choose another number or set gpus_per_node"
            )
            return []
        wanted = len(local_gpus) // job.nodes
    if wanted * job.nodes > len(local_gpus):
        problems.append(
            f"gpus_per_node: {job.nodes} nodes x {wanted} GPUs wanted, but this machine has {len(local_gpus)}"
        )
        return []
    return [local_gpus[rank * wanted : (rank + 1) * wanted] for rank in range(job.nodes)]


def _visible(share: Sequence[str]) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(share)} if share else {}


def choose_device(profile: ClusterProfile, local_gpus: Sequence[str]) -> Device:
    if isinstance(profile.backend, LocalBackend):
        return "cuda" if local_gpus and profile.gpus_per_node != 0 else "cpu"
    return "cuda" if count_gpus(profile) else "cpu"


def count_gpus(profile: ClusterProfile) -> int:
    """Of each node, as the profile has it."""
    if profile.gpus_per_node is not None:
        return profile.gpus_per_node
    return min((node.gpus or 0 for node in profile.nodes), default=0)


def count_procs(profile: ClusterProfile, job: JobSpec, local_gpus: Sequence[str], problems: list[str]) -> int:
    """Ranks per node."""
    if isinstance(profile.backend, LocalBackend) and profile.gpus_per_node is None:
        gpus = len(local_gpus) // job.nodes
    else:
        gpus = count_gpus(profile)
    has_gpus = choose_device(profile, local_gpus) == "cuda"
    procs = job.procs_per_node or profile.procs_per_node or (gpus if has_gpus else CPU_PROCS_PER_NODE)
    if has_gpus and procs > gpus:
        problems.append(f"procs_per_node: {procs} ranks a node need as many GPUs, but a node has {gpus}")
    return procs
