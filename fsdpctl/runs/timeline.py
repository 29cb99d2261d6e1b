"""The history of a run: the events of its supervisor and ranks, joined with what other records already have.

A submission is in the run's record, a request in its control file, an older checkpoint in its manifest: none of these
is written a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fsdpctl.contract import AbortReason, StopReason
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.events import Actor, Event, EventKind, read_events
from fsdpctl.contract.formats.manifest import InvalidCheckpointError, committed, read_manifest
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.runs.events import ended, notice_events, supervisor_events
from fsdpctl.runs.evidence import AttemptFacts, RunFacts
from fsdpctl.runs.record import RunRecord

_STOPS = {StopReason.TIME: EventKind.TIME_LIMIT, StopReason.PREEMPT: EventKind.PREEMPTED}
_ABORTS = {
    AbortReason.FAULT: (EventKind.FAULT, Actor.NODE),
    AbortReason.HANG: (EventKind.HANG, Actor.SUPERVISOR),
    AbortReason.LOST: (EventKind.LOST, Actor.SUPERVISOR),
}


def read_timeline(run: RunFacts) -> list[Event]:
    """Return all events of a run by time. Raise CodecError and OSError if its record cannot be read."""
    events = [*_submissions(run.record), *notice_events(run.paths)]
    for attempt in run.paths.attempts():
        events += _events_of(attempt)
    saved = {(event.attempt, event.step) for event in events if event.kind is EventKind.SAVED}
    events += [event for event in _manifests(run.paths) if (event.attempt, event.step) not in saved]
    return sorted(events, key=lambda event: event.time)


def _submissions(record: RunRecord) -> Iterator[Event]:
    for submission in record.submissions:
        kind = EventKind.SUBMITTED if submission.kind == "submit" else EventKind.RESUMED
        text = (
            f"job {record.job}, profile {record.profile}, {submission.nodes} node{'s' if submission.nodes > 1 else ''}"
        )
        yield Event(kind, submission.time, Actor.USER, text)


def _events_of(paths: AttemptPaths) -> list[Event]:
    """Return the events of one attempt, in no order."""
    attempt = AttemptFacts(paths)
    events = supervisor_events(paths)
    known = {event.kind for event in events}
    for node in attempt.nodes:
        events += read_events(node.events, paths.number)
    events += [event for event in _requests(attempt) if event.kind not in known]
    if attempt.verdict is not None and EventKind.ENDED not in known and not paths.older_events.exists():
        events.append(ended(attempt.verdict, paths, _changed(paths.verdict)))  # its event did not fit onto a full disk
    return events


def _requests(attempt: AttemptFacts) -> Iterator[Event]:
    """Yield the requests to end the attempt, from its control files."""
    earlier = attempt.stop.earlier if attempt.stop is not None else None
    for stop in filter(None, (earlier, attempt.stop)):
        kind = next((found for reason, found in _STOPS.items() if stop.cause == reason), EventKind.STOP_REQUESTED)
        scheduler = Actor.SLURM if attempt.paths.allocation.exists() else Actor.NODE
        who = Actor.USER if stop.is_users_stop else scheduler
        yield _request(kind, who, stop, attempt.paths.stop, attempt.number)
    if (abort := attempt.abort) is not None:
        default = (EventKind.CANCEL_REQUESTED, Actor.USER)
        kind, who = next((found for reason, found in _ABORTS.items() if abort.cause == reason), default)
        yield _request(kind, who, abort, attempt.paths.abort, attempt.number)


def _request(kind: EventKind, who: Actor, request: ControlFile, path: Path, attempt: int) -> Event:
    return Event(kind, _changed(path), who, request.reason or f"the file {path.name} was created", attempt)


def _manifests(run: RunPaths) -> Iterator[Event]:
    """Yield the saves of the checkpoints that exist: a run of an older version has no other record of them."""
    for name in committed(run.checkpoints):
        try:
            manifest = read_manifest(run.checkpoints / name)
        except InvalidCheckpointError:
            continue
        time, text = manifest.time + manifest.save_s, f"{name} in {manifest.save_s:.2f} s"
        yield Event(EventKind.SAVED, time, Actor.RANK, text, manifest.attempt, rank=0, step=manifest.step)


def _changed(path: Path) -> float:
    try:
        return round(path.stat().st_mtime, 3)
    except OSError:
        return 0.0
