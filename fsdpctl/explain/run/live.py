"""What a run that is alive does now: what it waits for, which rank the others wait for, and since when."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.contract import Phase
from fsdpctl.contract.first_failure import describe_error
from fsdpctl.contract.node_report import Activity, read_report
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import RankError
from fsdpctl.explain.categories import Category, Domain
from fsdpctl.explain.explanation import Confidence, Diagnosis
from fsdpctl.explain.run.structured import domain_of, may_retry, of_error
from fsdpctl.logs.failure import find_root_cause
from fsdpctl.logs.sources import read_errors
from fsdpctl.node.agent.overdue import age_s
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.supervise.hang import PlacedRank, find_hang, find_missing, find_waited_for

RECENT_S = 15.0
"""A run whose last sign of progress is younger makes progress."""


def explain_live(attempt: AttemptFacts | None, plan: LaunchPlan | None, phase: Phase, reason: str) -> Diagnosis | None:
    """Return what a living run waits for; None where it makes progress."""
    if attempt is None or plan is None:
        return _waits(reason)
    if phase is Phase.STARTING:
        return _waits(reason, _missing_nodes(attempt, plan))
    if phase is not Phase.TRAINING:
        return _waits(reason)
    if (failed := find_root_cause(read_errors(attempt.paths), attempt.ends, attempt.abort)) is not None:
        return _fails(failed.first)
    ranks = _read_ranks(attempt, plan)
    why = _why_they_wait(ranks, plan)
    return (
        None
        if why is None
        else Diagnosis(Category.HANG, Domain.UNKNOWN, False, Confidence.LIKELY, why, evidence=_describe_ranks(ranks))
    )


def _why_they_wait(ranks: Sequence[PlacedRank], plan: LaunchPlan) -> str | None:
    if (hang := find_hang(ranks, plan.hang, plan.peer_timeout_s)) is not None:
        return hang.reason
    if (missing := find_missing(ranks)) is not None:
        return missing.text
    running = [rank for rank in ranks if rank.report.ended_s is None]
    ages = [age_s(rank.report) for rank in running]
    if not ages or min(ages) < RECENT_S:
        return None
    if (waited_for := find_waited_for(running, RECENT_S)) is not None:
        return waited_for.text
    return f"no rank has made progress for {min(ages):.0f} s"


def _missing_nodes(attempt: AttemptFacts, plan: LaunchPlan) -> tuple[str, ...]:
    """Return why each node has not joined yet, as text."""
    found = []
    for node in plan.nodes:
        paths = attempt.paths.node(node.rank)
        if node.rank in attempt.unreadable:
            found.append(f"node {node.rank} ({node.id}): its directory cannot be read: permission denied")
        elif not paths.agent.exists():
            found.append(f"node {node.rank} ({node.id}): its agent has not started")
        elif not paths.ready.exists():
            found.append(f"node {node.rank} ({node.id}): not ready yet; its agent runs")
    return tuple(found)


def _read_ranks(attempt: AttemptFacts, plan: LaunchPlan) -> list[PlacedRank]:
    hosts = {node.rank: node.id for node in plan.nodes}
    found = []
    for node in attempt.nodes:
        if (report := read_report(node.heartbeat)) is not None:
            host = hosts.get(node.node_rank, f"node {node.node_rank}")
            found += [PlacedRank(node.node_rank, host, rank) for rank in report.ranks]
    return found


def _describe_ranks(ranks: Sequence[PlacedRank]) -> tuple[str, ...]:
    running = [rank for rank in ranks if rank.report.ended_s is None]
    return tuple(f"rank {rank.report.rank} on {rank.host} {_does(rank)}" for rank in running)


def _does(rank: PlacedRank) -> str:
    what = "waits for its peers" if rank.report.activity is Activity.PEERS else "is"
    where = f" at {rank.report.where}" if rank.report.where else ""
    if not where and what == "is":
        return f"has made no progress for {age_s(rank.report):.0f} s"
    return f"{what}{where}, no progress for {age_s(rank.report):.0f} s"


def _fails(error: RankError) -> Diagnosis:
    """Return that a rank has failed, before the attempt has ended: its peers may still run, or wait for it."""
    category = of_error(error)
    why = f"{describe_error(error)}; the attempt has not ended yet."
    return Diagnosis(category, domain_of(category), may_retry(category), Confidence.LIKELY, why)


def _waits(reason: str, evidence: tuple[str, ...] = ()) -> Diagnosis:
    return Diagnosis(Category.UNKNOWN, Domain.UNKNOWN, False, Confidence.CERTAIN, reason, evidence=evidence)
