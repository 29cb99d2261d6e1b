"""Choose the hosts of a run from those of its profile: none that are held, and suspects last. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fsdpctl.backends.placement import Avoid, Own, Placed
from fsdpctl.contract.plan import LaunchPlan, PlannedNode
from fsdpctl.errors import RefusedError


def machines(plan: LaunchPlan) -> tuple[str, ...]:
    return tuple(map(machine, plan.nodes))


def machine(node: PlannedNode) -> str:
    """Return what identifies a host in every profile: two may give it different ids."""
    return f"{node.address}:{node.ssh_port}"


def place(plan: LaunchPlan, avoid: Avoid, own: Own | None = None) -> Placed:
    assert plan.ssh is not None
    usable = [node for node in plan.ssh.nodes if _may_use(node, avoid, own)]
    if len(usable) < len(plan.nodes):
        raise _too_few(plan, len(usable), avoid, own)
    fixed = usable[:1] if plan.head.address is not None else []  # the profile's master_address names the first host
    rest = sorted(usable[len(fixed) :], key=lambda node: machine(node) in avoid.suspects)
    chosen = [*fixed, *rest][: len(plan.nodes)]
    spares = tuple(node for node in plan.ssh.spares if machine(node) not in avoid.held)
    nodes = tuple(replace(node, rank=rank) for rank, node in enumerate(chosen))
    used = {machine(node) for node in nodes}
    suspects = [one for one in avoid.suspects if one in map(machine, usable)]
    return Placed(
        replace(plan, nodes=nodes, ssh=replace(plan.ssh, spares=spares)),
        avoided=tuple(one for one in suspects if one not in used),
        used=tuple(one for one in suspects if one in used),
    )


def _may_use(node: PlannedNode, avoid: Avoid, own: Own | None) -> bool:
    return machine(node) not in avoid.held if own is None else machine(node) in own.machines


def _too_few(plan: LaunchPlan, usable: int, avoid: Avoid, own: Own | None) -> RefusedError:
    wanted = f"{len(plan.nodes)} node{'s' if len(plan.nodes) > 1 else ''} wanted"
    if own is not None:
        return RefusedError(f"{wanted}, but hold {own.hold} has {usable}", hint="--nodes takes fewer")
    assert plan.ssh is not None
    held = _held(plan.ssh.nodes, avoid)
    hint = f"fsdpctl submit --in HOLD starts in one, fsdpctl release HOLD gives it back: {', '.join(sorted(set(held)))}"
    return RefusedError(f"{wanted}, but only {usable} of the profile are not held", hint=hint)


def _held(nodes: Sequence[PlannedNode], avoid: Avoid) -> list[str]:
    return [avoid.held[machine(node)] for node in nodes if machine(node) in avoid.held]
