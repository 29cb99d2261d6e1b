"""The environment of agents and ranks. Pure."""

from __future__ import annotations

import os

from fsdpctl.commands import debug_env
from fsdpctl.contract import Env
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext

_CPU = {
    "OMP_NUM_THREADS": "1",
    "ACCELERATE_USE_CPU": "true",  # else each rank of Accelerate and of transformers' Trainer trains alone
}


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
        **(_CPU if plan.device == "cpu" else {}),
        **debug_env.always(plan.device, node),
        "PYTHONUNBUFFERED": "1",
        **given_env(plan, context.node_rank),
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
        **rank_code_env(plan, context.node_rank),
        # By default torchrun ends its workers on TERM, which schedulers send while they should save.
        "PET_SIGNALS_TO_HANDLE": "SIGINT",
    }


def given_env(plan: LaunchPlan, node_rank: int) -> dict[str, str]:
    """Return the variables that the job and the profile set for the ranks of a node."""
    return {**plan.env, **plan.nodes[node_rank].env}


def rank_code_env(plan: LaunchPlan, node_rank: int) -> dict[str, str]:
    """Return what makes ranks import the snapshot first; own scripts then have the PYTHONPATH of `env`."""
    own = code_env(RunPaths.of(plan.run_dir))
    given = "" if plan.entry.is_bundled else given_env(plan, node_rank).get("PYTHONPATH", "")
    return {**own, "PYTHONPATH": os.pathsep.join(filter(None, (own["PYTHONPATH"], given)))}


def working_directory(plan: LaunchPlan) -> str:
    """Return where ranks start, and so where relative paths lead: the profile's directory, else the code snapshot."""
    run = RunPaths.of(plan.run_dir)
    return plan.workdir or str(run.code if plan.entry.is_bundled else run.source)


def tag_env(run_id: str, attempt: int, node_rank: int) -> dict[str, str]:
    """Return the tag by which every process of a run is found, even without its parent."""
    return {Env.RUN_ID: run_id, Env.ATTEMPT: str(attempt), Env.NODE_RANK: str(node_rank)}


def code_env(paths: RunPaths) -> dict[str, str]:
    """Return the variables that make Python import the snapshot, never a `train.py` of the current directory."""
    return {"PYTHONPATH": str(paths.code), "PYTHONSAFEPATH": "1"}
