"""Doctor's transport to SSH hosts: one connection each, kept for all requests where there are not too many hosts."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import max_connections
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import target_of
from fsdpctl.commands.container import enter
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.contract.plan import LaunchPlan, PlannedNode


class SshProbeTransport:
    """Runs commands on the hosts of a plan."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        self._links = {node.rank: Link(target_of(node, plan)) for node in plan.nodes}
        self._keeps_connections = len(plan.nodes) <= max_connections()

    def run(self, node: PlannedNode, argv: Sequence[str], stdin: bytes, limit_s: float) -> NodeAnswer:
        link = self._links[node.rank]
        try:
            return link.run(with_setup(self.plan.setup, [*enter(self.plan), *argv]), stdin, limit_s)
        finally:
            if not self._keeps_connections:
                link.close()

    def close(self) -> None:
        for link in self._links.values():
            link.close()


def open_probe_transport(plan: LaunchPlan) -> SshProbeTransport:
    return SshProbeTransport(plan)
