"""Estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class EstimatedMemory:
    """The memory of one GPU at its peak, in bytes."""

    moment: str  # of a step: `loss`, `backward` or `end`
    items: Mapping[str, int]
    allocated: int  # by torch: all but context and slack
    total: int


@dataclass(frozen=True)
class EstimatedTraffic:
    """What one step sends."""

    link_bytes: int  # from each GPU to those of its node
    link_s: float
    network_bytes: int  # from each node to the others
    network_s: float
    network_is_assumed: bool  # the profile has no `network.gbps`


@dataclass(frozen=True)
class EstimatedChoice:
    """A way to train the job."""

    keys: tuple[str, ...]  # that lead there from the job as it is, for `--set`
    strategy: str
    micro_batch: int
    recompute: str
    memory: int  # bytes of each GPU
    fit: str  # `fits`, `close` or `too_large`
    step_s: float
    tokens_per_s: float
    mfu: float


@dataclass(frozen=True)
class EstimatedJob:
    """What a job needs on a cluster; sizes in bytes, times in seconds."""

    job: str
    profile: str
    gpu: str
    gpu_source: str
    gpu_memory: int
    nodes: int
    procs_per_node: int
    mesh: tuple[int, int]  # replicate, shard
    parameters: int
    micro_batch: int
    accumulation: int
    sequences: int
    tokens_per_step: int
    fit: str  # `fits`, `close` or `too_large`
    left: int  # memory of each GPU; negative: that is missing
    memory: EstimatedMemory
    textbook: Mapping[str, int]  # weights, gradients and moments alone, by what is sharded
    recommended: EstimatedChoice | None
    reasons: tuple[str, ...]
    smallest_change: EstimatedChoice | None  # with which it fits
    strategies: tuple[EstimatedChoice, ...]
    batches: tuple[EstimatedChoice, ...]
    traffic: EstimatedTraffic
    step_s: float
    compute_s: float
    exposed_s: float  # communication that is not hidden
    optimizer_s: float
    tokens_per_s: float
    mfu: float
    tokens: int  # of the whole job
    days: float
    gpu_hours: float
    cost: float | None  # with `price_per_gpu_hour`
    checkpoint_bytes: int
    checkpoint_s: float
    notes: tuple[str, ...]
