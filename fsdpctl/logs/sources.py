"""What one attempt has left to read so far: its log files and the errors of its ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from fsdpctl.contract import NodeExit
from fsdpctl.contract.codec import CodecError, find_json, read_json
from fsdpctl.contract.paths import AttemptPaths, NodePaths
from fsdpctl.contract.records import NodeEnd, RankError
from fsdpctl.logs.line import LogFile


@dataclass(frozen=True)
class Choice:
    """Which logs are wanted. An empty set means all ranks and all nodes; the others are added."""

    ranks: frozenset[int] = frozenset()
    nodes: frozenset[int] = frozenset()
    agent: bool = False  # those of the agents and of torchrun
    supervisor: bool = False


def find_logs(attempt: AttemptPaths, choice: Choice) -> list[LogFile]:
    """Return the chosen log files that exist: the supervisor's, then by node, each node's agent before its ranks."""
    is_wanted = choice.supervisor and attempt.events.exists()
    supervisor = [LogFile(None, "supervisor", None, attempt.events)] if is_wanted else []
    return supervisor + [
        file
        for node in attempt.nodes()
        if not choice.nodes or node.node_rank in choice.nodes
        for file in _logs_of(node, choice)
    ]


def read_errors(attempt: AttemptPaths) -> list[RankError]:
    """Return why ranks failed, as far as they or their agents could tell."""
    return [error for node in attempt.nodes() for error in _errors_of(node)]


def read_faults(attempt: AttemptPaths) -> dict[str, list[int]]:
    """Why nodes could not take part, before there was a rank: each reason with the nodes that gave it."""
    faults: dict[str, list[int]] = {}
    for node in attempt.nodes():
        if (end := find_json(NodeEnd, node.end)) is not None and end.code == NodeExit.NODE_FAULT:
            faults.setdefault(end.reason, []).append(node.node_rank)
    return faults


def _logs_of(node: NodePaths, choice: Choice) -> Iterator[LogFile]:
    node_rank = node.node_rank
    if choice.agent:
        if node.agent_log.exists():
            yield LogFile(node_rank, "agent", None, node.agent_log)
        if node.torchrun_log.exists():
            yield LogFile(node_rank, "torchrun", None, node.torchrun_log)
    for rank, path in sorted(node.rank_logs().items()):
        if not choice.ranks or rank in choice.ranks:
            yield LogFile(node_rank, "rank", rank, path)


def _errors_of(node: NodePaths) -> list[RankError]:
    errors = [error for rank in sorted(node.rank_logs()) if (error := _read_error(node, rank)) is not None]
    end = find_json(NodeEnd, node.end)
    if end is not None and end.failed_rank is not None and end.failed_rank not in {error.rank for error in errors}:
        # A rank that a signal killed leaves no error of its own: its agent says it.
        message = end.reason.removeprefix(f"rank {end.failed_rank} ")
        errors.append(RankError(end.failed_rank, node.node_rank, end.time, message, ""))
    return errors


def _read_error(node: NodePaths, rank: int) -> RankError | None:
    try:
        return read_json(RankError, node.rank_error(rank))
    except FileNotFoundError:
        return None
    except CodecError as error:
        return RankError(rank, node.node_rank, inf, f"unreadable error file: {error}", "")
