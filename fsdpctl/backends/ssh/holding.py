"""Hold hosts: a record keeps the user's other runs away from them."""

from __future__ import annotations

from fsdpctl.backends.fanout import fan_out
from fsdpctl.backends.reservation import look, take
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import target_of
from fsdpctl.contract.paths import HoldPaths
from fsdpctl.contract.plan import LaunchPlan, PlannedNode

__all__ = ["look", "release", "take"]

ANSWER_S = 10.0


def release(hold: HoldPaths, plan: LaunchPlan) -> None:
    """Delete the hold's directory on hosts that share no disk, so that their fork servers end. One that gives no
    answer ends its own after the idle limit.
    """
    if plan.shared_disk:
        return

    def delete(node: PlannedNode) -> None:
        link = Link(target_of(node, plan))
        try:
            link.run(["rm", "-rf", str(hold.root)], timeout_s=ANSWER_S)
        finally:
            link.close()

    fan_out(plan.nodes, delete)
