"""Node agents as detached processes of this machine."""

from __future__ import annotations

import os
import subprocess

from fsdpctl.backends.submit_environment import own_environment
from fsdpctl.commands.container import enter
from fsdpctl.commands.environment import code_env, tag_env
from fsdpctl.commands.setup_lines import with_setup_reporting_failure
from fsdpctl.commands.torchrun import agent_argv
from fsdpctl.contract.files import open_log
from fsdpctl.contract.paths import DIR_MODE, AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import LaunchError
from fsdpctl.node.os import processes
from fsdpctl.node.warm.living import find_living
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.supervise.agents import Agents


class LocalAgents(Agents):
    """The agents of one local run. Each is in a session of its own: it outlives the terminal and its starter."""

    def __init__(self, run: RunPaths, plan: LaunchPlan) -> None:
        super().__init__(run, plan)
        self._children: dict[NodePaths, subprocess.Popen[bytes]] = {}

    def start(self, attempt: AttemptPaths) -> None:
        try:
            for rank in range(len(self.plan.nodes)):
                node = attempt.node(rank)
                if node not in self._children and not node.agent.exists():
                    self._children[node] = _start_agent(self.plan, self.run, attempt, rank)
        except LaunchError:
            self.end(attempt)
            raise

    def is_over(self, attempt: AttemptPaths) -> bool:
        running = [child for child in self._children.values() if child.poll() is None]  # and reap the others
        facts = AttemptFacts(attempt)
        return facts.never_started or not (running or facts.living_agents)

    def end(self, attempt: AttemptPaths, *, is_last: bool = True) -> list[str]:
        living = find_living(self.run, [node.rank for node in self.plan.nodes])
        spared = [os.getpid(), *(() if is_last else living.pids)]
        left = processes.sweep(processes.Tag(self.run.root.name), below=living.roots, spare=spared)
        return [f"still alive after KILL: {', '.join(map(str, left))}"] if left else []


def open_agents(run: RunPaths, plan: LaunchPlan) -> LocalAgents:
    return LocalAgents(run, plan)


def _start_agent(plan: LaunchPlan, run: RunPaths, attempt: AttemptPaths, node_rank: int) -> subprocess.Popen[bytes]:
    node = attempt.node(node_rank)
    node.root.mkdir(mode=DIR_MODE, exist_ok=True)
    argv = [*enter(plan), *agent_argv(plan.python, plan.run_dir, attempt.number), f"--node-rank={node_rank}"]
    descriptor = open_log(node.agent_log)
    try:
        return subprocess.Popen(
            with_setup_reporting_failure(plan.setup, str(node.end), argv),
            env={**own_environment(os.environ), **code_env(run), **tag_env(run.root.name, attempt.number, node_rank)},
            cwd=run.root,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    except OSError as error:
        raise LaunchError(f"no agent can be started with {plan.python}: {error.strerror}") from None
    finally:
        os.close(descriptor)
