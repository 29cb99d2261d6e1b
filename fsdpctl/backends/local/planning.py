"""Plan local nodes with equal shares of this machine's GPUs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.backends.base import BackendPlan, Cluster
from fsdpctl.backends.local.profile_keys import LocalSection
from fsdpctl.contract.plan import PlannedNode
from fsdpctl.contract.problems import Problem


def plan_backend(keys: LocalSection, cluster: Cluster) -> BackendPlan:
    """Return the nodes, each with its share of the GPUs as CUDA_VISIBLE_DEVICES."""
    outside = cluster.python or cluster.own_python
    wanted, gpus = cluster.gpus_per_node, cluster.local_gpus
    has_gpus = bool(gpus) and wanted != 0
    problem = _find_problem(cluster) if has_gpus and not cluster.nodes else None
    each = (len(gpus) // cluster.num_nodes if wanted is None else wanted) if has_gpus else 0
    return BackendPlan(
        nodes=cluster.nodes or _share(gpus, each, cluster.num_nodes) if problem is None else (),
        device="cuda" if has_gpus else "cpu",
        gpus=each,
        python=cluster.container_python or outside,
        outside_python=outside,
        problems=(problem,) if problem is not None else (),
    )


def _share(gpus: Sequence[str], each: int, num_nodes: int) -> tuple[PlannedNode, ...]:
    shares = [gpus[rank * each : (rank + 1) * each] for rank in range(num_nodes)]
    return tuple(
        PlannedNode(rank, f"local{rank}", "127.0.0.1", env={"CUDA_VISIBLE_DEVICES": ",".join(share)} if share else {})
        for rank, share in enumerate(shares)
    )


def _find_problem(cluster: Cluster) -> Problem | None:
    wanted, have, nodes = cluster.gpus_per_node, len(cluster.local_gpus), cluster.num_nodes
    if wanted is None and have % nodes:
        hint = "choose another number or set gpus_per_node"
        return Problem("nodes", f"{have} GPUs do not divide over {nodes} local nodes; {hint}")
    if wanted is not None and wanted * nodes > have:
        text = f"{nodes} nodes x {wanted} GPUs wanted, but this machine has {have}"
        return Problem("gpus_per_node", text, follows_from=("nodes",))
    return None
