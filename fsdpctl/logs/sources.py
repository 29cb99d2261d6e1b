"""The log files and rank errors of one attempt so far."""

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
class LogSelection:
    """Which logs to read. Empty sets select all ranks and all nodes; the flags add further logs."""

    ranks: frozenset[int] = frozenset()
    nodes: frozenset[int] = frozenset()
    agent: bool = False  # logs of the agents and of torchrun
    supervisor: bool = False


def find_logs(attempt: AttemptPaths, selection: LogSelection) -> list[LogFile]:
    """Return the selected log files that exist: the supervisor's, then by node, each node's agent before its ranks."""
    events = [path for path in (attempt.older_events, attempt.events) if selection.supervisor and path.exists()]
    supervisor = [LogFile(None, "supervisor", None, path) for path in events]
    return supervisor + [
        file
        for node in _nodes(attempt)
        if not selection.nodes or node.node_rank in selection.nodes
        for file in _logs_of(node, selection)
        if not _is_outside(file, attempt)
    ]


def find_outside(attempt: AttemptPaths, selection: LogSelection) -> list[LogFile]:
    """Return the selected logs that are not read, because they are links to files outside of the run."""
    return [f for node in _nodes(attempt) for f in _logs_of(node, selection) if _is_outside(f, attempt)]


def read_errors(attempt: AttemptPaths) -> list[RankError]:
    """Return why ranks failed, as far as they or their agents recorded it."""
    return [error for node in _nodes(attempt) for error in _errors_of(node)]


def read_faults(attempt: AttemptPaths) -> dict[str, list[int]]:
    """Return why nodes failed before they started ranks: each reason with the node ranks that reported it."""
    faults: dict[str, list[int]] = {}
    for node in _nodes(attempt):
        if (end := find_json(NodeEnd, node.end)) is not None and end.code == NodeExit.NODE_FAULT:
            faults.setdefault(end.reason, []).append(node.node_rank)
    return faults


def _nodes(attempt: AttemptPaths) -> list[NodePaths]:
    return [node for node in attempt.nodes() if node.is_readable()]


def _logs_of(node: NodePaths, selection: LogSelection) -> Iterator[LogFile]:
    node_rank = node.node_rank
    if selection.agent:
        if node.agent_log.exists():
            yield LogFile(node_rank, "agent", None, node.agent_log)
        if node.torchrun_log.exists():
            yield LogFile(node_rank, "torchrun", None, node.torchrun_log)
    for rank, path in sorted(node.rank_logs().items()):
        if not selection.ranks or rank in selection.ranks:
            yield LogFile(node_rank, "rank", rank, path)


def _is_outside(file: LogFile, attempt: AttemptPaths) -> bool:
    """Return whether a log is a link to a file outside of the run: a rank must not show what only its user can read."""
    return file.path.is_symlink() and not file.path.resolve().is_relative_to(attempt.run_dir.resolve())


def _errors_of(node: NodePaths) -> list[RankError]:
    errors = [error for rank in sorted(node.rank_logs()) if (error := _read_error(node, rank)) is not None]
    end = find_json(NodeEnd, node.end)
    if end is not None and end.failed_rank is not None and end.failed_rank not in {error.rank for error in errors}:
        # A rank that was killed by a signal writes no error: its agent's exit record has it.
        errors.append(end.first_error or RankError(end.failed_rank, node.node_rank, end.time, end.reason, ""))
    return errors


def _read_error(node: NodePaths, rank: int) -> RankError | None:
    try:
        return read_json(RankError, node.rank_error(rank))
    except FileNotFoundError:
        return None
    except CodecError as error:
        return RankError(rank, node.node_rank, inf, f"unreadable error file: {error}", "")
