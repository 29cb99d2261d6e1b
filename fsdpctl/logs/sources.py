"""What one attempt has left to read so far: its log files and the errors of its ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from fsdpctl.contract.codec import CodecError, read_json
from fsdpctl.contract.paths import AttemptPaths, NodePaths
from fsdpctl.contract.records import RankError
from fsdpctl.logs.model import LogFile


@dataclass(frozen=True)
class Choice:
    """Which logs are wanted. An empty set means all; `agent` adds those of the agents and of torchrun."""

    ranks: frozenset[int] = frozenset()
    nodes: frozenset[int] = frozenset()
    agent: bool = False


def find_logs(attempt: AttemptPaths, choice: Choice) -> list[LogFile]:
    """Return the chosen log files that exist, by node, each node's agent first and then its ranks in order."""
    return [
        file
        for node in attempt.nodes()
        if not choice.nodes or _node_rank(node) in choice.nodes
        for file in _logs_of(node, choice)
    ]


def read_errors(attempt: AttemptPaths) -> list[RankError]:
    """Return the errors that the ranks have left; a broken error file is itself reported as that rank's error."""
    errors = []
    for node in attempt.nodes():
        for rank in node.rank_logs():
            try:
                errors.append(read_json(RankError, node.rank_error(rank)))
            except FileNotFoundError:
                continue
            except CodecError as error:
                errors.append(RankError(rank, _node_rank(node), inf, f"unreadable error file: {error}", ""))
    return errors


def _logs_of(node: NodePaths, choice: Choice) -> Iterator[LogFile]:
    node_rank = _node_rank(node)
    if choice.agent:
        if node.agent_log.exists():
            yield LogFile(node_rank, "agent", None, node.agent_log)
        if node.torchrun_log.exists():
            yield LogFile(node_rank, "torchrun", None, node.torchrun_log)
    for rank, path in sorted(node.rank_logs().items()):
        if not choice.ranks or rank in choice.ranks:
            yield LogFile(node_rank, "rank", rank, path)


def _node_rank(node: NodePaths) -> int:
    return int(node.root.name.removeprefix("node-"))
