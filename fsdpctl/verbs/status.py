"""The status of runs, for `status` and `ls`: state, progress and speed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from fsdpctl.backends.base import View
from fsdpctl.backends.table import get_backend
from fsdpctl.commands.environment import working_directory
from fsdpctl.contract import Cause, Phase, State
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.paths import RunPaths, step_of
from fsdpctl.contract.records import Outcome
from fsdpctl.errors import FsdpctlError
from fsdpctl.runs.evidence import RunFacts, read_plan
from fsdpctl.runs.metrics import recent_metrics, total_steps
from fsdpctl.runs.reports import last_progress_s
from fsdpctl.runs.store import Listed, open_record
from fsdpctl.verbs.state import derive_state, is_stranded

SPEED_STEPS = 20
"""Number of steps over which speed is measured."""


@dataclass(frozen=True)
class Speed:
    """The speed of a run over its last few steps."""

    tokens_per_s: float | None  # None if the lines have no tokens
    eta_s: float | None  # None if the length is unknown


@dataclass(frozen=True)
class RunStatus:
    """The status of one run."""

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
    is_stranded: bool = False  # the scheduler took its nodes, and only a new submission continues it
    phase: Phase = Phase.ENDED
    cause: Cause | None = None  # of its end, or of its restart
    last_progress_s: float | None = None  # since any rank made progress, while it runs
    job_id: str | None = None  # of the scheduler: of its newest job, also after the end
    hosts: tuple[str, ...] = ()  # of the newest attempt, by node rank; "" where not known
    begins_at: int | None = None  # the step that its newest attempt continues from, or had reached before it
    is_loss_finite: bool = True  # of the newest step, if it has a loss
    is_bundled_trainer: bool = False


def read_status(run: RunPaths) -> RunStatus:
    """Return the status of one run. Raise FsdpctlError if its record cannot be read."""
    facts = RunFacts(run, open_record(run))
    views = get_backend(facts.record.backend).launcher.observe([facts])
    return status_by(facts, views.get(facts.run_id, View("unknown")))


def read_workdir(run: RunPaths) -> str | None:
    """Return the working directory of the ranks; None if the plan cannot be read."""
    try:
        return working_directory(read_plan(run))
    except (CodecError, OSError):
        return None


def read_statuses(runs: Sequence[Listed], *, with_speed: bool = True) -> dict[str, RunStatus | str]:
    """Return run id -> status, or why it cannot be read. Each backend is asked once for all of its runs.

    Without the speed, which takes most of the time, a thousand runs are read in a third of a second.
    """
    found: dict[str, RunStatus | str] = {run.run_id: run.broken or "" for run in runs if run.record is None}
    readable = [RunFacts(run.paths, run.record) for run in runs if run.record is not None]
    readable.sort(key=lambda facts: facts.record.backend)
    for backend, group in groupby(readable, key=lambda facts: facts.record.backend):
        found |= _read_group(backend, list(group), SPEED_STEPS if with_speed else 1)
    return found


def _read_group(backend: str, runs: Sequence[RunFacts], steps: int) -> dict[str, RunStatus | str]:
    found: dict[str, RunStatus | str] = {}
    try:
        views = get_backend(backend).launcher.observe(runs)
    except FsdpctlError as error:  # of another version
        return {facts.run_id: error.message for facts in runs}
    for facts in runs:
        try:
            found[facts.run_id] = status_by(facts, views.get(facts.run_id, View("unknown")), steps)
        except (CodecError, OSError) as error:
            found[facts.run_id] = str(error)
    return found


def status_by(run: RunFacts, view: View, steps: int = SPEED_STEPS) -> RunStatus:
    """Return the status of a run, with its backend's view of it; its speed over so many steps."""
    found, record, attempt = derive_state(run, view), run.record, run.newest
    outcome = attempt.outcome if attempt else None
    recent = written = recent_metrics(run.paths.metrics, steps)
    if found.state.is_alive:
        number = attempt.number if attempt else 0
        present = max(number, record.submissions[-1].first_attempt)
        recent, outcome = lines_of(written, present), outcome if number == present else None
    newest = recent[-1] if recent else {}
    with_loss: dict[str, Any] = next((line for line in reversed(recent) if "loss" in line), {})
    saved = committed(run.paths.checkpoints) if written and not recent else []
    begins_at = step_of(saved[-1]) if saved else _newest_step(written) if not recent else None
    reason = found.reason
    if found.state is State.RUNNING:
        is_beginning = saved and found.phase in (Phase.STARTING, Phase.TRAINING)
        reason += f"; continues from step {begins_at}" if is_beginning else describe_slow(newest)
    if found.state is State.QUEUED and get_backend(record.backend).has_scheduler:
        reason += _describe_after(run.paths)
    total = total_steps(run.paths, written)
    return RunStatus(
        run_id=record.run_id,
        job=record.job,
        state=found.state,
        reason=reason,
        attempt=attempt.number if attempt else 0,
        step=outcome.step if outcome is not None and outcome.status != "failed" else newest.get("step"),
        total_steps=total,
        loss=with_loss.get("loss"),
        is_loss_finite="loss" not in with_loss or with_loss["loss"] is not None,
        speed=measure_speed(recent, total),
        outcome=outcome,
        nodes=record.submissions[-1].nodes,
        created=record.created,
        run_dir=str(run.paths.root),
        is_stranded=not found.state.is_alive and is_stranded(run, view, found.state),
        phase=found.phase,
        cause=found.cause,
        last_progress_s=last_progress_s(attempt) if attempt and found.state is State.RUNNING else None,
        job_id=view.job_id,
        hosts=attempt.hosts if attempt else (),
        begins_at=begins_at,
        is_bundled_trainer=run.paths.trainer_config.exists(),
    )


