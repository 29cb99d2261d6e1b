"""Choose the nodes of a plan: none that a hold has, unless the run is to take place in it."""

from __future__ import annotations

import time

from fsdpctl.backends.placement import Avoid, Own
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.holds.decide import ends_at
from fsdpctl.holds.record import Hold, find_held
from fsdpctl.holds.store import list_holds
from fsdpctl.holds.use import read_use
from fsdpctl.verbs.nodes import describe, find_suspects


def place(plan: LaunchPlan, own: Own | None = None) -> tuple[LaunchPlan, list[str]]:
    """Return the plan on nodes that are free, or on those of a hold, and a line for each suspect. Raise RefusedError if
    there are too few.
    """
    suspects = find_suspects(plan.backend)
    placed = get_backend(plan.backend).placement.place(plan, Avoid(_find_held(), list(suspects)), own)
    avoided, used = ([suspects[one] for one in found] for found in (placed.avoided, placed.used))
    return placed.plan, [*describe(avoided, is_used=False), *describe(used, is_used=True)]


def _find_held() -> dict[str, str]:
    """Return the machines that holds have: machine -> name of the hold."""
    found: dict[str, str] = {}
    for hold in list_holds():
        record, held = find_json(Hold, hold.record), find_held(hold)
        if record is not None and held is not None and time.time() < ends_at(record, held, read_use(hold)):
            found |= dict.fromkeys(held.machines, record.name)
    return found
