"""From a LaunchPlan and a NodeContext to the torchrun command and the environment of one node. Pure.

Static rendezvous is the default: fsdpctl sets node ranks and the port, and restarts are new attempts
(`--max-restarts=0`). Under c10d torchrun elects the ranks and draws a random MASTER_PORT, which no firewall rule can
anticipate.
"""

from __future__ import annotations

from fsdpctl.commands import debug_env
from fsdpctl.contract import Env
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext


def torchrun_argv(plan: LaunchPlan, context: NodeContext) -> list[str]:
    """Return the command that starts this node's ranks."""
    return [
        plan.python,
        "-m",
        "torch.distributed.run",
        f"--nnodes={len(plan.nodes)}",
        f"--nproc-per-node={plan.procs_per_node}",
        *_rendezvous_options(plan, context),
        "--max-restarts=0",
        f"--log-dir={_node_paths(plan, context).torchrun_dir}",  # else in /tmp, where a killed torchrun leaves it
        "-m",
        "fsdpctl.node.agent.rank",
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


def node_env(plan: LaunchPlan, context: NodeContext) -> dict[str, str]:
    """Return the variables that fsdpctl adds to the environment of a node's ranks, without secrets of `pass_env`."""
    paths = RunPaths.of(plan.run_dir)
    attempt = paths.attempt(context.attempt)
    node = attempt.node(context.node_rank)
    interface = {}
    if context.interface is not None:
        interface = {
            Env.IFNAME: context.interface,
            # Always both: by default gloo binds the host name's address, often 127.0.1.1 (pytorch/gloo #223).
            "NCCL_SOCKET_IFNAME": context.interface,
            "GLOO_SOCKET_IFNAME": context.interface,
        }
    return {
        **interface,
        **({"OMP_NUM_THREADS": "1"} if plan.device == "cpu" else {}),
        **debug_env.always(plan.device, node),
        **plan.env,
        **plan.nodes[context.node_rank].env,
        **debug_env.on_demand(plan.debug, plan.device, node),
        **tag_env(plan.run_id, context.attempt, context.node_rank),
        Env.RUN_DIR: str(paths.root),
        Env.NODE_DIR: str(node.root),
        Env.CHECKPOINT_DIR: str(paths.checkpoints),
        Env.STOP_FILE: str(attempt.stop),
        Env.GRACE: str(plan.grace_s),
        Env.OUTCOME_FILE: str(attempt.outcome),
        Env.SHARED_DISK: str(int(plan.shared_disk)),
        Env.SUBMIT_DIR: plan.submit_dir,
        **code_env(paths),
        "PYTHONUNBUFFERED": "1",
        # By default torchrun ends its workers on TERM, which schedulers send while they should save.
        "PET_SIGNALS_TO_HANDLE": "SIGINT",
    }


def tag_env(run_id: str, attempt: int, node_rank: int) -> dict[str, str]:
    """Return the tag by which every process of a run is found, even without its parent."""
    return {Env.RUN_ID: run_id, Env.ATTEMPT: str(attempt), Env.NODE_RANK: str(node_rank)}


def code_env(paths: RunPaths) -> dict[str, str]:
    """Return the variables that make Python import the snapshot, never a `train.py` of the current directory."""
    return {"PYTHONPATH": str(paths.code), "PYTHONSAFEPATH": "1"}