def lines_of(lines: Sequence[dict[str, Any]], attempt: int) -> list[dict[str, Any]]:
    """Return the lines of one attempt: an older one's may be of steps that are still to be done again. Lines without an
    attempt, from a user's script, count for all."""
    return [line for line in lines if str(line.get("attempt", attempt)) == str(attempt)]


def _describe_after(run: RunPaths) -> str:
    """Return the run that must succeed before this one, as text; empty if there is none."""
    with suppress(OSError, CodecError):
        if (after := read_plan(run).after) is not None:
            return f"; starts after run {after.run_id}"
    return ""


def _newest_step(lines: Sequence[dict[str, Any]]) -> int | None:
    """Return the step of the newest line."""
    return lines[-1].get("step") if lines else None


def describe_slow(line: dict[str, Any]) -> str:
    """Return which ranks the others wait for at each step, from the newest line of metrics.jsonl, as text."""
    slow = line.get("slow_ranks")
    if not slow or not isinstance(slow, dict):
        return ""
    return f"; slow: {', '.join(f'rank {rank} on {host}' for rank, host in slow.items())}"


def measure_speed(lines: Sequence[dict[str, Any]], total: int | None) -> Speed | None:
    """Return tokens per second and time left over the last lines of one attempt; None before its second line. The time
    left is None if the run has already done more steps than its new length."""
    last = lines[-1] if lines else {}
    window = [line for line in lines[-SPEED_STEPS:] if line.get("attempt") == last.get("attempt")]
    if len(window) < 2:
        return None
    try:
        seconds = sum(_line_times(window))
        left = total - last["step"] if total else -1
        eta_s = left * seconds / (last["step"] - window[0]["step"]) if left >= 0 else None
        has_tokens = "tokens" in last and "tokens" in window[0]
        speed = (last["tokens"] - window[0]["tokens"]) / seconds if has_tokens else None
        return Speed(speed, eta_s) if speed is not None or eta_s is not None else None
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def step_times(window: Sequence[dict[str, Any]]) -> list[float]:
    """Return the seconds of a step for each line but the first, whose step also compiles. A line of a user's script may
    come after several steps. Raise KeyError, TypeError and ZeroDivisionError."""
    steps = [after["step"] - before["step"] for before, after in pairwise(window)]
    return [float(seconds / count) for seconds, count in zip(_line_times(window), steps, strict=True)]


def _line_times(window: Sequence[dict[str, Any]]) -> list[float]:
    """Return the seconds between each two lines.

    The trainer's lines have the speed that the device measured; their times are those at which the host had queued a
    step, and the host runs ahead of a GPU. A user's script may have times only.
    """
    if all(line.get("tokens_per_s") for line in window[1:]):
        return [(line["tokens"] - before["tokens"]) / line["tokens_per_s"] for before, line in pairwise(window)]
    return [float(line["time"] - before["time"]) for before, line in pairwise(window)]
