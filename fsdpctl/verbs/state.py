"""Derive the state of a run from its backend's view and its directory. Pure, but for the facts it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fsdpctl.backends.base import View
from fsdpctl.contract import Cause, NodeExit, Phase, State
from fsdpctl.contract.clock import format_time
from fsdpctl.logs.ranges import fold
from fsdpctl.runs.evidence import AttemptFacts, RunFacts
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.decide import end_between, judge


@dataclass(frozen=True)
class Situation:
    """The state and phase of a run: values for decisions, and a text for the user."""

    state: State
    phase: Phase
    reason: str
    cause: Cause | None = None  # of an end, or of a restart


def derive_state(run: RunFacts, view: View) -> Situation:
    """Return the state of a run, the phase within it, and the reason, with a backend that does not answer."""
    found = _derive(run, view)
    if view.state == "unknown" and view.reason and found.state.is_alive:
        return replace(found, reason=f"{found.reason}; {view.reason}")
    return found


def _derive(run: RunFacts, view: View) -> Situation:
    attempt = run.newest
    if view.state == "queued":
        return Situation(State.QUEUED, Phase.QUEUED, view.reason or "waiting for the scheduler")
    if attempt is None or (run.newest_of_submission is None and view.state != "none"):
        return _before_the_first(view)
    if view.state == "running" and view.reason:
        found = _between_agents(attempt)
        return Situation(found.state, view.phase or found.phase, view.reason, found.cause)
    if view.state != "none" and attempt.living_agents:
        return _running(attempt, is_own_script=not run.paths.trainer_config.exists())
    if view.state == "running" or (view.state == "unknown" and not attempt.is_last):
        return _between_agents(attempt)
    if view.is_stranded and attempt.verdict is None and view.final is not None:
        return Situation(view.final, Phase.ENDED, view.reason, Cause.PREEMPTION)
    return _ended(derive_verdict(attempt, run.record.submissions[-1].nodes), view, is_wanted=attempt.is_wanted)


def is_stranded(run: RunFacts, view: View, state: State) -> bool:
    """Return whether the scheduler took the run's nodes, and only a new submission continues it."""
    if state in (State.SUCCEEDED, State.CANCELLED):
        return False
    newest = run.newest_of_submission
    verdict = newest.verdict if newest is not None else None
    return verdict.is_stranded if verdict is not None and not verdict.restart else view.is_stranded


def _before_the_first(view: View) -> Situation:
    """Return the state of a run before an attempt of its newest submission has begun."""
    if view.state == "running":
        return Situation(State.RUNNING, Phase.STARTING, "starting")
    if view.state == "unknown":
        return Situation(State.QUEUED, Phase.QUEUED, "submitted")
    if view.final is not None:
        return Situation(view.final, Phase.ENDED, view.reason, Cause.UNKNOWN)
    return Situation(State.PLANNED, Phase.PLANNED, view.reason or "created, never started")


def derive_verdict(attempt: AttemptFacts, nodes: int) -> Verdict:
    """Return the verdict on an attempt that has ended, with so many nodes; where none is written, as its files have it.

    Raise OSError if one of them cannot be read.
    """
    if (known := attempt.verdict) is not None:
        requested = end_between(attempt.stop, attempt.abort) if known.restart else None
        return requested or known  # on a full disk its verdict may not be written
    if not attempt.nodes and attempt.stop is None and not attempt.is_cancelled:
        return Verdict(State.LOST, "started, but no agent ever reported", cause=Cause.LOST)
    return judge(attempt.end(nodes))


def _ended(verdict: Verdict, view: View, *, is_wanted: bool) -> Situation:
    """Return the state after the end: by the run directory, but by the backend for a restart or a lost attempt, unless
    a user had requested its end."""
    is_open = verdict.restart or (verdict.state is State.LOST and is_wanted)
    is_cancelled = view.final is State.CANCELLED and verdict.state is not State.SUCCEEDED
    if view.final is not None and (is_open or is_cancelled):
        cause = Cause.CANCEL if view.final is State.CANCELLED else verdict.cause
        return Situation(view.final, Phase.ENDED, view.reason, cause)
    if verdict.restart and view.phase is not None:
        return Situation(verdict.state, view.phase, f"{verdict.reason}; {view.reason}", verdict.cause)
    return Situation(verdict.state, Phase.ENDED, verdict.reason, verdict.cause)


def _between_agents(attempt: AttemptFacts) -> Situation:
    """Return the state of a run that has nodes but no living agent: it starts, ends, or restarts."""
    verdict = attempt.verdict
    if verdict is not None and verdict.restart:
        reason = f"after attempt {attempt.number}: {verdict.reason}"
        return Situation(State.RESTARTING, Phase.RESTARTING, reason, verdict.cause)
    phase = Phase.ENDING if attempt.ends else Phase.STARTING
    return Situation(State.RUNNING, phase, phase + attempt.full_disk)


def _running(attempt: AttemptFacts, *, is_own_script: bool) -> Situation:
    if (abort := attempt.abort) is not None:
        reason = f"ending: {abort.cause or 'abort file'} {abort.reason}".rstrip()
        return Situation(State.RUNNING, Phase.ENDING, reason)
    if (stop := attempt.stop) is not None:
        what = "the script was asked to exit, its `grace` runs" if is_own_script else "saving, then leaving"
        reason = f"stopping ({stop.cause or 'stop file'}): {what}"
        return Situation(State.RUNNING, Phase.STOPPING, reason + attempt.full_disk)
    if any(end.code != NodeExit.FINISHED for end in attempt.ends.values()):
        return Situation(State.RUNNING, Phase.ENDING, "ending")
    if attempt.rank_ends:
        return Situation(State.RUNNING, Phase.ENDING, _describe_stragglers(attempt, attempt.rank_ends))
    reason = "training" if attempt.number == 1 else f"training, attempt {attempt.number}"
    return Situation(State.RUNNING, Phase.TRAINING, reason + attempt.full_disk)


def _describe_stragglers(attempt: AttemptFacts, ends: Mapping[int, float]) -> str:
    """Return which ranks have ended and which still run: normal for a moment, a hang if it lasts."""
    running = {rank for node in attempt.nodes for rank in node.rank_logs()} - ends.keys()
    clock = format_time(max(ends.values()), "%H:%M:%S")
    ended = (
        f"rank {fold(ends)} ended at {clock}" if len(ends) == 1 else f"ranks {fold(ends)} ended, the last at {clock}"
    )
    return f"{ended}; still running: {fold(running)}" if running else "ending"
