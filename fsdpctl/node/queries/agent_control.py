"""Check a node, and start, observe and end its agent, over SSH: one process per query, the answer one line of JSON.

    python -m fsdpctl.node.queries.agent_control VERB --run-dir DIR --attempt N --node-rank R

Every query may be repeated: a connection can break after it was carried out and before the answer.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.commands.container import enter
from fsdpctl.commands.environment import code_env, tag_env
from fsdpctl.commands.torchrun import agent_argv
from fsdpctl.contract.codec import encode, find_json, read_json
from fsdpctl.contract.control_files import read_control_file
from fsdpctl.contract.files import open_log, read_bytes
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.paths import DIR_MODE, NodePaths, RunPaths, step_of
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.node.checks.node_check import NodeCheckError, check_node
from fsdpctl.node.os import processes
from fsdpctl.node.queries.checkpoint_copies import set_aside_rewound
from fsdpctl.node.warm.living import find_living

START_LIMIT_S = 30.0
NOT_PRIVATE = "with shared_filesystem: false, runs_root must be a directory that each host has for itself"
NOT_SHARED = "is not there: runs_root must be a directory that all hosts and the submitting machine share"


@dataclass(frozen=True)
class NodeFacts:
    """What must agree between nodes, and the failures of this node's check."""

    hostname: str
    python: str
    torch: str
    time: float  # seconds since the epoch, by the node's own clock
    problem: str = ""
    saved: int = 0  # step of the newest checkpoint on this node
    has_run_dir: bool = True


@dataclass(frozen=True)
class StartResult:
    """The agent of this attempt, which may have ended; without one, the reason."""

    agent: ProcessIdentity | None
    problem: str = ""


@dataclass(frozen=True)
class AgentStatus:
    """The state of this attempt's agent, by pid, start time and boot id."""

    alive: bool


@dataclass(frozen=True)
class KillResult:
    """Pids of this node's part of the run that even KILL did not end."""

    left: tuple[int, ...]


def check(run: RunPaths, attempt: int, node_rank: int) -> NodeFacts:
    """Run the node check and return the facts about this node."""
    problem, has_run_dir = "", run.plan.exists()
    try:
        if not has_run_dir:
            raise NodeCheckError(f"{run.root} {NOT_SHARED}")
        plan, node_dir = read_json(LaunchPlan, run.plan), _node_dir(run, attempt, node_rank).root
        if plan.container is None:  # else the agent checks the node from inside of it
            check_node(plan, node_dir)
        set_aside_rewound(run)
    except (NodeCheckError, OSError) as error:  # OSError: a disk on which the node's directory cannot be created
        problem = str(error)
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = ""
    saved = max((step_of(name) for name in committed(run.checkpoints)), default=0)
    python = ".".join(platform.python_version_tuple()[:2])
    return NodeFacts(platform.node(), python, torch, time.time(), problem, saved, has_run_dir)


def start(run: RunPaths, attempt: int, node_rank: int) -> StartResult:
    """Start the agent, detached, and wait until it is up. Return the earlier agent if this attempt has had one."""
    node = _node_dir(run, attempt, node_rank)
    if (earlier := find_json(ProcessIdentity, node.agent)) is not None:
        return StartResult(earlier)
    if (abort := read_control_file(run.attempt(attempt).abort)) is not None:
        return StartResult(None, f"too late, the attempt is ending: {abort.reason}")
    if (other := find_neighbour(run, attempt, node_rank)) is not None:
        return StartResult(None, f"{run.root} is on the same disk as that of node {other}: {NOT_PRIVATE}")
    plan = read_json(LaunchPlan, run.plan)
    python = sys.executable if plan.container is None else plan.python
    descriptor = open_log(node.agent_log)
    agent = subprocess.Popen(
        [*enter(plan), *agent_argv(python, str(run.root), attempt), f"--node-rank={node_rank}"],
        # The login environment of this node: that of the submitting machine would be wrong here.
        env={**os.environ, **code_env(run), **tag_env(run.root.name, attempt, node_rank)},
        cwd=run.root,
        stdin=subprocess.DEVNULL,
        stdout=descriptor,
        stderr=descriptor,
        start_new_session=True,
    )
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        code = agent.poll()  # before the look: it ends at once where another one has just claimed the node
        if (identity := find_json(ProcessIdentity, node.agent)) is not None:
            return StartResult(identity)
        if code is not None:
            return StartResult(None, f"the agent ended with {code} at once: {_last_line(node.agent_log)}")
        if time.monotonic() > deadline:
            agent.kill()
            return StartResult(None, f"the agent did not start within {START_LIMIT_S:.0f} s")
        time.sleep(0.01)


def look(run: RunPaths, attempt: int, node_rank: int) -> AgentStatus:
    """Return the agent's status from the process table, which no file system cache or busy disk can delay."""
    agent = find_json(ProcessIdentity, run.attempt(attempt).node(node_rank).agent)
    return AgentStatus(agent is not None and processes.is_alive(agent))


def end(run: RunPaths, attempt: int, node_rank: int) -> KillResult:
    """End every process of the run on this node, of any attempt, and return those that could not be killed."""
    living = find_living(run, [node_rank])
    return KillResult(tuple(processes.sweep(processes.Tag(run.root.name, node_rank), below=living.roots)))


def end_attempt(run: RunPaths, attempt: int, node_rank: int) -> KillResult:
    """Do the same, but leave the fork server to the next attempt."""
    living = find_living(run, [node_rank])
    tag = processes.Tag(run.root.name, node_rank)
    return KillResult(tuple(processes.sweep(tag, below=living.roots, spare=living.pids)))


def _node_dir(run: RunPaths, attempt: int, node_rank: int) -> NodePaths:
    node = run.attempt(attempt).node(node_rank)
    node.root.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
    return node


def find_neighbour(run: RunPaths, attempt: int, node_rank: int) -> int | None:
    """Return a node that writes into this directory though it must not; None if there is none.

    Of a node on another disk, only its `ready` file is copied here.
    """
    if read_json(LaunchPlan, run.plan).shared_disk:
        return None
    for node in run.attempt(attempt).nodes():
        if node.node_rank != node_rank and (node.agent.exists() or not node.ready.exists()):
            return node.node_rank
    return None


def _last_line(log: Path) -> str:
    lines = read_bytes(log).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"


def main(argv: list[str]) -> Any:
    parser = argparse.ArgumentParser(prog="fsdpctl.node.queries.agent_control")
    parser.add_argument("verb", choices=["check", "start", "look", "end", "end-attempt"])
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--node-rank", type=int, required=True)
    args = parser.parse_args(argv)
    os.umask(0o077)
    verb = {"check": check, "start": start, "look": look, "end": end, "end-attempt": end_attempt}[args.verb]
    return verb(RunPaths(args.run_dir), args.attempt, args.node_rank)


if __name__ == "__main__":
    print(json.dumps(encode(main(sys.argv[1:]))), flush=True)
