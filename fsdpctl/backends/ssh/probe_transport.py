"""Nodes behind SSH: one connection each, kept over all questions."""

from __future__ import annotations

from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import target_of
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.contract.plan import LaunchPlan, PlannedNode
from fsdpctl.doctor.payload import build_payload, last_line, probe_argv
from fsdpctl.specs.profile import SshBackend


class SshProbeTransport:
    """The `ProbeTransport` of an ssh profile."""

    def __init__(self, plan: LaunchPlan, backend: SshBackend) -> None:
        self._plan = plan
        self._links = {node.rank: Link(target_of(node, backend)) for node in plan.nodes}

    def ask(self, node: PlannedNode, request: str, limit_s: float) -> str:
        argv = with_setup(self._plan.setup, probe_argv(self._plan))
        done = self._links[node.rank].run(argv, build_payload(request), limit_s)
        return last_line(self._plan, done.code, done.stdout, done.stderr)

    def close(self) -> None:
        for link in self._links.values():
            link.close()
