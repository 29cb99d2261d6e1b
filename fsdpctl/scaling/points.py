"""The points of a scaling benchmark, and the job of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fsdpctl.contract.trainer.trainer_config import (
    BatchConfig,
    CheckpointConfig,
    EvalConfig,
    MeshConfig,
    ProfileConfig,
    Strategy,
    TrainerConfig,
)
from fsdpctl.contract.trainer.units import UnitsConfig
from fsdpctl.specs.job import JobSpec

PREFIX = "scaling-"
"""Of the names of all runs of a benchmark."""
SETTLING_STEPS = 3
"""Steps at the start, in which kernels are compiled and the allocator grows; they are not measured."""
TRACED_STEPS = 3
"""Steps at the end, which the profiler slows down; they are not measured."""
GRACE_S = 30
_NAME_LENGTH = 64


@dataclass(frozen=True)
class Point:
    """One number of GPUs, or of ranks where there are no GPUs, under one strategy."""

    gpus: int
    strategy: Strategy | None  # None: a single rank, which runs without FSDP and DDP
    nodes: int
    procs_per_node: int

    @property
    def label(self) -> str:
        return f"{self.strategy} on {self.gpus} ranks" if self.strategy else "a single rank"


@dataclass(frozen=True)
class Measurement:
    """How each point is measured."""

    steps: int  # that are measured
    is_strong: bool  # the global batch stays the same; else the micro-batch of each GPU
    time_limit_s: int  # of each run

    @property
    def total_steps(self) -> int:
        return SETTLING_STEPS + self.steps + TRACED_STEPS


def plan_points(gpus: Sequence[int], strategies: Sequence[Strategy], procs_per_node: int) -> list[Point]:
    """Return all points, those of one strategy together and the smallest first; a single rank once.

    Raise ValueError for more GPUs than a node has that are not whole nodes.
    """
    points = [_place(number, strategy, procs_per_node) for strategy in strategies for number in sorted(set(gpus))]
    return list(dict.fromkeys(points))


def _place(gpus: int, strategy: Strategy, procs_per_node: int) -> Point:
    kind = strategy if gpus > 1 else None
    if gpus <= procs_per_node:
        return Point(gpus, kind, 1, gpus)
    if gpus % procs_per_node:
        raise ValueError(f"{gpus} are more than the {procs_per_node} of a node, and not a multiple of it")
    return Point(gpus, kind, gpus // procs_per_node, procs_per_node)


def configure(job: JobSpec, point: Point, how: Measurement) -> JobSpec:
    """Return the job of one point: short, traced at its end, without checkpoints and evaluation.

    Raise ValueError where the trainer's configuration does not allow the strategy.
    """
    assert job.trainer is not None
    return job.model_copy(
        update={
            "name": _name(job.name, point),
            "nodes": point.nodes,
            "procs_per_node": point.procs_per_node,
            "trainer": _configure_trainer(job.trainer, point, how),
            "restarts": 0,
            "time_limit": how.time_limit_s,
            "grace": min(job.grace, GRACE_S),
        }
    )


def _name(job: str, point: Point) -> str:
    strategy = (point.strategy or "").strip("_").lower().replace("_", "-")
    end = f"-{point.gpus}" + (f"-{strategy}" if strategy else "")
    return f"{PREFIX}{job}"[: _NAME_LENGTH - len(end)] + end


def _configure_trainer(config: TrainerConfig, point: Point, how: Measurement) -> TrainerConfig:
    steps = how.total_steps
    return replace(
        config,
        steps=steps,
        batch=config.batch if how.is_strong else _weak_batch(config.batch.limit, point.gpus),
        mesh=_mesh(config.mesh, point.strategy or config.mesh.strategy),
        optim=replace(config.optim, warmup_steps=min(config.optim.warmup_steps, steps - 1)),
        checkpoint=CheckpointConfig(every_steps=steps, mode="none"),
        eval=EvalConfig(sequences=0),
        profile=ProfileConfig(first_step=steps - TRACED_STEPS + 1, steps=TRACED_STEPS),
        init_from=None,
        init_optimizer=False,
    )


def _weak_batch(micro_batch: int, gpus: int) -> BatchConfig:
    return BatchConfig(micro_batch=micro_batch, sequences=micro_batch * gpus)


def _mesh(mesh: MeshConfig, strategy: Strategy) -> MeshConfig:
    """Return the strategy's default mesh: `replicate` and `shard` of the job are for its own number of GPUs."""
    return MeshConfig(
        strategy=strategy,
        units=mesh.units if strategy != "DDP" else UnitsConfig(),
        prefetch=mesh.prefetch if strategy not in ("NO_SHARD", "DDP") else None,
    )
