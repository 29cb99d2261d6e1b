"""Choose hosts of a profile that may replace others, and exclude those that failed recently. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fsdpctl.contract.plan import DroppedHost, LaunchPlan, PlannedNode

BAD_FOR_S = 3600.0
"""A host that was replaced is not used again for this time: a flapping host would use up all restarts."""


def find_bad(dropped: Sequence[DroppedHost], now: float) -> dict[str, DroppedHost]:
    """Return the hosts to avoid, by id."""
    return {host.node.id: host for host in dropped if now - host.time < BAD_FOR_S}


def find_file_hosts(plan: LaunchPlan, dropped: Sequence[DroppedHost], most: int) -> list[PlannedNode]:
    """Return the hosts that may have files of a run that has had up to `most` nodes, the present ones first."""
    assert plan.ssh is not None
    nodes = (*plan.nodes, *(host.node for host in dropped), *plan.ssh.nodes[:most])
    return list({node.id: node for node in nodes}.values())


def find_candidates(plan: LaunchPlan, rank: int, dropped: Sequence[DroppedHost], now: float) -> list[PlannedNode]:
    """Return the hosts that may replace that of `rank`, in the order of trying: spares, then unused nodes."""
    taken = {node.id for node in plan.nodes} | find_bad(dropped, now).keys()
    assert plan.ssh is not None
    hosts = (*plan.ssh.spares, *plan.ssh.nodes)
    return [replace(host, rank=rank) for host in hosts if host.id not in taken]
