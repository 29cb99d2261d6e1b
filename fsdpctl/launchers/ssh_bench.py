"""The bench: hosts of the profile that may come in, and those that were sent off and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable

from fsdpctl.contract.plan import LaunchPlan, PlannedNode
from fsdpctl.specs.model import ClusterProfile

BAD_FOR_S = 3600.0
"""A host that was replaced is not taken again for so long: one that comes and goes would eat all restarts."""


class Bench:
    """Spares first, then listed nodes that the run does not use."""

    def __init__(self, profile: ClusterProfile, clock: Callable[[], float] = time.monotonic) -> None:
        self._hosts = (*profile.spares, *profile.nodes)
        self._clock = clock
        self._bad_until: dict[str, float] = {}

    def candidates(self, plan: LaunchPlan, rank: int) -> list[PlannedNode]:
        """The hosts that may take the place of `rank`, in the order of trying."""
        used = {node.id for node in plan.nodes}
        now = self._clock()
        return [
            PlannedNode(rank, host.id, host.address, host.port, host.env)
            for host in self._hosts
            if host.id not in used and self._bad_until.get(host.id, 0.0) <= now
        ]

    def drop(self, host_id: str) -> None:
        """Remember that this host has failed."""
        self._bad_until[host_id] = self._clock() + BAD_FOR_S
