"""Store the host keys of a profile's hosts in known_hosts, when the user asks for it."""

from __future__ import annotations

from collections.abc import Callable

from fsdpctl.backends.ssh.transport.accept_keys import accept_new
from fsdpctl.backends.ssh.transport.ssh_config import target_of
from fsdpctl.contract.plan import LaunchPlan


def trust_hosts(plan: LaunchPlan, report: Callable[[str], None]) -> None:
    """Store the keys of hosts and spares that known_hosts does not have; `report` gets each one beforehand."""
    assert plan.ssh is not None
    accept_new([target_of(host, plan) for host in (*plan.ssh.nodes, *plan.ssh.spares)], report)
