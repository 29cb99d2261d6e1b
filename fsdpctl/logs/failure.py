"""Which rank failed first, out of the errors that all ranks of all nodes left."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fsdpctl.contract.records import RankError
from fsdpctl.logs.ranges import fold

# What gloo, NCCL, the store and torchrun say on a rank whose peer is gone.
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
    victims: tuple[RankError, ...]


def find_root_cause(errors: Iterable[RankError]) -> RootCause | None:
    """Return the earliest error; a lost peer is a consequence wherever another rank has an error of its own.

    Time alone does not tell: torch stamps errors in whole seconds, and the clocks of nodes differ.
    """
    ordered = sorted(errors, key=lambda e: (_is_lost_peer(e), e.time, e.rank))
    return RootCause(ordered[0], tuple(ordered[1:])) if ordered else None


def describe(cause: RootCause) -> str:
    """Return the failure as a person reads it: who and what, the traceback, then the victims folded."""
    first = cause.first
    headline, _, rest = first.message.strip().partition("\n")
    parts = [f"rank {first.rank} on node {first.node_rank} failed first: {headline}"]
    if details := (first.traceback or rest).strip("\n"):
        parts.append(details)
    if cause.victims:
        parts.append(_fold_victims(cause.victims))
    if _is_lost_peer(first):
        parts.append(
            "every error is a lost peer: some rank or node was killed without leaving an error; see fsdpctl status"
        )
    return "\n".join(parts)


def _is_lost_peer(error: RankError) -> bool:
    return not error.expected and _LOST_PEER.search(error.message) is not None


def _fold_victims(victims: tuple[RankError, ...]) -> str:
    by_reason: dict[str, list[int]] = {}
    for victim in victims:
        by_reason.setdefault(_reason(victim.message), []).append(victim.rank)
    folded = "; ".join(f"{fold(ranks).replace(',', ', ')} ({reason})" for reason, ranks in by_reason.items())
    noun = "rank" if len(victims) == 1 else "ranks"
    return f"{len(victims)} more {noun} failed after it: {folded}"


def _reason(message: str) -> str:
    """Return the message without the addresses and source lines that differ from rank to rank."""
    if lost := _LOST_PEER.search(message):
        return lost[0].lower()
    return message.strip().partition("\n")[0][:_REASON_LIMIT]
