"""The command of a shell in a run's environment, on a node of the run. Pure."""

from __future__ import annotations

from fsdpctl.commands.environment import code_env
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan


def shell_argv(plan: LaunchPlan, node_rank: int) -> list[str]:
    """Return the command that becomes the shell, for a process on the node."""
    settings = [f"{name}={value}" for name, value in code_env(RunPaths.of(plan.run_dir)).items()]
    return ["env", *settings, plan.python, "-m", "fsdpctl.node.queries.shell", plan.run_dir, str(node_rank)]
