"""Evidence of a run against nodes: for a day, other runs get other nodes first."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from fsdpctl.contract.clock import MINUTE, format_time
from fsdpctl.contract.codec import CodecError, read_json, write_json
from fsdpctl.contract.paths import AttemptPaths, RunPaths

REMEMBERED_S = 86_400.0


@dataclass(frozen=True)
class Suspect:
    """A node that may be bad."""

    backend: str
    machine: str  # the same in every profile
    node: str  # as the profile or the scheduler names it
    reason: str
    attempt: int
    time: float  # seconds since the epoch

    @property
    def until(self) -> float:
        return self.time + REMEMBERED_S


def read_suspects(run: RunPaths) -> tuple[Suspect, ...]:
    """Return the evidence of a run, the oldest first; none if it cannot be read."""
    with suppress(CodecError, OSError):
        return read_json(tuple[Suspect, ...], run.suspects)
    return ()


def note_suspects(attempt: AttemptPaths, found: Iterable[Suspect]) -> None:
    """Record evidence, each node once for an attempt. Errors of the disk are ignored: no run depends on it."""
    from fsdpctl.contract.events import EventKind  # each submission reads, few write
    from fsdpctl.runs.events import add_event

    run = RunPaths(attempt.run_dir)
    known = read_suspects(run)
    seen = {(one.machine, one.attempt) for one in known}
    if not (new := [one for one in found if (one.machine, one.attempt) not in seen]):
        return
    with suppress(OSError):
        write_json(run.suspects, (*known, *new))
    for one in new:
        text = f"{one.node} is suspect until {format_time(one.until, MINUTE)}, other nodes come first: {one.reason}"
        add_event(attempt, text, EventKind.SUSPECT, host=one.node)
