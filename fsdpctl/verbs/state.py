"""The state of a run, from what its backend sees and what its directory says."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fsdpctl.backends.base import View
from fsdpctl.contract import NodeExit, State
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.control_files import read_control_file
from fsdpctl.contract.files import describe_disk
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.logs.ranges import fold
from fsdpctl.runs.evidence import attempt_end, ended_ranks, living_agents, read_verdict
from fsdpctl.runs.record import RunRecord
from fsdpctl.supervise.decide import Verdict, end_between, judge


def derive_state(record: RunRecord, attempt: AttemptPaths | None, view: View) -> tuple[State, str]:
    """The state and the reason for it; `attempt` is the newest one."""
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


def is_stranded(record: RunRecord, attempt: AttemptPaths | None, view: View, state: State) -> bool:
    """Whether the scheduler took its nodes, and nothing but a new submission continues it."""
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
        wished = (
            end_between(read_control_file(attempt.stop), read_control_file(attempt.abort)) if known.restart else None
        )
        return wished or known  # a full disk may have taken no word of it
    if not attempt.nodes() and not attempt.stop.exists():
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
    act = "ending" if any(find_json(NodeEnd, node.end) for node in attempt.nodes()) else "starting"
    return State.RUNNING, act + describe_disk(attempt.run_dir)


def _running_reason(attempt: AttemptPaths) -> str:
    if (note := read_control_file(attempt.abort)) is not None:
        return f"ending: {note.cause or 'abort file'} {note.reason}".rstrip()
    if (note := read_control_file(attempt.stop)) is not None:
        return f"stopping ({note.cause or 'stop file'}): saving, then leaving"
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
