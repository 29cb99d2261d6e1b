"""What `status` and `ls` show of runs: their state, how far they are, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fsdpctl.backends.base import View
from fsdpctl.backends.table import get_launcher
from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError, find_json
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.paths import RunPaths, step_of
from fsdpctl.contract.records import Outcome
from fsdpctl.runs.evidence import recent_metrics, total_steps
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import Listed, open_record
from fsdpctl.verbs.state import derive_state, is_stranded

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
    return status_by(run, record, views.get(record.run_id, View("unknown")))


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
                found[run.run_id] = status_by(run.paths, record, views.get(run.run_id, View("unknown")))
            except (CodecError, OSError) as error:
                found[run.run_id] = str(error)
    return found


def status_by(run: RunPaths, record: RunRecord, view: View) -> RunStatus:
    """The status of a run of which its backend sees so much."""
    attempts = run.attempts()
    attempt = attempts[-1] if attempts else None
    state, reason = derive_state(record, attempt, view)
    outcome = find_json(Outcome, attempt.outcome) if attempt else None
    recent = written = recent_metrics(run.metrics)
    if state.is_alive:
        number = attempt.number if attempt else 0
        present = max(number, record.submissions[-1].first_attempt)
        recent, outcome = lines_of(written, present), outcome if number == present else None
    newest = recent[-1] if recent else {}
    if state is State.RUNNING:
        is_beginning = written and not recent and reason.startswith(("starting", "training"))
        reason += _describe_begin(run) if is_beginning else describe_slow(newest)
    total = total_steps(run)
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
        is_stranded=not state.is_alive and is_stranded(record, attempt, view, state),
    )


def lines_of(lines: Sequence[dict[str, Any]], attempt: int) -> list[dict[str, Any]]:
    """Those of one attempt: until it has some, an older one's may be of steps that it has yet to do again. A user's
    script need not say whose they are."""
    return [line for line in lines if str(line.get("attempt", attempt)) == str(attempt)]


def _describe_begin(run: RunPaths) -> str:
    """Where an attempt begins; nothing where that is not known here."""
    saved = committed(run.checkpoints)
    return f"; goes on from step {step_of(saved[-1])}" if saved else ""


def describe_slow(line: dict[str, Any]) -> str:
    """Which ranks the others wait for at each step, as the newest line of metrics.jsonl has it."""
    slow = line.get("slow_ranks")
    if not slow or not isinstance(slow, dict):
        return ""
    return f"; slow: {', '.join(f'rank {rank} on {host}' for rank, host in slow.items())}"


def measure_speed(lines: Sequence[dict[str, Any]], total: int | None) -> Speed | None:
    """Tokens per second and time left, over the last lines of one attempt; None before its second step. A run that was
    cut short below the steps it has done, and goes back, has no time left that its older lines could tell."""
    last = lines[-1] if lines else {}
    window = [line for line in lines[-SPEED_STEPS:] if line.get("attempt") == last.get("attempt")]
    if len(window) < 2:
        return None
    try:
        seconds = last["time"] - window[0]["time"]
        tokens_per_s = (last["tokens"] - window[0]["tokens"]) / seconds
        left = total - last["step"] if total else -1
        eta_s = left * seconds / (len(window) - 1) if left >= 0 else None
    except (KeyError, TypeError, ZeroDivisionError):
        return None
    return Speed(tokens_per_s, eta_s)
