"""The state of a run, derived from what its directory and this host's process table say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract import NodeExit, State
from fsdpctl.contract.codec import CodecError, read_json
from fsdpctl.contract.notes import read_note
from fsdpctl.contract.paths import AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import Outcome, ProcessIdentity
from fsdpctl.node.ending import read_outcome
from fsdpctl.node.peers import read_end
from fsdpctl.node.processes import is_alive
from fsdpctl.runs.decide import AttemptEnd, Verdict, judge
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import read_record

_TAIL_BYTES = 16_384


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


def read_status(paths: RunPaths) -> RunStatus:
    """Look at a run. Raises CodecError or OSError when its record cannot be read."""
    record = read_record(paths)
    attempts = paths.attempts()
    attempt = attempts[-1] if attempts else None
    state, reason = _state(paths, record, attempt)
    metrics = last_metrics(paths)
    outcome = read_outcome(attempt) if attempt else None
    step = metrics.get("step") if metrics else None
    return RunStatus(
        run_id=record.run_id,
        job=record.job,
        state=state,
        reason=reason,
        attempt=attempt.number if attempt else 0,
        step=outcome.step if outcome else step,
        total_steps=_total_steps(paths),
        metrics=metrics,
        outcome=outcome,
        nodes=record.submissions[-1].nodes,
        created=record.created,
        run_dir=str(paths.root),
    )


def is_running(paths: RunPaths) -> bool:
    """Whether the supervisor or any agent of the newest attempt is alive on this host."""
    attempts = paths.attempts()
    return _lives(paths.supervisor) or (bool(attempts) and bool(living_agents(attempts[-1])))


def living_agents(attempt: AttemptPaths) -> list[NodePaths]:
    return [node for node in attempt.nodes() if _lives(node.agent)]


def attempt_end(attempt: AttemptPaths, num_nodes: int) -> AttemptEnd:
    """Collect what an attempt left behind."""
    ends = {rank: end for rank in range(num_nodes) if (end := read_end(attempt.node(rank))) is not None}
    return AttemptEnd(num_nodes, ends, read_outcome(attempt), read_note(attempt.stop), read_note(attempt.abort))


def last_metrics(paths: RunPaths) -> dict[str, Any] | None:
    """The newest whole line of metrics.jsonl."""
    try:
        with open(paths.metrics, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines[:-1]):
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        if isinstance(parsed, dict):
            return parsed
    return None


def _state(paths: RunPaths, record: RunRecord, attempt: AttemptPaths | None) -> tuple[State, str]:
    supervised = _lives(paths.supervisor)
    if attempt is None:
        return (State.RUNNING, "starting") if supervised else (State.PLANNED, "created, but never started")
    living = living_agents(attempt)
    if living:
        return State.RUNNING, _running_reason(attempt)
    num_nodes = record.submissions[-1].nodes
    if supervised:
        if not attempt.nodes():
            return State.RUNNING, "starting"
        if (verdict := read_verdict(attempt)) is not None and verdict.restart:
            return State.RESTARTING, f"after attempt {attempt.number}: {verdict.reason}"
        return State.RUNNING, "ending"
    if not attempt.nodes():
        return State.LOST, "started, but no agent ever reported"
    verdict = read_verdict(attempt) or judge(attempt_end(attempt, num_nodes))
    return verdict.state, verdict.reason


def read_verdict(attempt: AttemptPaths) -> Verdict | None:
    try:
        return read_json(Verdict, attempt.verdict)
    except (FileNotFoundError, CodecError):
        return None


def _running_reason(attempt: AttemptPaths) -> str:
    if (note := read_note(attempt.abort)) is not None:
        return f"ending ({note.word} {note.reason})".replace(" )", ")")
    if (note := read_note(attempt.stop)) is not None:
        return f"stopping ({note.word or 'stop file'}): saving, then leaving"
    ended = [node for node in attempt.nodes() if (end := read_end(node)) and end.code != NodeExit.FINISHED]
    return "ending" if ended else ("training" if attempt.number == 1 else f"training, attempt {attempt.number}")


def _total_steps(paths: RunPaths) -> int | None:
    try:
        steps = json.loads(paths.trainer_config.read_text()).get("steps")
    except (OSError, ValueError):
        return None
    return steps if isinstance(steps, int) else None


def _lives(identity_file: Path) -> bool:
    try:
        return is_alive(read_json(ProcessIdentity, identity_file))
    except (FileNotFoundError, CodecError):
        return False


def read_plan(paths: RunPaths) -> LaunchPlan:
    return read_json(LaunchPlan, paths.plan)
