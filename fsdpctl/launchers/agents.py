"""Node agents as detached processes of this machine."""

from __future__ import annotations

import os
import subprocess

from fsdpctl.contract.paths import DIR_MODE, AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launchers.environment import agent_environment


def start_agents(plan: LaunchPlan, run: RunPaths, attempt: AttemptPaths) -> list[subprocess.Popen[bytes]]:
    """Start one agent per node, each in a session of its own: they outlive the terminal and whoever started them."""
    return [_start_agent(plan, run, attempt, node.rank) for node in plan.nodes]


def _start_agent(plan: LaunchPlan, run: RunPaths, attempt: AttemptPaths, node_rank: int) -> subprocess.Popen[bytes]:
    node = attempt.node(node_rank)
    node.root.mkdir(mode=DIR_MODE, exist_ok=True)
    descriptor = os.open(node.agent_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            with_setup(plan.setup, agent_argv(plan, attempt.number, node_rank)),
            env=agent_environment(os.environ, run, attempt.number, node_rank),
            cwd=run.root,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)


def agent_argv(plan: LaunchPlan, attempt: int, node_rank: int) -> list[str]:
    return [
        plan.python,
        "-m",
        "fsdpctl.node.agent",
        f"--run-dir={plan.run_dir}",
        f"--attempt={attempt}",
        f"--node-rank={node_rank}",
    ]


def with_setup(setup: tuple[str, ...], argv: list[str]) -> list[str]:
    """Run the profile's shell lines, then become `argv`; the words of `argv` never pass through the shell's parser."""
    if not setup:
        return argv
    return ["bash", "-c", "\n".join(["set -e", *setup, 'exec "$@"']), "bash", *argv]
