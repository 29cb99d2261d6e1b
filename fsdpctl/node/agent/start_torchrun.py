"""Start torchrun with the ranks of this node: their environment and working directory."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial

from fsdpctl.commands.environment import given_env, node_env, working_directory
from fsdpctl.commands.torchrun import torchrun_argv
from fsdpctl.contract import Env
from fsdpctl.contract.files import open_log, read_bytes
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext
from fsdpctl.node.agent.progress_watch import ProgressWatch
from fsdpctl.node.os import processes, signals


def start_torchrun(plan: LaunchPlan, context: NodeContext, progress: ProgressWatch | None) -> subprocess.Popen[bytes]:
    """Start torchrun in a session of its own, ignoring the stop signals; its output goes to `torchrun.log`.

    It ends with this process, even if the guard, which sweeps then, was killed at the same moment.
    """
    run = RunPaths.of(plan.run_dir)
    argv = torchrun_argv(plan, context)
    workdir = working_directory(plan)
    env = rank_environment(plan, context)
    print("command:", json.dumps(argv), "in", workdir, flush=True)
    with open(open_log(run.attempt(context.attempt).node(context.node_rank).torchrun_log), "ab") as log:
        return subprocess.Popen(
            argv,
            env={**env, **(progress.rank_env(env) if progress is not None else {})},
            cwd=workdir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=partial(_prepare_child, os.getpid()),
        )


def _prepare_child(agent: int) -> None:
    signals.ignore()
    processes.die_with_parent(lambda parent: parent == agent)


def rank_environment(plan: LaunchPlan, context: NodeContext) -> dict[str, str]:
    """Return the whole environment of the ranks: inherited, then secrets, then what fsdpctl sets."""
    run = RunPaths.of(plan.run_dir)
    secrets: dict[str, str] = json.loads(read_bytes(run.secrets)) if run.secrets.exists() else {}
    env = {**os.environ, **secrets, **node_env(plan, context)}
    inherited = os.environ.get(Env.USER_PYTHONPATH)
    if inherited and "PYTHONPATH" not in given_env(plan, context.node_rank):
        env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], inherited])
    return env
