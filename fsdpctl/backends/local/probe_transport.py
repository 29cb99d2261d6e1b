"""Doctor's transport to local nodes: a process with the environment of that node."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import HostError, explain_exit
from fsdpctl.backends.submit_environment import own_environment
from fsdpctl.commands.container import enter
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.contract.plan import LaunchPlan, PlannedNode


class LocalProbeTransport:
    """Runs commands on this machine."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan

    def run(self, node: PlannedNode, argv: Sequence[str], stdin: bytes, limit_s: float) -> NodeAnswer:
        env = {**own_environment(os.environ), **self.plan.env, **node.env}
        command = with_setup(self.plan.setup, [*enter(self.plan), *argv])
        try:
            done = subprocess.run(command, input=stdin, env=env, cwd="/", capture_output=True, timeout=limit_s)
        except FileNotFoundError:
            raise HostError(explain_exit(127, "", "", self.plan.python)) from None
        except subprocess.TimeoutExpired:
            raise HostError(f"no answer within {limit_s:.0f} s") from None
        return NodeAnswer(done.returncode, *(text.decode(errors="replace") for text in (done.stdout, done.stderr)))

    def close(self) -> None:
        """Do nothing: a local node needs no connection."""


def open_probe_transport(plan: LaunchPlan) -> LocalProbeTransport:
    return LocalProbeTransport(plan)
