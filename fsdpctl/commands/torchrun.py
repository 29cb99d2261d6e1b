"""From a LaunchPlan and a NodeContext to the torchrun command and the environment of one node. Pure.

Static rendezvous is the default: fsdpctl sets node ranks and the port, and restarts are new attempts
(`--max-restarts=0`). Under c10d torchrun elects the ranks and draws a random MASTER_PORT, which no firewall rule can
anticipate.
"""

from __future__ import annotations

from fsdpctl.contract import RANK_PROGRAM
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext

TORCHRUN = "fsdpctl.node.agent.torchrun"
"""A module that is `torch.distributed.run`, imported faster."""
WARM_WORKER = "fsdpctl.node.warm.worker"
"""The module that it starts instead on a warm node."""


def torchrun_argv(plan: LaunchPlan, context: NodeContext, *, is_warm: bool = False) -> list[str]:
    """Return the command that starts this node's ranks; of a warm node, by what asks its fork server for them."""
    worker = ["--no-python", plan.python, "-S", "-m", WARM_WORKER] if is_warm else ["-m", RANK_PROGRAM]
    return [
        plan.python,
        "-m",
        TORCHRUN,
        f"--nnodes={len(plan.nodes)}",
        f"--nproc-per-node={plan.procs_per_node}",
        *_rendezvous_options(plan, context),
        "--max-restarts=0",
        f"--log-dir={_node_paths(plan, context).torchrun_dir}",  # else in /tmp, where a killed torchrun leaves it
        *worker,
        *_entry_argv(plan),
    ]


def agent_argv(python: str, run_dir: str, attempt: int) -> list[str]:
    """Return a node agent's command without its last option, `--node-rank=R`, known only on the node under Slurm."""
    return [python, "-m", "fsdpctl.node.agent", f"--run-dir={run_dir}", f"--attempt={attempt}"]


def _node_paths(plan: LaunchPlan, context: NodeContext) -> NodePaths:
    return RunPaths.of(plan.run_dir).attempt(context.attempt).node(context.node_rank)


def _rendezvous_options(plan: LaunchPlan, context: NodeContext) -> list[str]:
    rendezvous_id = f"{plan.run_id}.{context.attempt}"
    if plan.rendezvous == "static":
        return [
            f"--node-rank={context.node_rank}",
            f"--master-addr={context.head_address}",
            f"--master-port={context.port}",
            f"--rdzv-id={rendezvous_id}",
            f"--rdzv-conf=timeout={plan.join_timeout_s}",
        ]
    # is_host by index: torchrun's own matching of host names hangs where names and addresses differ
    # (pytorch #73656, #150532).
    is_host = str(context.node_rank == 0).lower()
    return [
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={context.head_address}:{context.port}",
        f"--rdzv-id={rendezvous_id}",
        f"--rdzv-conf=is_host={is_host},join_timeout={plan.join_timeout_s}",
    ]


def _entry_argv(plan: LaunchPlan) -> list[str]:
    entry = plan.entry
    target = ["-m", entry.target] if entry.kind == "module" else [entry.target]
    return [*target, *entry.args]
