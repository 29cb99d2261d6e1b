"""How far a run has come: its newest step, and for a script that records none its newest checkpoint."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.metrics import newest_step
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
