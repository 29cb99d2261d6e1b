"""Start torchrun with the ranks of this node: their environment and working directory."""

from __future__ import annotations

import json
import os
import subprocess

from fsdpctl.commands.environment import node_env
from fsdpctl.commands.torchrun import torchrun_argv
from fsdpctl.contract import Env
from fsdpctl.contract.files import open_log, read_bytes
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext
from fsdpctl.node.os import signals


def start_torchrun(plan: LaunchPlan, context: NodeContext) -> subprocess.Popen[bytes]:
    """Start torchrun in a session of its own, ignoring the stop signals; its output goes to `torchrun.log`."""
    run = RunPaths.of(plan.run_dir)
    argv = torchrun_argv(plan, context)
    workdir = find_workdir(plan)
    print("command:", json.dumps(argv), "in", workdir, flush=True)
    with open(open_log(run.attempt(context.attempt).node(context.node_rank).torchrun_log), "ab") as log:
        return subprocess.Popen(
            argv,
            env=rank_environment(plan, context),
            cwd=workdir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=signals.ignore,
        )


def find_workdir(plan: LaunchPlan) -> str:
    """Return the ranks' directory: by default the code snapshot, of the user's project or of the bundled trainer."""
    run = RunPaths.of(plan.run_dir)
    return plan.workdir or str(run.code if plan.entry.is_bundled_trainer else run.source)


def rank_environment(plan: LaunchPlan, context: NodeContext) -> dict[str, str]:
    """Return the whole environment of the ranks: inherited, then secrets, then what fsdpctl sets."""
    run = RunPaths.of(plan.run_dir)
    secrets: dict[str, str] = json.loads(read_bytes(run.secrets)) if run.secrets.exists() else {}
    added = node_env(plan, context)
    env = {**os.environ, **secrets, **added}
    if inherited := os.environ.get(Env.USER_PYTHONPATH):
        env["PYTHONPATH"] = os.pathsep.join([added["PYTHONPATH"], inherited])
    return env
