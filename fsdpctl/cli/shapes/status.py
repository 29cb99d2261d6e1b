"""The state of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fsdpctl.contract import Cause, Phase, State
from fsdpctl.contract.events import Event


@dataclass(frozen=True)
class ListedRun:
    """One run. `BROKEN`: its record cannot be read, and `reason` is why."""

    run_id: str
    job: str | None
    state: State | Literal["BROKEN"]
    phase: Phase | None
    cause: Cause | None  # of its end, or of its restart
    reason: str
    attempt: int | None  # 0: before the first
    step: int | None
    total_steps: int | None
    loss: float | None
    tokens_per_s: float | None  # over the last 20 steps
    eta_s: float | None  # seconds until the last step
    last_progress_s: float | None  # seconds since any rank showed progress, while it runs
    nodes: int | None
    hosts: tuple[str, ...]  # of the newest attempt, by node rank; "" where not known
    job_id: str | None  # of Slurm, also after the end
    created: float | None  # seconds since the epoch
    run_dir: str


@dataclass(frozen=True)
class ShownRun(ListedRun):
    """One run with its details."""

    last_step_s: float | None  # seconds since its newest step, while it runs
    mfu: float | None  # model FLOPs utilization of the newest step, if the metrics have it
    gpu_memory_used: int | None  # bytes, of the GPU with the least free memory
    gpu_memory_total: int | None  # bytes of the same GPU
    checkpoint: str | None  # name of the newest one
    checkpoint_age_s: float | None  # seconds; of your own script: since its checkpoint directory was changed
    progress_share: float | None  # of `elapsed_s`: from the first to the last step of each attempt
    elapsed_s: float | None  # seconds since its first start, without the time between two submissions
    ends_at: float | None  # when its last step is expected, in seconds since the epoch
    effective: float | None  # share of its time, without queue and idle, in steps and evaluations not done again
    ledger: Mapping[str, float]  # seconds of each [use of its time](restarts.md#where-the-time-was) that has any
    working_directory: str | None
    events: tuple[Event, ...]  # the newest of its supervisor
    unsent_notice: str | None  # of the newest attempt, and why
