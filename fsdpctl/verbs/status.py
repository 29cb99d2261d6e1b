"""The state of a run, from what its backend sees and what its directory says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fsdpctl.contract import NodeExit, State
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.notes import read_note
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.records import Outcome
from fsdpctl.launchers.base import View
from fsdpctl.launchers.table import get_launcher, is_implemented
from fsdpctl.node.ending import read_outcome
from fsdpctl.node.peers import read_end
from fsdpctl.runs.decide import judge
from fsdpctl.runs.evidence import attempt_end, last_metrics, living_agents, read_verdict, total_steps
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import Listed, read_record


@dataclass(frozen=True)
class RunStatus:
    """What `status` and `ls` show."""

    run_id: str
    job: str
    state: State
    reason: str
    attempt: int  # 0 before the first
    step: int | None
    total_steps: int | None
    metrics: dict[str, Any] | None  # the newest line of metrics.jsonl
    outcome: Outcome | None
    nodes: int
    created: float
    run_dir: str


def read_status(run: RunPaths) -> RunStatus:
    """Look at one run. Raises CodecError or OSError when its record cannot be read."""
    record = read_record(run)
    views = get_launcher(record.backend).observe([run]) if is_implemented(record.backend) else {}
    return _status(run, record, views.get(record.run_id, View("unknown")))


def read_statuses(runs: Sequence[Listed]) -> dict[str, RunStatus | str]:
    """Look at many runs with one question per backend: run id -> status, or why it cannot be read."""
    found: dict[str, RunStatus | str] = {run.run_id: run.broken or "" for run in runs if run.record is None}
    readable = [(run, run.record) for run in runs if run.record is not None]
    readable.sort(key=lambda pair: pair[1].backend)
    for backend, group in groupby(readable, key=lambda pair: pair[1].backend):
        members = list(group)
        views = get_launcher(backend).observe([run.paths for run, _ in members]) if is_implemented(backend) else {}
        for run, record in members:
            try:
                found[run.run_id] = _status(run.paths, record, views.get(run.run_id, View("unknown")))
            except (CodecError, OSError) as error:
                found[run.run_id] = str(error)
    return found


def _status(run: RunPaths, record: RunRecord, view: View) -> RunStatus:
    attempts = run.attempts()
    attempt = attempts[-1] if attempts else None
    state, reason = _state(record, attempt, view)
    metrics = last_metrics(run.metrics)
    outcome = read_outcome(attempt) if attempt else None
    return RunStatus(
        run_id=record.run_id,
        job=record.job,
        state=state,
        reason=reason,
        attempt=attempt.number if attempt else 0,
        step=outcome.step if outcome else (metrics or {}).get("step"),
        total_steps=total_steps(run),
        metrics=metrics,
        outcome=outcome,
        nodes=record.submissions[-1].nodes,
        created=record.created,
        run_dir=str(run.root),
    )


def _state(record: RunRecord, attempt: AttemptPaths | None, view: View) -> tuple[State, str]:
    if view.state == "queued":
        return State.QUEUED, view.reason or "waiting for the scheduler"
    if attempt is None:
        return (State.RUNNING, "starting") if view.state == "running" else (State.PLANNED, "created, never started")
    if living_agents(attempt):
        return State.RUNNING, _running_reason(attempt)
    if view.state == "running":
        return _between_agents(attempt)
    if not attempt.nodes():
        return State.LOST, "started, but no agent ever reported"
    verdict = read_verdict(attempt) or judge(attempt_end(attempt, record.submissions[-1].nodes))
    return verdict.state, verdict.reason


def _between_agents(attempt: AttemptPaths) -> tuple[State, str]:
    """The run is held, but no agent is alive: it begins, ends, or comes back."""
    verdict = read_verdict(attempt)
    if verdict is not None and verdict.restart:
        return State.RESTARTING, f"after attempt {attempt.number}: {verdict.reason}"
    return State.RUNNING, "ending" if any(read_end(node) for node in attempt.nodes()) else "starting"


def _running_reason(attempt: AttemptPaths) -> str:
    if (note := read_note(attempt.abort)) is not None:
        return f"ending: {note.word} {note.reason}".rstrip()
    if (note := read_note(attempt.stop)) is not None:
        return f"stopping ({note.word or 'stop file'}): saving, then leaving"
    if any((end := read_end(node)) and end.code != NodeExit.FINISHED for node in attempt.nodes()):
        return "ending"
    return "training" if attempt.number == 1 else f"training, attempt {attempt.number}"
