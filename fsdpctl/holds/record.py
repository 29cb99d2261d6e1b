"""The records of a hold."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.codec import find_json
from fsdpctl.contract.paths import HoldPaths


@dataclass(frozen=True)
class Hold:
    """`hold.json`: what was asked for."""

    name: str
    profile: str
    backend: str
    num_nodes: int
    created: float  # seconds since the epoch
    time_s: int
    idle_s: int
    gpus: int = 0  # of all its nodes
    price_per_gpu_hour: float | None = None


@dataclass(frozen=True)
class Held:
    """`held.json`: what was given."""

    since: float  # seconds since the epoch
    nodes: tuple[str, ...]  # as the profile or the scheduler names them
    machines: tuple[str, ...] = ()  # the same in every profile; empty where a scheduler keeps them from others
    job_id: str | None = None


def find_held(hold: HoldPaths) -> Held | None:
    """Return what a hold was given; None while that is nothing. Raise OSError."""
    return find_json(Held, hold.held)
