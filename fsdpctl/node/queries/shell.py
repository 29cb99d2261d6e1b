"""Become a shell with the environment and the directory of a run's ranks on this node.

    python -m fsdpctl.node.queries.shell RUN_DIR NODE_RANK

The shell is no process of the run: it has no tag, so neither the end of an attempt nor a cancel ends it.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from fsdpctl.commands.environment import working_directory
from fsdpctl.contract import Env
from fsdpctl.contract.codec import find_json, read_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext
from fsdpctl.contract.records import NodeReady
from fsdpctl.node.agent.start_torchrun import rank_environment


def main(run: RunPaths, node_rank: int) -> None:
    plan = read_json(LaunchPlan, run.plan)
    attempt = run.attempts()[-1] if run.attempts() else run.attempt(1)
    ready = find_json(NodeReady, attempt.node(node_rank).ready)
    context = NodeContext(node_rank, attempt.number, "", "", ready.interface if ready is not None else None)
    env = rank_environment(plan, context)
    del env[Env.RUN_ID]
    workdir, shell = working_directory(plan), env.get("SHELL") or "/bin/sh"
    try:
        os.chdir(workdir)
    except OSError as error:
        sys.exit(f"error: {workdir}: {error.strerror}")
    if sys.stdin.isatty():
        print(f"node {node_rank} of {plan.run_id} on {socket.gethostname()}; `exit` leaves it", file=sys.stderr)
    try:
        os.execvpe(shell, [shell], env)
    except OSError as error:
        sys.exit(f"error: {shell}: {error.strerror}")


if __name__ == "__main__":
    main(RunPaths(Path(sys.argv[1])), int(sys.argv[2]))
