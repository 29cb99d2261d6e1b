"""The state of a run, from what its backend sees and what its directory says."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fsdpctl.contract import NodeExit, State
from fsdpctl.contract.codec import CodecError, find_json
from fsdpctl.contract.notes import read_note
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.records import NodeEnd, Outcome
from fsdpctl.launchers.base import View
from fsdpctl.launchers.table import get_launcher
from fsdpctl.logs.ranges import fold
from fsdpctl.runs.decide import Verdict, judge
from fsdpctl.runs.evidence import attempt_end, ended_ranks, living_agents, read_verdict, recent_metrics, total_steps
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import Listed, open_record

SPEED_STEPS = 20
"""Steps over which speed is taken."""


@dataclass(frozen=True)
class Speed:
    """How fast a run goes, over its last few steps."""

    tokens_per_s: float
    eta_s: float | None  # None where the length is unknown


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
    loss: float | None
    speed: Speed | None
    outcome: Outcome | None
    nodes: int
    created: float
    run_dir: str
    is_stranded: bool = False  # the scheduler took its nodes, and nothing but a new submission continues it


def read_status(run: RunPaths) -> RunStatus:
    """Look at one run. Raises FsdpctlError when its record cannot be read."""
    record = open_record(run)
    views = get_launcher(record.backend).observe([run])
    return _status(run, record, views.get(record.run_id, View("unknown")))


def read_statuses(runs: Sequence[Listed]) -> dict[str, RunStatus | str]:
    """Look at many runs with one question per backend: run id -> status, or why it cannot be read."""
    found: dict[str, RunStatus | str] = {run.run_id: run.broken or "" for run in runs if run.record is None}
    readable = [(run, run.record) for run in runs if run.record is not None]
    readable.sort(key=lambda pair: pair[1].backend)
    for backend, group in groupby(readable, key=lambda pair: pair[1].backend):
        members = list(group)
        views = get_launcher(backend).observe([run.paths for run, _ in members])
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
    recent = recent_metrics(run.metrics)
    newest = recent[-1] if recent else {}
    if state is State.RUNNING and attempt is not None and newest.get("attempt") == attempt.number:
        reason += describe_slow(newest)
    total = total_steps(run)
    outcome = find_json(Outcome, attempt.outcome) if attempt else None
    return RunStatus(
        run_id=record.run_id,
        job=record.job,
        state=state,
        reason=reason,
        attempt=attempt.number if attempt else 0,
        step=outcome.step if outcome is not None and outcome.status != "failed" else newest.get("step"),
        total_steps=total,
        loss=newest.get("loss"),
        speed=measure_speed(recent, total),
        outcome=outcome,
        nodes=record.submissions[-1].nodes,
        created=record.created,
        run_dir=str(run.root),
        is_stranded=not state.is_alive and _is_stranded(record, attempt, view, state),
    )


def describe_slow(line: dict[str, Any]) -> str:
    """Which ranks the others wait for at each step, as the newest line of metrics.jsonl has it."""
    slow = line.get("slow_ranks")
    if not slow or not isinstance(slow, dict):
        return ""
    return f"; slow: {', '.join(f'rank {rank} on {host}' for rank, host in slow.items())}"


def measure_speed(lines: Sequence[dict[str, Any]], total: int | None) -> Speed | None:
    """Tokens per second and time left, over the last lines of one attempt; None before its second step."""
    last = lines[-1] if lines else {}
    window = [line for line in lines[-SPEED_STEPS:] if line.get("attempt") == last.get("attempt")]
    if len(window) < 2:
        return None
    try:
        seconds = last["time"] - window[0]["time"]
        tokens_per_s = (last["tokens"] - window[0]["tokens"]) / seconds
        eta_s = (total - last["step"]) * seconds / (len(window) - 1) if total else None
    except (KeyError, TypeError, ZeroDivisionError):
        return None
    return Speed(tokens_per_s, eta_s)


def _state(record: RunRecord, attempt: AttemptPaths | None, view: View) -> tuple[State, str]:
    if view.state == "queued":
        return State.QUEUED, view.reason or "waiting for the scheduler"
    if attempt is None or (attempt.number < record.submissions[-1].first_attempt and view.state != "none"):
        return _before_the_first(view)
    if view.state == "running" and view.reason:
        return _between_agents(attempt)[0], view.reason
    if view.state != "none" and living_agents(attempt):
        return State.RUNNING, _running_reason(attempt)
    if view.state == "running" or (view.state == "unknown" and read_verdict(attempt) is None):
        state, reason = _between_agents(attempt)
        return state, view.reason or reason
    if view.is_stranded and read_verdict(attempt) is None and view.final is not None:
        return view.final, view.reason
    verdict = _verdict(attempt, record.submissions[-1].nodes)
    return _end(verdict, view)


def _is_stranded(record: RunRecord, attempt: AttemptPaths | None, view: View, state: State) -> bool:
    if state in (State.SUCCEEDED, State.CANCELLED):
        return False
    is_of_this = attempt is not None and attempt.number >= record.submissions[-1].first_attempt
    verdict = read_verdict(attempt) if attempt is not None and is_of_this else None
    return verdict.is_stranded if verdict is not None and not verdict.restart else view.is_stranded


def _before_the_first(view: View) -> tuple[State, str]:
    """No attempt of the newest submission has begun."""
    if view.state == "running":
        return State.RUNNING, "starting"
    if view.state == "unknown":
        return State.QUEUED, view.reason
    return view.final or State.PLANNED, view.reason or "created, never started"


def _verdict(attempt: AttemptPaths, nodes: int) -> Verdict:
    if (known := read_verdict(attempt)) is not None:
        return known
    if not attempt.nodes():
        return Verdict(State.LOST, "started, but no agent ever reported")
    return judge(attempt_end(attempt, nodes))


def _end(verdict: Verdict, view: View) -> tuple[State, str]:
    """The run directory knows more than the backend, but for a run that was to come back or died without a word."""
    is_open = verdict.restart or verdict.state is State.LOST
    is_cancelled = view.final is State.CANCELLED and verdict.state is not State.SUCCEEDED
    if view.final is not None and (is_open or is_cancelled):
        return view.final, view.reason
    return verdict.state, verdict.reason


def _between_agents(attempt: AttemptPaths) -> tuple[State, str]:
    """The run is held, but no agent is alive: it begins, ends, or comes back."""
    verdict = read_verdict(attempt)
    if verdict is not None and verdict.restart:
        return State.RESTARTING, f"after attempt {attempt.number}: {verdict.reason}"
    return State.RUNNING, "ending" if any(find_json(NodeEnd, node.end) for node in attempt.nodes()) else "starting"


def _running_reason(attempt: AttemptPaths) -> str:
    if (note := read_note(attempt.abort)) is not None:
        return f"ending: {note.word} {note.reason}".rstrip()
    if (note := read_note(attempt.stop)) is not None:
        return f"stopping ({note.word or 'stop file'}): saving, then leaving"
    if any((end := find_json(NodeEnd, node.end)) and end.code != NodeExit.FINISHED for node in attempt.nodes()):
        return "ending"
    if ends := ended_ranks(attempt):
        return _describe_stragglers(attempt, ends)
    return "training" if attempt.number == 1 else f"training, attempt {attempt.number}"


def _describe_stragglers(attempt: AttemptPaths, ends: Mapping[int, float]) -> str:
    """Some ranks have left their script: all is well if the others follow, and a hang if they do not."""
    staying = {rank for node in attempt.nodes() for rank in node.rank_logs()} - ends.keys()
    clock = time.strftime("%H:%M:%S", time.localtime(max(ends.values())))
    left = f"rank {fold(ends)} ended at {clock}" if len(ends) == 1 else f"ranks {fold(ends)} ended, the last at {clock}"
    return f"{left}; still running: {fold(staying)}" if staying else "ending"
