"""The supervisor's events: one line for each action, in the attempt that it concerns.

The supervisor is the only writer, on the submitting host or inside a Slurm allocation; `status` shows the newest lines,
`logs` merges them with those of the ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.files import open_log, read_bytes
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.runs.verdict import Verdict


@dataclass(frozen=True)
class Event:
    """One action of the supervisor."""

    attempt: int
    time: float  # seconds since the epoch
    text: str


def add_event(attempt: AttemptPaths, text: str) -> None:
    """Append an event. Errors are ignored: a full disk must not stop the supervisor."""
    stamp = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    line = f"{stamp}Z {'; '.join(text.splitlines())}\n"  # in the format of the ranks' lines
    with suppress(OSError), open(open_log(attempt.events), "ab", buffering=0) as file:
        file.write(line.encode(errors="backslashreplace"))


def record_start(attempt: AttemptPaths, num_nodes: int) -> None:
    """Add the event that all agents of the attempt are up."""
    add_event(attempt, f"started on {num_nodes} node{'s' if num_nodes > 1 else ''}")


def record_verdict(attempt: AttemptPaths, verdict: Verdict) -> None:
    """Write the final verdict on an attempt: from now on the run has ended, or restarts."""
    add_event(attempt, f"{verdict.state}: {verdict.reason}{'; comes back' if verdict.restart else ''}")
    write_json(attempt.verdict, verdict)


def newest_events(run: RunPaths, count: int) -> list[Event]:
    """Return the newest events, the oldest of them first."""
    found: list[Event] = []
    for attempt in reversed(run.attempts()):
        found = [*_read(attempt), *found]
        if len(found) >= count:
            break
    return found[-count:]


def _read(attempt: AttemptPaths) -> Iterable[Event]:
    try:
        lines = read_bytes(attempt.events).decode(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        stamp, _, text = line.partition(" ")
        with suppress(ValueError):  # a line that was cut off by a full disk
            yield Event(attempt.number, datetime.fromisoformat(stamp).timestamp(), text)
