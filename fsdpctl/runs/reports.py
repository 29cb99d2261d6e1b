"""What the agents of an attempt report about their ranks, for readers on any host that sees the run directory."""

from __future__ import annotations

import time

from fsdpctl.contract.node_report import GpuSample, read_report
from fsdpctl.contract.paths import NodePaths
from fsdpctl.node.agent.overdue import age_s
from fsdpctl.runs.evidence import AttemptFacts

FRESH_S = 3.0
"""A younger heartbeat is as good as a new one: agents write one a second, and clocks differ."""


def newest_gpus(attempt: AttemptFacts) -> list[GpuSample]:
    """Return the GPUs of all nodes whose agents are alive, as they reported them last."""
    reports = (read_report(node.heartbeat) for node in attempt.living_agents)
    return [gpu for report in reports if report is not None for gpu in report.gpus]


def last_progress_s(attempt: AttemptFacts) -> float | None:
    """Return the seconds since any rank made progress, or showed a sign of life; None where no agent reports."""
    ages = [age for node in attempt.nodes if (age := _node_age_s(node)) is not None]
    return min(ages, default=None)


def _node_age_s(node: NodePaths) -> float | None:
    report = read_report(node.heartbeat)
    if report is None or not report.ranks:
        return None
    try:
        stale_s = time.time() - node.heartbeat.stat().st_mtime
    except OSError:
        stale_s = 0.0
    return min(age_s(rank) for rank in report.ranks) + (stale_s if stale_s > FRESH_S else 0.0)
