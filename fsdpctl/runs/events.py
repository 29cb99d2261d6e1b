"""The supervisor's events: one for each action, in the attempt that it concerns.

The supervisor is the only writer, on the submitting host or inside a Slurm allocation; `status` shows the newest,
`logs` merges them with the lines of the ranks, `runs/timeline.py` with what other processes have recorded.
"""

from __future__ import annotations

import time
from typing import Any

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.events import Actor, Event, EventKind, read_events, write_event
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.runs.verdict import Verdict


def add_event(attempt: AttemptPaths, text: str, kind: EventKind = EventKind.NOTICE, **values: Any) -> None:
    """Append an event; `values` are other fields of it. Errors are ignored."""
    event = Event(kind, round(time.time(), 3), Actor.SUPERVISOR, text, attempt.number, **values)
    write_event(attempt.events, event)


def record_start(attempt: AttemptPaths, num_nodes: int, *, is_first: bool) -> None:
    """Add the event that all agents of the attempt are up."""
    kind = EventKind.STARTED if is_first else EventKind.RESTARTED
    add_event(attempt, f"started on {num_nodes} node{'s' if num_nodes > 1 else ''}", kind)


def record_verdict(attempt: AttemptPaths, verdict: Verdict) -> None:
    """Write the final verdict on an attempt: from now on the run has ended, or restarts."""
    write_event(attempt.events, ended(verdict, attempt, round(time.time(), 3)))
    write_json(attempt.verdict, verdict)


def ended(verdict: Verdict, attempt: AttemptPaths, time: float) -> Event:
    """Return the event of a verdict."""
    return Event(
        EventKind.ENDED,
        time,
        Actor.SUPERVISOR,
        f"{verdict.state}: {verdict.reason}{'; comes back' if verdict.restart else ''}",
        attempt.number,
        step=verdict.step,
        state=verdict.state,
        cause=verdict.cause,
        restart=verdict.restart,
    )


def supervisor_events(attempt: AttemptPaths) -> list[Event]:
    """Return the supervisor's events of one attempt, in order."""
    return [*read_events(attempt.older_events, attempt.number), *read_events(attempt.events, attempt.number)]


def notice_events(run: RunPaths) -> list[Event]:
    """Return the events of the notices that were to be sent, in order."""
    return list(read_events(run.notices))


def find_unsent(run: RunPaths, attempt: int) -> Event | None:
    """Return the newest event of a notice of this attempt that no try could send; None if all were sent."""
    failed = [event for event in notice_events(run) if event.kind is EventKind.NOTICE_FAILED]
    return next((event for event in reversed(failed) if event.attempt == attempt), None)


def newest_events(run: RunPaths, count: int) -> list[Event]:
    """Return the newest events of the supervisor, the oldest of them first."""
    found: list[Event] = []
    for attempt in reversed(run.attempts()):
        found = [*supervisor_events(attempt), *found]
        if len(found) >= count:
            break
    return found[-count:]
