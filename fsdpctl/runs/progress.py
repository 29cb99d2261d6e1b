"""How far a run has come, and how long its first step took: from metrics.jsonl and the checkpoint directory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fsdpctl.contract.codec import find_json
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.runs.attempt_time import last_alive
from fsdpctl.runs.evidence import AttemptFacts, RunFacts
from fsdpctl.runs.metrics import attempt_spans, newest_step, read_metrics
from fsdpctl.runs.verdict import Verdict

SAVE_LEVELS = 3
"""How deep in the checkpoint directory a script may save: one that replaces the same file changes no directory."""


def with_progress(verdict: Verdict, run: RunPaths) -> Verdict:
    """Return a verdict with the progress of the run up to now."""
    step, step_time = newest_step(run)
    saved = 0.0 if step or run.trainer_config.exists() else newest_save(run, SAVE_LEVELS)
    return replace(verdict, step=step, saved=saved, step_time=step_time)


def newest_save(run: RunPaths, levels: int = 1) -> float:
    """Return when the checkpoint directory, or something in its upper `levels`, was last changed; 0.0 before the first
    save."""
    return max(_changes(run.checkpoints, levels), default=0.0)


def _changes(path: Path, levels: int) -> Iterator[float]:
    """Yield when a file or directory was last changed, and what is in it."""
    with suppress(OSError):
        yield path.stat().st_mtime
        if levels:
            for entry in path.iterdir():  # raises for a file
                yield from _changes(entry, levels - 1)


def time_to_first_step(run: RunPaths) -> float | None:
    """Return the seconds from the start of an attempt to the end of its first step, for the oldest step on record.

    None before the first step, and for a script that records neither `time` nor `attempt`.
    """
    line = next(read_metrics(run.metrics), {})
    attempt, ended = line.get("attempt"), line.get("time")
    if not isinstance(attempt, int) or not isinstance(ended, int | float):
        return None
    agent = find_json(ProcessIdentity, run.attempt(attempt).node(0).agent)
    return ended - agent.started if agent is not None else None


@dataclass(frozen=True)
class ProgressShare:
    """How much of a run's time made progress: from the first to the last step of each attempt, without what a later
    attempt did again. The rest are starts, restarts and lost work. Time between two submissions does not count."""

    share: float
    elapsed_s: float


def measure_progress_share(run: RunFacts, now: float | None) -> ProgressShare | None:
    """Return the share up to `now`, or up to the end of the run for None; None before the second step."""
    worked_s = sum(span.last - span.first for span in attempt_spans(run.paths.metrics))
    elapsed_s = sum(_submission_seconds(run, now))
    if worked_s <= 0 or elapsed_s <= 0:
        return None
    return ProgressShare(min(1.0, worked_s / elapsed_s), elapsed_s)


def _submission_seconds(run: RunFacts, now: float | None) -> Iterator[float]:
    """Yield how long each submission ran, from its first agent to its last verdict."""
    numbers = [attempt.number for attempt in run.paths.attempts()]
    firsts = [submission.first_attempt for submission in run.record.submissions]
    for first, after in zip(firsts, [*firsts[1:], math.inf], strict=True):
        own = [number for number in numbers if first <= number < after]
        agent = find_json(ProcessIdentity, run.paths.attempt(first).node(0).agent)
        if not own or agent is None:
            continue
        is_open = now is not None and after == math.inf
        ended = now if is_open else _ended(run.paths.attempt(own[-1]))
        yield max(0.0, ended - agent.started) if ended is not None else 0.0


def _ended(attempt: AttemptPaths) -> float | None:
    """Return when an attempt ended: with its verdict, or its last sign of life if that is earlier, as the job that
    follows a lost attempt writes its verdict."""
    verdict: float | None = None
    with suppress(OSError):
        verdict = attempt.verdict.stat().st_mtime
    return min(filter(None, (verdict, last_alive(AttemptFacts(attempt)))), default=None)
