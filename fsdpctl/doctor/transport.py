"""How a question gets to a node, for each backend.

A `ProbeTransport` runs the probe on one node and gives back its last line. It raises HostError with the reason in one
line.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.slurm.profile_keys import SlurmBackend
from fsdpctl.backends.submit_environment import own_environment
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.contract.plan import LaunchPlan, PlannedNode
from fsdpctl.doctor.payload import build_payload, last_line, probe_argv
from fsdpctl.specs.profile import ClusterProfile, LocalBackend, SshBackend

ProbeTransport = Callable[[PlannedNode, str, float], str]
"""node, request, time limit in seconds -> answer"""


@contextmanager
def open_transport(profile: ClusterProfile, plan: LaunchPlan) -> Iterator[tuple[LaunchPlan, ProbeTransport]]:
    """The way to the nodes, closed at the end, and the plan with the nodes that are meant."""
    match profile.backend:
        case LocalBackend():
            yield plan, lambda node, request, limit_s: ask_local(plan, node, request, limit_s)
        case SshBackend() as backend:
            from fsdpctl.backends.ssh.probe_transport import SshProbeTransport

            with closing(SshProbeTransport(plan, backend)) as hosts:
                yield plan, hosts.ask
        case SlurmBackend():
            from fsdpctl.backends.slurm.probe_transport import SlurmProbeTransport

            with closing(SlurmProbeTransport(plan)) as allocation:
                yield allocation.plan, allocation.ask


def ask_local(plan: LaunchPlan, node: PlannedNode, request: str, limit_s: float) -> str:
    """A node of this machine is a process with that node's environment."""
    env = {**own_environment(os.environ), **plan.env, **node.env}
    argv = with_setup(plan.setup, probe_argv(plan))
    try:
        done = subprocess.run(
            argv, input=build_payload(request), env=env, cwd="/", capture_output=True, timeout=limit_s
        )
    except FileNotFoundError:
        raise HostError(f"the profile's python does not exist here: {plan.python}") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"no answer within {limit_s:.0f} s") from None
    return last_line(plan, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
