"""The nodes of a local run: this machine, whole."""

from __future__ import annotations

import socket

from fsdpctl.backends.placement import Avoid, Own, Placed
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import RefusedError


def machines(plan: LaunchPlan) -> tuple[str, ...]:
    return (socket.gethostname(),)


def place(plan: LaunchPlan, avoid: Avoid, own: Own | None = None) -> Placed:
    held = avoid.held.get(socket.gethostname())
    if held is not None and own is None:
        raise RefusedError(f"this machine is held by {held}", hint=f"submit --in {held}, or fsdpctl release {held}")
    return Placed(plan)
