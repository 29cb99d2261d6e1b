"""When a hold ends, and what it costs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.holds.record import Held, Hold

DEFAULT_IDLE_S = 1800


@dataclass(frozen=True)
class Use:
    """What the nodes of a hold are used for."""

    run_id: str | None = None  # the run on them now
    is_ending: bool = False  # which has its verdict; only its supervisor is still there
    last_end: float = 0.0  # when the last run on them had ended, seconds since the epoch


def idle_since(held: Held, use: Use) -> float | None:
    """Return since when no run is on the nodes; None while one is."""
    return None if use.run_id is not None else max(held.since, use.last_end)


def ends_at(hold: Hold, held: Held, use: Use) -> float:
    """Return when the hold ends, if no other run is started in it: after its time, or too long without a run."""
    latest, idle = held.since + hold.time_s, idle_since(held, use)
    return latest if idle is None else min(latest, idle + hold.idle_s)


def cost(hold: Hold, seconds: float) -> float | None:
    """Return what the hold costs in that time; None without a price or without GPUs."""
    if hold.price_per_gpu_hour is None or not hold.gpus:
        return None
    return hold.price_per_gpu_hour * hold.gpus * seconds / 3600
