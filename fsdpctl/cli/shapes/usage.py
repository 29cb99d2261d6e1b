"""What runs have used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class UsedAmount:
    """What runs have taken since the time of `--since`."""

    hours: float  # of their attempts, without the time between them
    process_hours: float  # the same, times the ranks
    gpu_hours: float | None  # the same on GPUs, one for each rank
    energy_kwh: float | None  # of these GPUs, as far as their counters were read
    cost: float | None  # with `price_per_gpu_hour` of the profile


@dataclass(frozen=True)
class UsedRun(UsedAmount):
    """What one run has taken."""

    run_id: str
    job: str
    user: str  # the owner of the run directory
    attempts: int  # that ran since then
    slurm_hours: float | None  # elapsed time of all of its jobs, by Slurm's accounts
    cpu_efficiency: float | None  # share of the CPU time that Slurm gave these jobs


@dataclass(frozen=True)
class ShownUsage:
    """What all runs have taken."""

    since: float
    runs: tuple[UsedRun, ...]  # the oldest first
    users: Mapping[str, UsedAmount]
    total: UsedAmount
