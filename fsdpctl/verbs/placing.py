"""Choose the nodes of a plan: none that a hold has, unless the run is to take place in it, and suspects last."""

from __future__ import annotations

from fsdpctl.backends.placement import Avoid, Own
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.holds.taken import read_taken
from fsdpctl.verbs.nodes import describe, find_suspects


def place(plan: LaunchPlan, own: Own | None = None) -> tuple[LaunchPlan, list[str]]:
    """Return the plan on nodes that are free, or on those of a hold, and a line for each suspect. Raise RefusedError if
    there are too few.
    """
    suspects = find_suspects(plan.backend)
    placed = get_backend(plan.backend).placement.place(plan, Avoid(read_taken(), list(suspects)), own)
    avoided, used = ([suspects[one] for one in found] for found in (placed.avoided, placed.used))
    return placed.plan, [*describe(avoided, is_used=False), *describe(used, is_used=True)]
