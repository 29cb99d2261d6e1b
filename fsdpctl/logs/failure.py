"""Find the rank that failed first among the errors of all ranks of all nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fsdpctl.contract.records import RankError
from fsdpctl.logs.ranges import fold

# Messages of gloo, NCCL, the store and torchrun on a rank that has lost a peer.
_LOST_PEER = re.compile(
    r"connection (?:was )?(?:closed|reset)(?: by (?:remote )?peer)?|connection refused|broken pipe"
    r"|remote process exited|ncclRemoteError|socket timeout|watchdog caught collective operation timeout|SIGTERM",
    re.IGNORECASE,
)
_REASON_LIMIT = 100


@dataclass(frozen=True)
class RootCause:
    """The first failure, and those that only followed from it."""

    first: RankError
    followers: tuple[RankError, ...]


def find_root_cause(errors: Iterable[RankError]) -> RootCause | None:
    """Return the earliest error; one about a lost peer comes last, because another rank's error caused it.

    Time alone is not enough: torch stamps errors in whole seconds, and the clocks of nodes differ.
    """
    ordered = sorted(errors, key=lambda e: (_is_lost_peer(e), e.time, e.rank))
    return RootCause(ordered[0], tuple(ordered[1:])) if ordered else None


def describe(cause: RootCause) -> str:
    """Return the failure as text: rank and message, the traceback, then the ranks that failed after it."""
    first = cause.first
    headline, _, rest = first.message.strip().partition("\n")
    parts = [f"rank {first.rank} on node {first.node_rank} failed first: {headline}"]
    if details := (first.traceback or rest).strip("\n"):
        parts.append(details)
    if cause.followers:
        parts.append(_fold_followers(cause.followers))
    if _is_lost_peer(first):
        parts.append(
            "every error is about a lost peer: a rank or node was killed without leaving an error; see fsdpctl status"
        )
    return "\n".join(parts)


def _is_lost_peer(error: RankError) -> bool:
    return not error.expected and _LOST_PEER.search(error.message) is not None


def _fold_followers(followers: tuple[RankError, ...]) -> str:
    by_reason: dict[str, list[int]] = {}
    for error in followers:
        by_reason.setdefault(_reason(error.message), []).append(error.rank)
    folded = "; ".join(f"{fold(ranks).replace(',', ', ')} ({reason})" for reason, ranks in by_reason.items())
    noun = "rank" if len(followers) == 1 else "ranks"
    return f"{len(followers)} more {noun} failed after it: {folded}"


def _reason(message: str) -> str:
    """Return the message without the addresses and source lines that differ from rank to rank."""
    if lost := _LOST_PEER.search(message):
        return lost[0].lower()
    return message.strip().partition("\n")[0][:_REASON_LIMIT]
