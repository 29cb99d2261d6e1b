"""A shell on a host of an SSH run, by OpenSSH itself: it has the terminal, and may ask for a password."""

from __future__ import annotations

import os
import shlex

from fsdpctl.backends.base import ShellCommand
from fsdpctl.backends.ssh.older_plan import with_hosts
from fsdpctl.backends.ssh.transport.ssh_config import destination, target_of
from fsdpctl.commands.container import enter
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.commands.shell import shell_argv
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan


def shell_command(run: RunPaths, plan: LaunchPlan, node_rank: int, *, is_terminal: bool) -> ShellCommand:
    target = target_of(plan.nodes[node_rank], with_hosts(run, plan))
    options = [*(["-t"] if is_terminal else []), f"-oConnectTimeout={target.connect_timeout_s}"]
    remote = shlex.join(with_setup(plan.setup, [*enter(plan), *shell_argv(plan, node_rank)]))
    return ShellCommand(["ssh", *options, *destination(target), remote], os.environ)
