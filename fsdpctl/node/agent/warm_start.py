"""Find or start the fork server of this node, for a plan."""

from __future__ import annotations

from fsdpctl.commands.environment import working_directory
from fsdpctl.contract.files import open_log
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext
from fsdpctl.node.agent.fork_server import ForkServer
from fsdpctl.node.agent.start_torchrun import rank_environment
from fsdpctl.node.agent.warm_key import warm_key
from fsdpctl.node.warm.imports import warm_sets

_NO_ATTEMPT = 0


def find_fork_server(plan: LaunchPlan, node_rank: int) -> ForkServer | None:
    """Return the fork server that an earlier attempt has left on this node, if it can still be used."""
    command, env = _server_command(plan, node_rank)
    run = RunPaths.of(plan.run_dir)
    return ForkServer.find(run.fork_server(node_rank), warm_key(command, env, run.packages()))


def start_fork_server(plan: LaunchPlan, attempt: int, node_rank: int) -> ForkServer | None:
    """Begin the imports of a warm start; None if no process can be started."""
    command, env = _server_command(plan, node_rank)
    run = RunPaths.of(plan.run_dir)
    key, path = warm_key(command, env, run.packages()), run.fork_server(node_rank)
    try:
        with open(open_log(run.attempt(attempt).node(node_rank).warm_log), "ab") as log:
            return ForkServer.start(path, key, command, env, working_directory(plan), log.fileno())
    except OSError as error:  # a full disk, too
        print(f"warm start: {error}", flush=True)
        return None


def _server_command(plan: LaunchPlan, node_rank: int) -> tuple[list[str], dict[str, str]]:
    """Return the command, and the environment of the ranks as far as it is the same in all attempts."""
    env = rank_environment(plan, NodeContext(node_rank, _NO_ATTEMPT, "", "", None))
    if plan.procs_per_node > 1:
        env.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does for its workers
    return [plan.python, "-u", "-m", "fsdpctl.node.warm", *warm_sets(plan)], env
