"""Which node's exit record has the first failure of an attempt. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fsdpctl.contract import AbortReason, Cause, RankFailure
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.first_failure import distance
from fsdpctl.contract.records import NodeEnd


def first_bad_end(bad: Mapping[int, NodeEnd], abort: ControlFile | None) -> tuple[int, NodeEnd]:
    """Return (node rank, exit record) of the first failure among the exit records of nodes that failed.

    Nodes that were ended come last; but a hang and a lost node, which no rank reports, come before ranks that lost a
    peer, which follows from them.
    """
    found_from_outside = abort is not None and abort.cause in (AbortReason.HANG, AbortReason.LOST)

    def order(item: tuple[int, NodeEnd]) -> tuple[int, bool, float]:
        end = item[1]
        if end.cause is Cause.ABORT:
            return 0 if found_from_outside else len(RankFailure), True, end.time
        if (error := end.first_error) is not None:
            return distance(error.failure), False, error.time
        return distance(RankFailure.LOST_PEER) if end.cause is Cause.EXIT_CODE else 0, False, end.time

    return min(bad.items(), key=order)


def may_follow(end: NodeEnd) -> bool:
    """Return whether a node's end can follow from the failure of another one."""
    if end.first_error is not None:
        return distance(end.first_error.failure) > 0
    return end.cause in (Cause.ABORT, Cause.EXIT_CODE)
