"""Start torchrun with the ranks of this node, warm or cold: their environment and working directory."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

from fsdpctl.commands.environment import given_env, node_env, working_directory
from fsdpctl.commands.torchrun import TORCHRUN, torchrun_argv
from fsdpctl.contract import Env
from fsdpctl.contract.files import open_log, read_bytes
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext
from fsdpctl.node.agent.warm import CleanProcess
from fsdpctl.node.agent.warm_key import warm_key
from fsdpctl.node.agent.warm_torchrun import Torchrun
from fsdpctl.node.os import processes, signals
from fsdpctl.node.warm.imports import warm_sets
from fsdpctl.node.warm.messages import Request
from fsdpctl.node.warm.worker import SOCKET

_NO_ATTEMPT = 0


def find_clean_process(plan: LaunchPlan, node_rank: int) -> CleanProcess | None:
    """Return the clean process that an earlier attempt has left on this node, if it can still be used."""
    command, env = _clean_command(plan, node_rank)
    run = RunPaths.of(plan.run_dir)
    return CleanProcess.find(run.clean_process(node_rank), warm_key(command, env, run.packages()))


def start_clean_process(plan: LaunchPlan, attempt: int, node_rank: int) -> CleanProcess | None:
    """Begin the imports of a warm start; None if no process can be started."""
    command, env = _clean_command(plan, node_rank)
    run = RunPaths.of(plan.run_dir)
    key = warm_key(command, env, run.packages())
    with open(open_log(run.attempt(attempt).node(node_rank).warm_log), "ab") as log:
        try:
            return CleanProcess.start(
                run.clean_process(node_rank), key, command, env, working_directory(plan), log.fileno()
            )
        except OSError as error:
            print(f"warm start: {error}", flush=True)
            return None


def _clean_command(plan: LaunchPlan, node_rank: int) -> tuple[list[str], dict[str, str]]:
    """Return the command, and the environment of the ranks as far as it is the same in all attempts."""
    env = rank_environment(plan, NodeContext(node_rank, _NO_ATTEMPT, "", "", None))
    if plan.procs_per_node > 1:
        env.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does for its workers
    return [plan.python, "-u", "-m", "fsdpctl.node.warm", *warm_sets(plan)], env


def start_torchrun(
    plan: LaunchPlan, context: NodeContext, clean: CleanProcess | None = None, beat: Callable[[], Any] = lambda: None
) -> Torchrun:
    """Start torchrun in a session of its own, ignoring the stop signals; its output goes to `torchrun.log`.

    It ends with this process, even if the guard, which sweeps then, was killed at the same moment. `beat` is called
    while the clean process still imports; where that fails, torchrun starts cold.
    """
    run = RunPaths.of(plan.run_dir)
    argv = torchrun_argv(plan, context)
    workdir = working_directory(plan)
    print("command:", json.dumps(argv), "in", workdir, flush=True)
    with open(open_log(run.attempt(context.attempt).node(context.node_rank).torchrun_log), "ab") as log:
        if clean is not None:
            env = {**rank_environment(plan, context), SOCKET: clean.record.address}
            words = torchrun_argv(plan, context, is_warm=True)
            request = Request(TORCHRUN, words[words.index(TORCHRUN) + 1 :], env, workdir, argv)
            if (torchrun := clean.start_torchrun(request, log.fileno(), beat)) is not None:
                return torchrun
            print("warm start: failed; torchrun starts cold", flush=True)
        return subprocess.Popen(
            argv,
            env=rank_environment(plan, context),
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
