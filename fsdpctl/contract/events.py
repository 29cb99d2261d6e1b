"""One thing that happened to a run: who did it, when, and what, as values. Files of them have one JSON object per line.

Each process that records events has a file of its own: the supervisor in the directory of the attempt, a node's ranks
in that of their node.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import CodecError, decode, encode
from fsdpctl.contract.files import open_log, read_bytes

VERSION = 1
LIMIT_BYTES = 8 * 2**20
"""A file of events grows no further; what ends a run is in its other records, too."""


class EventKind(StrEnum):
    """What happened."""

    SUBMITTED = "submitted"  # by `fsdpctl submit`
    RESUMED = "resumed"  # by `fsdpctl resume`
    QUEUED = "queued"  # the text is why it waits; afterwards the scheduler's job
    STARTED = "started"  # all agents of an attempt are up
    RESTARTED = "restarted"  # as `started`, after an attempt that the supervisor did not accept as the end
    TAKEN_OVER = "taken_over"  # a new supervisor continues the attempt
    SAVED = "saved"  # a checkpoint is complete
    SLOW_RANK = "slow_rank"  # the others wait for this rank in each step
    RANK_RECOVERED = "rank_recovered"  # it is no longer slow
    WAITING = "waiting"  # the supervisor waits for hosts, or for ranks at the start
    ANSWERED = "answered"  # all hosts answer again
    HOST_REPLACED = "host_replaced"  # a spare takes the place of a failed host
    SUSPECT = "suspect"  # a node that may be bad: for a day, other nodes come first
    STOP_REQUESTED = "stop_requested"  # by a user
    CANCEL_REQUESTED = "cancel_requested"  # by a user
    TIME_LIMIT = "time_limit"  # ranks were asked to save, because the time limit is near
    PREEMPTED = "preempted"  # ranks were asked to save, because the scheduler takes the nodes
    FAULT = "fault"  # a node failed, which ends the attempt
    HANG = "hang"  # a rank makes no progress, which ends the attempt
    LOSS_SPIKE = "loss_spike"  # the loss has risen far above those before
    NON_FINITE_LOSS = "non_finite_loss"  # the first one of an attempt
    LOST = "lost"  # a node has no heartbeat any more, which ends the attempt
    ENDED = "ended"  # the verdict on an attempt
    NOTICE_SENT = "notice_sent"  # of `notify` in a profile or the settings
    NOTICE_FAILED = "notice_failed"  # no try to send it succeeded
    LEDGER = "ledger"  # the last line of `fsdpctl events`: what the time of the run was used for; in no file
    NOTICE = "notice"  # anything else, and every event of an older version


class Actor(StrEnum):
    """Who did it, or found it."""

    USER = "user"
    SUPERVISOR = "supervisor"
    NODE = "node"  # the agent of `node`
    RANK = "rank"  # the process of `rank`
    SLURM = "slurm"


@dataclass(frozen=True)
class Event:
    """One event. The text is for readers; programs use the other values, which are null where they do not apply."""

    kind: EventKind
    time: float  # seconds since the epoch
    who: Actor
    text: str = ""
    attempt: int = 0  # 0: before the first
    node: int | None = None  # node rank
    rank: int | None = None  # global rank
    host: str | None = None
    step: int | None = None
    state: State | None = None  # of the run, after `ended`
    cause: Cause | None = None  # of `ended`
    restart: bool | None = None  # whether another attempt follows `ended`
    effective: float | None = None  # of `ledger`: share of the time in steps and evaluations not done again
    ledger: Mapping[str, float] | None = None  # of `ledger`: use of time -> seconds
    v: int = VERSION


def write_event(path: Path, event: Event) -> None:
    """Append an event. Errors are ignored: a full disk must stop neither the supervisor nor a rank."""
    line = to_line(replace(event, text="; ".join(event.text.splitlines())))
    with suppress(OSError), open(open_log(path), "ab", buffering=0) as file:
        if file.tell() + len(line) <= LIMIT_BYTES:
            file.write(line.encode(errors="backslashreplace") + b"\n")


def read_events(path: Path, attempt: int | None = None) -> Iterator[Event]:
    """Yield the events in a file of this attempt, or of a whole run; none if it cannot be read."""
    with suppress(OSError):
        yield from parse_events(read_bytes(path).decode(errors="replace").splitlines(), attempt)


def parse_events(lines: Iterable[str], attempt: int | None) -> Iterator[Event]:
    """Yield the events in these lines, of any version; lines that were cut off by a full disk are skipped."""
    for line in lines:
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            event = _parse(line)
            yield event if attempt is None else replace(event, attempt=attempt)


def to_line(event: Event) -> str:
    """Return an event as a line of JSON, without the values that do not apply."""
    return json.dumps({key: value for key, value in to_json(event).items() if value is not None})


def to_json(event: Event) -> dict[str, Any]:
    """Return an event as an object, its version first."""
    values = encode(event)
    return {"v": values.pop("v"), **values}


def _parse(line: str) -> Event:
    """Return the event in a line. Raise ValueError."""
    if not line.startswith("{"):
        return _parse_text(line)
    value = json.loads(line)
    try:
        return decode(Event, value)
    except CodecError:
        if value.get("v", 0) <= VERSION:
            raise
        return Event(EventKind.NOTICE, float(value["time"]), Actor.SUPERVISOR, str(value.get("text", "")))


def _parse_text(line: str) -> Event:
    """Return the event in a line of an older version: a stamp and a text."""
    stamp, _, text = line.partition(" ")
    time = datetime.fromisoformat(stamp)
    return Event(EventKind.NOTICE, time.timestamp(), Actor.SUPERVISOR, text)


def log_line(line: str) -> str:
    """Return the event of a line as the logs of ranks show one: its time in UTC and its text."""
    event = next(parse_events([line], 0), None) if line.startswith("{") else None
    if event is None:
        return line
    stamp = datetime.fromtimestamp(event.time, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{stamp}Z {event.text}"
