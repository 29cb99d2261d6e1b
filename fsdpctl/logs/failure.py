"""Describe the first failure of an attempt, and those that followed from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fsdpctl.contract import GOOD_ENDS, RankFailure
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.first_failure import failure_order, headline
from fsdpctl.contract.records import NodeEnd, RankError
from fsdpctl.logs.ranges import fold
from fsdpctl.supervise.first_end import first_bad_end

_REASON_LIMIT = 100


@dataclass(frozen=True)
class RootCause:
    """The first failure, and those that only followed from it."""

    first: RankError
    followers: tuple[RankError, ...]


def find_root_cause(
    errors: Sequence[RankError], ends: Mapping[int, NodeEnd], abort: ControlFile | None
) -> RootCause | None:
    """Return the error that the exit records name as the first, as the state of the run does; while there is no exit
    record, the first so far. None if no rank failed, or if the first failure was not that of a rank."""
    bad = {node_rank: end for node_rank, end in ends.items() if end.code not in GOOD_ENDS}
    if ends and not bad:
        return None  # as KeyboardInterrupt, where a stop sends INT
    ordered = sorted(errors, key=failure_order)
    if bad and ordered:
        node_rank, end = first_bad_end(bad, abort)
        if end.failed_rank is None:
            return None
        named = next((e for e in ordered if (e.node_rank, e.rank) == (node_rank, end.failed_rank)), ordered[0])
        ordered.remove(named)
        ordered.insert(0, named)
    return RootCause(ordered[0], tuple(ordered[1:])) if ordered else None


def describe(cause: RootCause) -> str:
    """Return the failure as text: rank and message, the traceback, then the ranks that failed after it."""
    first = cause.first
    rest = first.message.strip().partition("\n")[2]
    parts = [f"rank {first.rank} on node {first.node_rank} failed first: {headline(first)}"]
    if details := (first.traceback or rest).strip("\n"):
        parts.append(details)
    if cause.followers:
        parts.append(_fold_followers(cause.followers))
    if first.failure is RankFailure.LOST_PEER:
        parts.append(
            "every error is about a lost peer: a rank or node was killed without leaving an error; see fsdpctl status"
        )
    return "\n".join(parts)


def _fold_followers(followers: tuple[RankError, ...]) -> str:
    by_reason: dict[str, list[int]] = {}
    for error in followers:
        by_reason.setdefault(_reason(error), []).append(error.rank)
    folded = "; ".join(f"{fold(ranks).replace(',', ', ')} ({reason})" for reason, ranks in by_reason.items())
    noun = "rank" if len(followers) == 1 else "ranks"
    return f"{len(followers)} more {noun} failed after it: {folded}"


def _reason(error: RankError) -> str:
    """Return the message without the addresses and source lines that differ from rank to rank."""
    return "lost a peer" if error.failure is RankFailure.LOST_PEER else headline(error)[:_REASON_LIMIT]
