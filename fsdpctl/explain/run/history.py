"""The attempts of a run so far, each with its end."""

from __future__ import annotations

from fsdpctl.contract.paths import RunPaths
from fsdpctl.explain.explanation import PastAttempt
from fsdpctl.runs.evidence import read_verdict


def read_past(run: RunPaths) -> tuple[PastAttempt, ...]:
    """Return all attempts that have a verdict, the oldest first."""
    found = [(attempt.number, read_verdict(attempt)) for attempt in run.attempts()]
    return tuple(
        PastAttempt(number, verdict.state, verdict.cause, verdict.step, verdict.reason, verdict.restart)
        for number, verdict in found
        if verdict is not None
    )
