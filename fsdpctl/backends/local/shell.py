"""A shell in the environment of a local run."""

from __future__ import annotations

import os

from fsdpctl.backends.base import ShellCommand
from fsdpctl.backends.submit_environment import own_environment
from fsdpctl.commands.container import enter
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.commands.shell import shell_argv
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan


def shell_command(run: RunPaths, plan: LaunchPlan, node_rank: int, *, is_terminal: bool) -> ShellCommand:
    return ShellCommand(
        with_setup(plan.setup, [*enter(plan), *shell_argv(plan, node_rank)]), own_environment(os.environ)
    )
