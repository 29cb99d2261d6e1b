"""Which hosts are late or at fault, by their answers and by what their nodes have recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from fsdpctl.backends.fanout import HostResult
from fsdpctl.backends.ssh.transport.answer import NoRunDirectoryError
from fsdpctl.contract import GOOD_ENDS, NodeExit
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.queries.agent_control import NodeFacts

T = TypeVar("T")


def find_faults(attempt: AttemptPaths, ranks: Sequence[int]) -> dict[int, str]:
    """Return rank -> reason of hosts whose part of an attempt ended by a fault of the node."""
    ends = {rank: find_json(NodeEnd, attempt.node(rank).end) for rank in ranks}
    return {rank: end.reason for rank, end in ends.items() if end is not None and end.code == NodeExit.NODE_FAULT}


def find_late(results: Mapping[int, HostResult[int, NodeFacts]], attempt: int) -> list[int]:
    """Return the hosts whose disk may come: another host has the run directory, or had it in an earlier attempt."""
    present = [rank for rank, result in results.items() if result.value and result.value.has_run_dir]
    missing = [
        rank
        for rank, result in results.items()
        if isinstance(result.error, NoRunDirectoryError) or (result.value and not result.value.has_run_dir)
    ]
    return missing if present or attempt > 1 else []


def find_refused(results: Sequence[HostResult[int, T]]) -> dict[int, str]:
    """Return rank -> error of hosts that were reached, as where a line of `setup` fails: another host may do better.

    Not those that could not be reached, and none if that is all of several hosts: then something else is at fault.
    """
    found = {result.item: str(result.error) for result in results if result.error and not result.error.passing}
    return {} if len(found) == len(results) > 1 else found


def describe_errors(results: Sequence[HostResult[int, T]]) -> list[str]:
    """Return one line for each host that gave no answer, or an error."""
    return [str(result.error) for result in results if result.error]


def find_failed_node(attempt: AttemptPaths) -> str | None:
    """Return the node that has failed and its reason, or None: without a shared disk its peers do not see that."""
    ends = {node.node_rank: find_json(NodeEnd, node.end) for node in attempt.nodes()}
    bad = [f"node {rank}: {end.reason}" for rank, end in ends.items() if end and end.code not in GOOD_ENDS]
    return bad[0] if bad else None
