"""Which hosts of a profile may come in for others, and which may not, for how long. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.contract.plan import DroppedHost, LaunchPlan, PlannedNode
from fsdpctl.specs.profile import ClusterProfile

BAD_FOR_S = 3600.0
"""A host that was replaced is not taken again for so long: one that comes and goes would eat all restarts."""


def find_bad(dropped: Sequence[DroppedHost], now: float) -> dict[str, DroppedHost]:
    """The hosts to avoid, by id."""
    return {host.node.id: host for host in dropped if now - host.time < BAD_FOR_S}


def find_keepers(
    profile: ClusterProfile, plan: LaunchPlan, dropped: Sequence[DroppedHost], most: int
) -> list[PlannedNode]:
    """The hosts that may have files of a run which has had up to `most` nodes, those of today first."""
    first = [PlannedNode(rank, host.id, host.address, host.port) for rank, host in enumerate(profile.nodes[:most])]
    return list({node.id: node for node in (*plan.nodes, *(host.node for host in dropped), *first)}.values())


def find_candidates(
    profile: ClusterProfile, plan: LaunchPlan, rank: int, dropped: Sequence[DroppedHost], now: float
) -> list[PlannedNode]:
    """The hosts that may take the place of `rank`, in the order of trying: spares, then nodes that are not used."""
    taken = {node.id for node in plan.nodes} | find_bad(dropped, now).keys()
    return [
        PlannedNode(rank, host.id, host.address, host.port, host.env)
        for host in (*profile.spares, *profile.nodes)
        if host.id not in taken
    ]
