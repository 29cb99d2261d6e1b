"""What the supervisor does to a run, act by act: one line each, in the attempt that the act is about.

The supervisor is the only writer, on the submitting host or inside a Slurm allocation; `status` shows the newest lines,
`logs` puts them between those of the ranks.
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
    """One act."""

    attempt: int
    time: float  # seconds since the epoch
    text: str


def add_event(attempt: AttemptPaths, text: str) -> None:
    """Write down an act. A disk that is full must not keep the supervisor from acting."""
    stamp = datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    line = f"{stamp}Z {'; '.join(text.splitlines())}\n"  # as the ranks write theirs
    with suppress(OSError), open(open_log(attempt.events), "ab", buffering=0) as file:
        file.write(line.encode(errors="backslashreplace"))


def record_start(attempt: AttemptPaths, num_nodes: int) -> None:
    """All agents of the attempt stand."""
    add_event(attempt, f"started on {num_nodes} node{'s' if num_nodes > 1 else ''}")


def record_verdict(attempt: AttemptPaths, verdict: Verdict) -> None:
    """Judge an attempt for good: from now on the run is seen as ended, or as coming back."""
    add_event(attempt, f"{verdict.state}: {verdict.reason}{'; comes back' if verdict.restart else ''}")
    write_json(attempt.verdict, verdict)


def newest_events(run: RunPaths, count: int) -> list[Event]:
    """The last acts, the oldest of them first."""
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
        with suppress(ValueError):  # a line that a full disk has cut
            yield Event(attempt.number, datetime.fromisoformat(stamp).timestamp(), text)
