"""The result of a scaling benchmark: what was measured at each point, and where the speed is lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

from fsdpctl.contract import State
from fsdpctl.scaling.points import SETTLING_STEPS, Point


@dataclass(frozen=True)
class Loss:
    """What the speed of a GPU loses against the smallest number of GPUs, as fractions of that speed; their sum is
    1 - efficiency. A negative one is a gain."""

    communication: float  # that no compute hides, with the waiting for other ranks
    compute: float  # it takes longer
    idle: float  # nothing runs: the host is behind, or reads data


@dataclass(frozen=True)
class Measured:
    """The speed, memory and traced time of one finished run."""

    step_s: float  # median of the measured steps
    tokens_per_s: float
    tokens_per_s_gpu: float
    mfu: float | None  # model FLOPs utilization; null: no GPU, or one whose speed is not known
    peak_memory_gib: float | None  # of the fullest rank; without GPUs, of its host memory
    compute_share: float | None  # of the traced steps of rank 0
    communication_share: float | None  # the same; a collective runs, or waits for other ranks
    exposed_communication_share: float | None  # the part of it in which nothing computes


@dataclass(frozen=True)
class Expected:
    """What `fsdpctl estimate` expects of a point."""

    tokens_per_s_gpu: float
    peak_memory_gib: float
    exposed_communication_share: float


@dataclass(frozen=True)
class ScalingPoint:
    """One number of GPUs under one strategy."""

    gpus: int  # ranks, where there are no GPUs
    nodes: int
    strategy: str | None  # null: a single rank, which runs without FSDP and DDP
    micro_batch: int  # sequences
    accumulation: int  # micro-batches of a GPU in a step
    tokens_per_step: int
    expected: Expected | None = None  # null: the kind of GPU is not known
    run_id: str | None = None  # null: not started
    run_dir: str | None = None
    state: State | None = None  # of the run; null: not started, or not known
    category: str | None = None  # of a failure
    problem: str = ""  # why nothing was measured
    measured: Measured | None = None
    efficiency: float | None = None  # speed of a GPU, of that of the smallest number of GPUs of this strategy
    lost: Loss | None = None


@dataclass(frozen=True)
class Scaling:
    """A scaling benchmark."""

    job: str
    profile: str
    device: Literal["cuda", "cpu"]
    scaling: Literal["weak", "strong"]  # weak: the micro-batch of a GPU stays the same; strong: the global batch
    steps: int  # measured at each point
    points: tuple[ScalingPoint, ...]  # those that have run
    summary: tuple[str, ...] = ()  # for each strategy, where the gap is
    ended: float = 0.0  # seconds since the epoch; 0: not known

    @property
    def compares(self) -> bool:
        """Return whether several numbers of GPUs were measured."""
        return len({point.gpus for point in self.points if point.measured is not None}) > 1


def measure(
    point: Point, tokens_per_step: int, lines: Sequence[Mapping[str, Any]], steps: int, summary: Mapping[str, float]
) -> Measured | None:
    """Return what a run has measured, from its metrics and the summary of its outcome; None without enough steps."""
    first, last = SETTLING_STEPS + 1, SETTLING_STEPS + steps
    counted = [line for line in lines if first <= line.get("step", 0) <= last]
    if len(counted) < steps:
        return None
    step_s = median(tokens_per_step / line["tokens_per_s"] for line in counted)
    utilizations = [line["mfu"] for line in counted if line.get("mfu") is not None]
    rate = tokens_per_step / step_s
    return Measured(
        step_s=step_s,
        tokens_per_s=rate,
        tokens_per_s_gpu=rate / point.gpus,
        mfu=median(utilizations) if utilizations else None,
        peak_memory_gib=summary.get("peak_memory_gib"),
        compute_share=summary.get("compute_share"),
        communication_share=summary.get("communication_share"),
        exposed_communication_share=summary.get("exposed_communication_share"),
    )


def compare(points: Sequence[ScalingPoint]) -> tuple[ScalingPoint, ...]:
    """Return the points with their efficiency, each against the smallest measured number of GPUs of its strategy."""
    return tuple(_compare(point, _baseline(point, points)) for point in points)


def _baseline(point: ScalingPoint, points: Sequence[ScalingPoint]) -> Measured | None:
    alike = [other for other in points if other.measured is not None and other.strategy in (None, point.strategy)]
    return min(alike, key=lambda other: other.gpus).measured if alike else None


def _compare(point: ScalingPoint, base: Measured | None) -> ScalingPoint:
    found = point.measured
    if found is None or base is None:
        return point
    efficiency = found.tokens_per_s_gpu / base.tokens_per_s_gpu
    return replace(point, efficiency=efficiency, lost=_divide_loss(found, base, efficiency))


def _divide_loss(found: Measured, base: Measured, efficiency: float) -> Loss | None:
    """Divide 1 - efficiency by what the GPUs do in the time of a token: the shares of both add up to 1."""
    shares, base_shares = _shares(found), _shares(base)
    if shares is None or base_shares is None:
        return None
    return Loss(*(share - efficiency * before for share, before in zip(shares, base_shares, strict=True)))


def _shares(measured: Measured) -> tuple[float, float, float] | None:
    """Return the shares of communication alone, of compute, and of idle time."""
    compute, exposed = measured.compute_share, measured.exposed_communication_share
    if compute is None or exposed is None:
        return None
    return exposed, compute, 1 - compute - exposed


def unit(device: str) -> str:
    """Return what a point counts, as a word."""
    return "GPU" if device == "cuda" else "rank"
