"""Keep suspects out of a job. Which other nodes it gets, and which are free, Slurm decides. Pure."""

from __future__ import annotations

from dataclasses import replace

from fsdpctl.backends.placement import Avoid, Own, Placed
from fsdpctl.backends.slurm.job.decide_step import MAX_EXCLUDED
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import RefusedError


def machines(plan: LaunchPlan) -> tuple[str, ...]:
    return ()


def place(plan: LaunchPlan, avoid: Avoid, own: Own | None = None) -> Placed:
    if own is not None and len(plan.nodes) > len(own.machines):
        text = f"{len(plan.nodes)} nodes wanted, but hold {own.hold} has {len(own.machines)}"
        raise RefusedError(text, hint="--nodes takes fewer")
    assert plan.slurm is not None
    suspects = tuple(avoid.suspects[:MAX_EXCLUDED]) if own is None else ()
    return Placed(replace(plan, slurm=replace(plan.slurm, suspects=suspects)), avoided=suspects)
