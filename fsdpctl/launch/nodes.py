"""Choose the nodes of a run, and the number of ranks on each. Pure; each backend's `planning` does the rest."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.backends.base import BackendPlan, Cluster
from fsdpctl.contract.plan import PlannedNode, add_suffix
from fsdpctl.contract.problems import Problem
from fsdpctl.launch.environment import container_python, outside_python
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile, Node

CPU_PROCS_PER_NODE = 2
"""Default ranks per node without GPUs: enough to shard within a node."""


def describe_cluster(profile: ClusterProfile, job: JobSpec, host: SubmitHost, runs_root: str) -> Cluster:
    """Return the input of a backend's planning."""
    least = min((node.gpus or 0 for node in profile.nodes), default=0)
    return Cluster(
        nodes=_plan_nodes(profile.nodes, profile.hostname_suffix),
        spares=_plan_nodes(profile.spares, profile.hostname_suffix),
        gpus_per_node=profile.gpus_per_node,
        least_gpus=profile.gpus_per_node if profile.gpus_per_node is not None else least,
        local_gpus=host.gpus,
        num_nodes=job.nodes,
        python=outside_python(profile),
        container_python=container_python(profile),
        own_python=host.python,
        runs_root=runs_root,
    )


def _plan_nodes(nodes: Sequence[Node], suffix: str) -> tuple[PlannedNode, ...]:
    return tuple(
        PlannedNode(rank, node.id, add_suffix(node.address, suffix), node.port, node.env)
        for rank, node in enumerate(nodes)
    )


def choose_nodes(
    profile: ClusterProfile, job: JobSpec, planned: BackendPlan, problems: list[Problem]
) -> Sequence[PlannedNode]:
    """Return the first of the backend's nodes; none, and a problem, if the profile lists too few."""
    if profile.nodes and job.nodes > len(profile.nodes):
        problems.append(Problem("nodes", f"{job.nodes} wanted, but the profile lists {len(profile.nodes)}"))
        return ()
    return planned.nodes[: job.nodes]


def count_procs(profile: ClusterProfile, job: JobSpec, planned: BackendPlan, problems: list[Problem]) -> int:
    """Return the ranks per node."""
    has_gpus = planned.device == "cuda"
    procs = job.procs_per_node or profile.procs_per_node or (planned.gpus if has_gpus else CPU_PROCS_PER_NODE)
    if has_gpus and procs > planned.gpus:
        text = f"{procs} ranks a node need as many GPUs, but a node has {planned.gpus}"
        problems.append(Problem("procs_per_node", text))
    return procs
