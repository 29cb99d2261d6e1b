"""Which ranks or nodes ended an attempt, which failed because of them, and which were only ended. Pure."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fsdpctl.contract import Cause, RankFailure
from fsdpctl.contract.first_failure import distance
from fsdpctl.contract.records import RankError
from fsdpctl.explain.categories import Role
from fsdpctl.explain.explanation import Confidence
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind
from fsdpctl.explain.run.evidence import AttemptEvidence, RankEvidence

_NOT_OF_RANKS = (Cause.STOP, Cause.CANCEL, Cause.TIME_LIMIT, Cause.PREEMPTION, Cause.REQUEUE, Cause.FINISHED)
_OF_NODES = (Cause.NODE_CHECK, Cause.PACKAGE, Cause.SETUP, Cause.START, Cause.AGENT, Cause.TORCHRUN)
_ABORTS = (-signal.SIGABRT, 128 + signal.SIGABRT)


@dataclass(frozen=True)
class Initiators:
    """Who ended an attempt: ranks, or whole nodes; empty where no rank or node did, or it is not known."""

    ranks: tuple[int, ...] = ()  # the first one first
    nodes: tuple[int, ...] = ()
    confidence: Confidence = Confidence.CERTAIN
    is_by_elimination: bool = False  # its peers lost it, and it recorded nothing itself


def find_initiators(
    attempt: AttemptEvidence, cause: Cause | None, is_lost_peer: Callable[[RankEvidence], bool]
) -> Initiators:
    """Return who ended an attempt. `is_lost_peer` reads the log of a rank that a library aborted."""
    if cause in _NOT_OF_RANKS:
        return Initiators()
    if cause is Cause.HANG:
        if attempt.hang is not None and attempt.hang.culprit is not None:
            return Initiators((attempt.hang.culprit.report.rank,))
        return _by_flight_record(attempt.flight) or Initiators(confidence=Confidence.UNKNOWN)
    if cause is Cause.JOIN:
        return Initiators(nodes=attempt.absent or _nodes_with(attempt, (Cause.JOIN,)))
    if cause is Cause.LOST:
        return Initiators(nodes=attempt.missing or attempt.quietest, confidence=Confidence.LIKELY)
    if cause in _OF_NODES:
        causes = (Cause.NODE_CHECK, Cause.PACKAGE) if cause in (Cause.NODE_CHECK, Cause.PACKAGE) else (cause,)
        return Initiators(nodes=_nodes_with(attempt, causes))
    found = _find_ranks(attempt, is_lost_peer)
    if cause is Cause.EXCEPTION and not found.ranks:  # rank 0 has only reported in its outcome that it failed
        return Initiators(nodes=_nodes_with(attempt, (cause,)))
    return found


def role_of(rank: RankEvidence, initiators: Initiators, cause: Cause | None) -> Role:
    """Return the role of a rank that did not end well."""
    if rank.rank in initiators.ranks:
        return Role.INITIATING
    if cause is Cause.HANG and rank.node_rank not in initiators.nodes:
        return Role.CASCADE
    has_failed = rank.error is not None or rank.exit_code is not None
    return Role.CASCADE if has_failed and cause not in _NOT_OF_RANKS else Role.TEARDOWN


def _nodes_with(attempt: AttemptEvidence, causes: Sequence[Cause]) -> tuple[int, ...]:
    return tuple(node for node, end in attempt.ends.items() if end.cause in causes)


def _find_ranks(attempt: AttemptEvidence, is_lost_peer: Callable[[RankEvidence], bool]) -> Initiators:
    failed = [rank for rank in attempt.ranks if rank.error is not None or rank.exit_code is not None]
    own = [rank for rank in failed if _distance(rank, is_lost_peer) < distance(RankFailure.LOST_PEER)]
    if own:
        first, *others = sorted(own, key=lambda rank: _order(rank, is_lost_peer))
        return Initiators((first.rank, *(rank.rank for rank in others if _is_alike(rank.error, first.error))))
    if not failed:
        return Initiators(confidence=Confidence.UNKNOWN)
    return _by_flight_record(attempt.flight) or _find_silent(attempt.ranks)


def _by_flight_record(found: FlightFinding | None) -> Initiators | None:
    """Return the ranks that have not entered the operation in which the others waited, or that called another one than
    most; None if the records do not show any."""
    if found is None:
        return None
    ranks: tuple[int, ...] = ()
    if found.kind is FlightKind.MISSING:
        ranks = found.ranks_missing
    if found.kind is FlightKind.MISMATCH:
        most, *_, fewest = [side.ranks for side in found.sides if side.has_entered]
        ranks = fewest if len(fewest) < len(most) else ()
    return Initiators(ranks, confidence=Confidence.LIKELY, is_by_elimination=True) if ranks else None


def _find_silent(ranks: Sequence[RankEvidence]) -> Initiators:
    """Return the rank that all others report as lost, where no rank recorded a failure of its own."""
    silent = [rank for rank in ranks if rank.error is None and rank.exit_code is None]
    behind = _furthest_behind(silent)
    if len(behind) != 1:
        return Initiators(confidence=Confidence.UNKNOWN)
    return Initiators((behind[0].rank,), confidence=Confidence.LIKELY, is_by_elimination=True)


def _furthest_behind(ranks: Sequence[RankEvidence]) -> list[RankEvidence]:
    if any(rank.progress is None for rank in ranks):
        return list(ranks)
    least = min((rank.progress.position for rank in ranks if rank.progress is not None), default=0)
    return [rank for rank in ranks if rank.progress is not None and rank.progress.position == least]


def _order(rank: RankEvidence, is_lost_peer: Callable[[RankEvidence], bool]) -> tuple[int, float, int]:
    time = rank.error.time if rank.error is not None else float("inf")
    return _distance(rank, is_lost_peer), time, rank.rank


def _distance(rank: RankEvidence, is_lost_peer: Callable[[RankEvidence], bool]) -> int:
    """Return how far the failure of a rank is from being its own. NCCL aborts a process that has lost a peer: by its
    signal alone it would be its own."""
    if rank.exit_code in _ABORTS and is_lost_peer(rank):
        return distance(RankFailure.LOST_PEER)
    if rank.error is not None:
        return distance(rank.error.failure)
    return distance(RankFailure.SIGNAL if (rank.exit_code or 0) < 0 else RankFailure.EXIT_CODE)


def _is_alike(one: RankError | None, other: RankError | None) -> bool:
    """Return whether two ranks failed in the same way at the same place, each by itself."""
    if one is None or other is None or not one.kinds:
        return False
    return (one.place or one.message, one.kinds) == (other.place or other.message, other.kinds)
