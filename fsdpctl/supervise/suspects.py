"""Which nodes an attempt's end is evidence against. Pure."""

from __future__ import annotations

from fsdpctl.contract import NodeExit
from fsdpctl.contract.records import NodeEnd
from fsdpctl.runs.verdict import AttemptEnd

VANISHED = "its agent left no exit record"


def find_suspects(end: AttemptEnd) -> dict[int, str]:
    """Return the nodes that were at fault, else those whose hardware failed under a rank, else those that vanished:
    rank -> reason. None if that is all of several nodes: then something else is at fault.
    """
    at_fault = {rank: node.reason for rank, node in end.ends.items() if node.code == NodeExit.NODE_FAULT}
    hardware = {rank: node.reason for rank, node in end.ends.items() if _is_hardware(node)}
    vanished = {rank: VANISHED for rank in range(end.num_nodes) if rank not in end.ends}
    found = at_fault or hardware or vanished
    return {} if len(found) == end.num_nodes > 1 else found


def find_evidence(end: AttemptEnd) -> dict[int, str]:
    """Return the suspects that other runs should know of: not of an attempt that was asked to end, when nodes are taken
    away.
    """
    is_asked = end.stop is not None or (end.abort is not None and end.abort.is_cancel)
    return {} if is_asked else find_suspects(end)


def _is_hardware(node: NodeEnd) -> bool:
    return node.first_error is not None and node.first_error.is_hardware
