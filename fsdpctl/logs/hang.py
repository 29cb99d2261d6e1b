"""Describe a hang as text: which rank the others waited for, its stacks, and where the others waited."""

from __future__ import annotations

from fsdpctl.contract.codec import find_json
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.node_report import Activity
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.stack_dump import parse_stacks
from fsdpctl.logs.stack_text import describe_threads
from fsdpctl.supervise.hang import Hang, PlacedRank


def describe_hang(attempt: AttemptPaths) -> str | None:
    """Return why an attempt hung, as text; None if it did not."""
    hang = find_json(Hang, attempt.hang)
    if hang is None:
        return None
    parts = [hang.reason]
    if hang.culprit is not None:
        parts.append(_describe_stacks(attempt, hang.culprit))
    parts += [_describe_other(other) for other in hang.others]
    return "\n".join(parts)


def _describe_stacks(attempt: AttemptPaths, rank: PlacedRank) -> str:
    path = attempt.node(rank.node_rank).rank_stacks(rank.report.rank)
    try:
        threads = parse_stacks(read_bytes(path).decode(errors="replace"))
    except OSError:
        threads = ()
    return (
        describe_threads(threads)
        or "its stacks could not be written: a process that is stopped or waits for a disk does nothing"
    )


def _describe_other(rank: PlacedRank) -> str:
    report = rank.report
    what = "waited for its peers" if report.activity is Activity.PEERS else "was"
    return f"rank {report.rank} on node {rank.node_rank} {what} at {report.where or 'a place that is not known'}"
