"""`fsdpctl report --json`: the facts of a report that other commands do not print, and its notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fsdpctl.cli.ledger_text import ledger_values
from fsdpctl.contract import Cause, State
from fsdpctl.run_report.facts import Attempt, Checkpoint, Facts, SlowRank, Steps
from fsdpctl.run_report.notes import Note, make_notes
from fsdpctl.runs.git_facts import GitFacts
from fsdpctl.runs.gpu_history import GpuUse
from fsdpctl.scaling.result import Scaling


@dataclass(frozen=True)
class ReportedRun:
    """What a run did and used."""

    run_id: str
    job: str
    profile: str
    state: State
    cause: Cause | None
    reason: str
    nodes: int
    ranks: int  # each with a GPU, where there are any
    effective: float | None  # share of the time, without queue and idle, in steps that no later attempt has done again
    ledger: Mapping[str, float]  # seconds of each use of time
    node_hours: float
    rank_hours: float
    git: GitFacts | None
    versions: Mapping[str, str]
    steps: Steps | None
    outcome: Mapping[str, float]  # what rank 0 has measured at the end
    attempts: tuple[Attempt, ...]
    gpus: tuple[GpuUse, ...]  # from samples every ten seconds
    energy_kwh: float | None  # of all GPUs
    slow_ranks: tuple[SlowRank, ...]
    checkpoints: tuple[Checkpoint, ...]
    notes: tuple[Note, ...]
    scaling: Scaling | None  # the newest result of `bench scaling` for its model on its profile, or of `--scaling`


def shape_facts(facts: Facts) -> ReportedRun:
    """Return the facts in the shape that is printed."""
    return ReportedRun(
        run_id=facts.run_id,
        job=facts.job,
        profile=facts.profile,
        state=facts.state,
        cause=facts.cause,
        reason=facts.reason,
        nodes=facts.num_nodes,
        ranks=facts.world_size,
        **ledger_values(facts.ledger),
        node_hours=facts.node_hours,
        rank_hours=facts.rank_hours,
        git=facts.code.git,
        versions=facts.code.versions,
        steps=facts.steps,
        outcome=facts.outcome,
        attempts=facts.attempts,
        gpus=facts.gpus,
        energy_kwh=facts.energy_kwh,
        slow_ranks=facts.slow_ranks,
        checkpoints=facts.checkpoints,
        notes=tuple(make_notes(facts)),
        scaling=facts.scaling,
    )
