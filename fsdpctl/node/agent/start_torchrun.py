"""Start torchrun with the ranks of this node, warm or cold: their environment and working directory."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fsdpctl.commands.environment import given_env, node_env, working_directory
from fsdpctl.commands.torchrun import TORCHRUN, torchrun_argv
from fsdpctl.contract import Env
from fsdpctl.contract.files import open_log, read_bytes
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext
from fsdpctl.node.agent.fork_server import ForkServer
from fsdpctl.node.agent.warm_torchrun import Torchrun
from fsdpctl.node.os import processes, signals
from fsdpctl.node.os.log import log
from fsdpctl.node.warm.messages import Request
from fsdpctl.node.warm.worker import SOCKET


def start_torchrun(
    plan: LaunchPlan,
    context: NodeContext,
    env: Mapping[str, str],
    fork_server: ForkServer | None = None,
    beat: Callable[[], Any] = lambda: None,
) -> Torchrun:
    """Start torchrun in a session of its own, ignoring the stop signals; its output goes to `torchrun.log`.

    It ends with this process, even if the guard, which sweeps then, was killed at the same moment. `env` is that of the
    ranks. `beat` is called while the fork server still imports; where that fails, torchrun starts cold.
    """
    run = RunPaths.of(plan.run_dir)
    argv, workdir = torchrun_argv(plan, context), working_directory(plan)
    log(f"command: {json.dumps(argv)} in {workdir}")
    with open(open_log(run.attempt(context.attempt).node(context.node_rank).torchrun_log), "ab") as output:
        if fork_server is not None:
            words = torchrun_argv(plan, context, is_warm=True)
            words = words[words.index(TORCHRUN) + 1 :]
            request = Request(TORCHRUN, words, {**env, SOCKET: fork_server.record.address}, workdir, argv)
            if (torchrun := fork_server.start_torchrun(request, output.fileno(), beat)) is not None:
                return torchrun
            log("warm start: failed; torchrun starts cold")
        return subprocess.Popen(
            argv,
            env=env,
            cwd=workdir,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
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
