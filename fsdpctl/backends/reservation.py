"""Holds where no scheduler gives nodes: a record keeps the user's other runs away from them, and nothing has to run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from fsdpctl.backends.base import HoldView
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import HoldPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.holds.record import Held, Hold


def take(hold: HoldPaths, record: Hold, plan: LaunchPlan) -> None:
    """Record the nodes of the plan as held."""
    machines = get_backend(plan.backend).placement.machines(plan)
    write_json(hold.held, Held(time.time(), tuple(node.id for node in plan.nodes), machines))


def look(holds: Sequence[HoldPaths]) -> Mapping[HoldPaths, HoldView]:
    """Return that nothing ends these holds but their own limits."""
    return dict.fromkeys(holds, HoldView("held"))


def release(hold: HoldPaths, plan: LaunchPlan) -> None:
    """Do nothing: the hold is its record, which the caller deletes."""
