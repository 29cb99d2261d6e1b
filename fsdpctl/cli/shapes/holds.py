"""Nodes that stay between runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ListedHold:
    """A hold."""

    name: str
    profile: str
    backend: str
    state: Literal["queued", "idle", "busy", "unknown"]  # unknown: the scheduler does not answer
    reason: str  # of the scheduler
    user: str
    num_nodes: int
    nodes: tuple[str, ...]  # their names
    job_id: str | None  # of the scheduler
    run_id: str | None  # of the run on its nodes
    since: float | None  # when the nodes were given
    ends: float | None  # when it ends, if no other run is started in it
    ends_in_s: float | None
    idle_s: float | None  # for how long no run has been on its nodes
    cost: float | None  # so far, with `price_per_gpu_hour` of the profile
    cost_per_hour: float | None


@dataclass(frozen=True)
class Released:
    """A hold that was given back."""

    name: str
