"""Find or start the fork server of this node, for a plan, and leave it to the next attempt or run."""

from __future__ import annotations

from pathlib import Path

from fsdpctl.commands.environment import tag_env, working_directory
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.files import open_log
from fsdpctl.contract.paths import DIR_MODE, HoldPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext
from fsdpctl.node.agent.fork_server import ForkServer
from fsdpctl.node.agent.start_torchrun import rank_environment
from fsdpctl.node.agent.warm_key import warm_key
from fsdpctl.node.os.log import log
from fsdpctl.node.warm.imports import warm_sets
from fsdpctl.node.warm.server import LINGER_S

_NO_ATTEMPT = 0
_TAG = tag_env("", 0, 0)


def find_fork_server(plan: LaunchPlan, node_rank: int) -> ForkServer | None:
    """Return the fork server that an earlier attempt, or in a hold an earlier run, has left on this node, if it can
    still be used.
    """
    command, env = _server_command(plan, node_rank)
    key = warm_key(command, env, RunPaths.of(plan.run_dir))
    return _note(plan, node_rank, ForkServer.find(_record(plan, node_rank), key))


def start_fork_server(plan: LaunchPlan, attempt: int, node_rank: int) -> ForkServer | None:
    """Begin the imports of a warm start; None if no process can be started."""
    command, env = _server_command(plan, node_rank)
    run, path = RunPaths.of(plan.run_dir), _record(plan, node_rank)
    linger_s = LINGER_S if plan.hold is None else max(LINGER_S, plan.hold.idle_s)
    try:
        path.parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)  # of a hold whose hosts share no disk
        with open(open_log(run.attempt(attempt).node(node_rank).warm_log), "ab") as output:
            key, directory, keeper = warm_key(command, env, run), working_directory(plan), _keeper(plan, node_rank)
            server = ForkServer.start(path, key, command, env, directory, output.fileno(), linger_s, keeper)
        return _note(plan, node_rank, server)
    except OSError as error:  # a full disk, too
        log(f"warm start: {error}")
        return None


def leave_fork_server(plan: LaunchPlan, node_rank: int, server: ForkServer, *, is_last: bool) -> None:
    """Leave the fork server to the next attempt, or in a hold to the next run; else end it.

    The next run in a hold has it from then on: no later sweep of this run must find it.
    """
    if plan.hold is not None:
        RunPaths.of(plan.run_dir).fork_server(node_rank).unlink(missing_ok=True)
    if is_last and plan.hold is None:
        server.end()
    else:
        server.detach()


def _record(plan: LaunchPlan, node_rank: int) -> Path:
    if plan.hold is not None:
        return HoldPaths(Path(plan.hold.root)).fork_server(node_rank)
    return RunPaths.of(plan.run_dir).fork_server(node_rank)


def _keeper(plan: LaunchPlan, node_rank: int) -> Path | None:
    return HoldPaths(Path(plan.hold.root)).keeper(node_rank) if plan.hold is not None else None


def _note(plan: LaunchPlan, node_rank: int, server: ForkServer | None) -> ForkServer | None:
    """Record the fork server of a hold as that of the run, too: its sweeps look for what is below it."""
    if plan.hold is not None and server is not None:
        write_json(RunPaths.of(plan.run_dir).fork_server(node_rank), server.record)
    return server


def _server_command(plan: LaunchPlan, node_rank: int) -> tuple[list[str], dict[str, str]]:
    """Return the command, and the environment of the ranks as far as it is the same in all attempts."""
    env = rank_environment(plan, NodeContext(node_rank, _NO_ATTEMPT, "", "", None))
    if plan.procs_per_node > 1:
        env.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does for its workers
    if plan.hold is not None:  # it outlives the run, whose last sweep must not find it
        env = {name: value for name, value in env.items() if name not in _TAG}
    return [plan.python, "-u", "-m", "fsdpctl.node.warm", *warm_sets(plan, node_rank)], env
