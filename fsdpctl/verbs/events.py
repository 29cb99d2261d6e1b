"""events: the history of a run, and what happens to it until it has ended."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract import State
from fsdpctl.contract.events import Actor, Event, EventKind
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.store import open_record
from fsdpctl.runs.timeline import read_timeline
from fsdpctl.verbs.status import RunStatus, read_status
from fsdpctl.verbs.watch import watch


def read_events(run: RunPaths) -> list[Event]:
    """Return the events of a run so far, by time. Raise FsdpctlError if its record cannot be read."""
    return _read(run, read_status(run))


def follow_events(run: RunPaths) -> Iterator[Event]:
    """Yield the events of a run, those so far and then each new one, until the run has ended."""
    known: set[Event] = set()
    for observed in watch(run):
        for event in _read(run, observed.status):
            if event not in known:
                known.add(event)
                yield event


def _read(run: RunPaths, status: RunStatus) -> list[Event]:
    facts = RunFacts(run, open_record(run))
    return sorted([*read_timeline(facts), *_queued(facts, status)], key=lambda event: event.time)


def _queued(run: RunFacts, status: RunStatus) -> Iterator[Event]:
    """Yield that the newest submission was queued: why, while it waits; afterwards only its job is known."""
    since = run.record.submissions[-1].time
    if status.state is State.QUEUED:
        who = Actor.SLURM if status.job_id else Actor.SUPERVISOR
        job = f"job {status.job_id}: " if status.job_id else ""
        yield Event(EventKind.QUEUED, since, who, f"{job}{status.reason}")
    elif status.job_id:
        yield Event(EventKind.QUEUED, since, Actor.SLURM, f"job {status.job_id}")
