"""The result of a sweep, and which run is the best. Pure but for the reading of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fsdpctl.contract import State
from fsdpctl.sweeps.record import SweepRecord, SweptRun
from fsdpctl.verbs.status import RunStatus


@dataclass(frozen=True)
class Sweep:
    """A sweep: its runs, in the order in which they start."""

    name: str
    job: str
    profile: str
    runs: tuple[SweptRun, ...]
    best: str | None  # run id: the lowest held-out loss of runs that have succeeded, or loss where none has that


def sweep_result(record: SweepRecord) -> Sweep:
    return Sweep(record.name, record.job, record.profile, record.runs, find_best(record.runs))


def find_best(runs: Sequence[SweptRun]) -> str | None:
    """Return the id of the best run."""
    done = [run for run in runs if run.state is State.SUCCEEDED]
    held_out = [(loss, run.run_id) for run in done if (loss := _finite(run.held_out_loss)) is not None]
    losses = [(loss, run.run_id) for run in done if (loss := _finite(run.loss)) is not None]
    found = held_out or losses
    return min(found)[1] if found else None


def _finite(value: float | None) -> float | None:
    """Return the value; None for one that no loss is less than, and that JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


def update(run: SweptRun, status: RunStatus) -> SweptRun:
    """Return the run with what is known of it now."""
    numbers = status.outcome.summary if status.outcome is not None else {}
    speed = status.speed.tokens_per_s if status.speed is not None else None
    return replace(
        run,
        state=status.state,
        reason=status.reason,
        step=status.step,
        loss=_finite(status.loss),
        held_out_loss=_finite(numbers.get("held_out_loss")),
        tokens_per_s=speed,
    )
