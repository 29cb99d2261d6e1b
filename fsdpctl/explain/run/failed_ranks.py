"""The ranks and nodes of an attempt that did not end well, each with its role and what ended it."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract import Cause
from fsdpctl.explain.categories import Category, Role
from fsdpctl.explain.explanation import FailedRank
from fsdpctl.explain.flight.finding import FlightKind
from fsdpctl.explain.frames import user_frames
from fsdpctl.explain.run.evidence import AttemptEvidence, RankEvidence
from fsdpctl.explain.run.rank_failure import RankFailureKind, describe_cascade, describe_rank
from fsdpctl.explain.run.roles import Initiators, role_of
from fsdpctl.explain.run.structured import domain_of, may_retry, of_node

_ORDER = (Role.INITIATING, Role.CASCADE, Role.TEARDOWN)


@dataclass(frozen=True)
class Failed:
    """A rank that did not end well, and what ended it."""

    evidence: RankEvidence
    role: Role
    kind: RankFailureKind


def find_failed(attempt: AttemptEvidence, initiators: Initiators, cause: Cause | None) -> list[Failed]:
    """Return the ranks that did not end well: those that ended it first, in the order in which they failed."""
    found = []
    for rank in attempt.ranks:
        if rank.is_finished and rank.rank not in initiators.ranks:
            continue
        role = role_of(rank, initiators, cause)
        found.append(Failed(rank, role, _describe(rank, role, attempt, initiators, cause)))
    first = {rank: nth for nth, rank in enumerate(initiators.ranks)}
    return sorted(found, key=lambda one: (_ORDER.index(one.role), first.get(one.evidence.rank, 0), one.evidence.rank))


def _describe(
    rank: RankEvidence, role: Role, attempt: AttemptEvidence, initiators: Initiators, cause: Cause | None
) -> RankFailureKind:
    if role is Role.TEARDOWN:
        return RankFailureKind(Category.CANCELLED, "ended with the others")
    if role is Role.INITIATING and initiators.is_by_elimination:
        return _describe_silent(rank, attempt)
    if cause is Cause.HANG:
        return _describe_hang(rank, role, attempt)
    if role is Role.CASCADE:
        return describe_cascade(rank, uses_gpus=attempt.uses_gpus)
    return describe_rank(rank, attempt.resources_of(rank.node_rank))


def _describe_silent(rank: RankEvidence, attempt: AttemptEvidence) -> RankFailureKind:
    """Return what is known of a rank that its peers lost, or waited for, and that recorded nothing."""
    stacks = rank.error.traceback if rank.error is not None else attempt.stacks_of(rank)
    if attempt.flight is not None and attempt.flight.kind is FlightKind.MISMATCH:
        text = "called another operation than most ranks, or with other shapes or types"
        return RankFailureKind(Category.RUNTIME_ERROR, text, stacks, rule="run_mismatch")
    if rank.is_finished:
        text = "had left its script while the others still needed it"
        return RankFailureKind(Category.RUNTIME_ERROR, text, rule="run_left_early")
    text = "took no part in what the others waited for, and recorded no error"
    return RankFailureKind(Category.HANG, text, stacks, rule="run_silent_rank")


def _describe_hang(rank: RankEvidence, role: Role, attempt: AttemptEvidence) -> RankFailureKind:
    hang = attempt.hang
    if role is Role.INITIATING and hang is not None:
        return RankFailureKind(Category.HANG, hang.what or hang.reason, attempt.stacks_of(rank))
    others = () if hang is None else hang.others
    where = next((one.report.where for one in others if one.report.rank == rank.rank), "")
    return RankFailureKind(Category.HANG, f"waited at {where}" if where else "waited")


def as_failed_rank(failed: Failed, attempt: AttemptEvidence) -> FailedRank:
    """Return the rank as it is shown."""
    rank, kind = failed.evidence, failed.kind
    rule = kind.match.rule if kind.match is not None and kind.match.rule.category is kind.category else None
    frames = user_frames(kind.text, attempt.run)
    return FailedRank(
        rank=rank.rank,
        node_rank=rank.node_rank,
        host=rank.host,
        gpu=rank.local_rank if attempt.uses_gpus else None,
        role=failed.role,
        category=kind.category,
        domain=domain_of(kind.category) if rule is None else rule.domain,
        retry=may_retry(kind.category) if rule is None else rule.retry,
        message=kind.message,
        frames=frames.shown,
        folded=frames.folded,
        exit_code=rank.exit_code,
        step=rank.progress.step if rank.progress is not None else None,
        time=rank.error.time if rank.error is not None else None,
    )


def as_failed_node(node: int, attempt: AttemptEvidence, cause: Cause | None) -> FailedRank:
    """Return a whole node that ended an attempt."""
    category = of_node(cause, attempt.resources_of(node)) or Category.UNKNOWN
    end = attempt.ends.get(node)
    return FailedRank(
        rank=None,
        node_rank=node,
        host=attempt.hosts.get(node, f"node {node}"),
        gpu=None,
        role=Role.INITIATING,
        category=category,
        domain=domain_of(category),
        retry=may_retry(category),
        message=end.reason if end is not None else "left no exit record",
        time=end.time if end is not None else None,
    )
