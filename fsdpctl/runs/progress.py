"""How far a run has come, and how long its first step took: from metrics.jsonl and the checkpoint directory."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from fsdpctl.contract.codec import find_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.runs.metrics import newest_step, read_metrics
from fsdpctl.runs.verdict import Verdict


def with_progress(verdict: Verdict, run: RunPaths) -> Verdict:
    """Return a verdict with the progress of the run up to now."""
    step = newest_step(run)
    return replace(verdict, step=step, saved=0.0 if step or run.trainer_config.exists() else newest_save(run))


def newest_save(run: RunPaths) -> float:
    """Return when the checkpoint directory, or something in it, was last changed; 0.0 before the first save."""
    times = [0.0]
    with suppress(OSError):
        times.append(run.checkpoints.stat().st_mtime)
        times += [entry.stat().st_mtime for entry in os.scandir(run.checkpoints)]
    return max(times)


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
