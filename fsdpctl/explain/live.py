"""What a run that is alive does now: which rank the others wait for, and since when."""

from __future__ import annotations

from fsdpctl.contract import Phase
from fsdpctl.contract.node_report import Activity, read_report
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.explain.categories import Category, Domain
from fsdpctl.explain.explanation import Confidence, Diagnosis
from fsdpctl.node.agent.overdue import age_s
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.supervise.hang import PlacedRank, describe_missing, find_hang

RECENT_S = 15.0
"""A run whose last sign of progress is younger is not reported as waiting."""


def explain_live(attempt: AttemptFacts | None, plan: LaunchPlan | None, phase: Phase, reason: str) -> Diagnosis | None:
    """Return what a living run waits for; None where it makes progress."""
    if attempt is None or plan is None or phase is not Phase.TRAINING:
        return None if phase is Phase.TRAINING else _waits(reason)
    ranks = _placed(attempt, plan)
    if (hang := find_hang(ranks, plan.hang)) is not None:
        return _hangs(hang.reason, ranks)
    if (missing := describe_missing(ranks)) is not None:
        return _hangs(missing, ranks)
    running = [rank for rank in ranks if rank.report.ended_s is None]
    if not running or min(age_s(rank.report) for rank in running) < RECENT_S:
        return None
    return _hangs(f"no rank has made progress for {min(age_s(rank.report) for rank in running):.0f} s", ranks)


def _placed(attempt: AttemptFacts, plan: LaunchPlan) -> list[PlacedRank]:
    hosts = {node.rank: node.id for node in plan.nodes}
    found = []
    for node in attempt.nodes:
        if (report := read_report(node.heartbeat)) is not None:
            host = hosts.get(node.node_rank, f"node {node.node_rank}")
            found += [PlacedRank(node.node_rank, host, rank) for rank in report.ranks]
    return found


def _waits(reason: str) -> Diagnosis:
    return Diagnosis(Category.UNKNOWN, Domain.UNKNOWN, False, Confidence.CERTAIN, reason)


def _hangs(summary: str, ranks: list[PlacedRank]) -> Diagnosis:
    places = tuple(
        f"rank {rank.report.rank} on {rank.host} {_does(rank)}" for rank in ranks if rank.report.ended_s is None
    )
    return Diagnosis(Category.HANG, Domain.UNKNOWN, False, Confidence.LIKELY, summary, evidence=places)


def _does(rank: PlacedRank) -> str:
    what = "waits for its peers" if rank.report.activity is Activity.PEERS else "is"
    where = f" at {rank.report.where}" if rank.report.where else ""
    return f"{what}{where}, no progress for {age_s(rank.report):.0f} s"
