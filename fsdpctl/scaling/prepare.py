"""Plan the runs of a scaling benchmark. Nothing is created: whatever does not fit is refused before the first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.cards import Card
from fsdpctl.contract.trainer.mesh import split_batch
from fsdpctl.contract.trainer.trainer_config import Strategy, TrainerConfig
from fsdpctl.errors import UsageError
from fsdpctl.estimate.result import Fit
from fsdpctl.launch.build import IncompatibleError
from fsdpctl.launch.nodes import count_procs, describe_cluster
from fsdpctl.scaling.expect import expect
from fsdpctl.scaling.points import Measurement, Point, configure, plan_points
from fsdpctl.scaling.result import Expected, ScalingPoint
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.cards import find_profile_card
from fsdpctl.verbs.fit import find_memory_problem
from fsdpctl.verbs.submit import Request, prepare, without_notices
from fsdpctl.verbs.submit_host import runs_root_of, submit_host


@dataclass(frozen=True)
class PlannedPoint:
    """A point and the launch of its run."""

    point: Point
    request: Request
    card: Card | None  # None: ranks have no GPU, or one that is not known

    @property
    def trainer(self) -> TrainerConfig:
        assert self.request.job.trainer is not None
        return self.request.job.trainer

    @property
    def tokens_per_step(self) -> int:
        return self.trainer.batch.sequences * self.trainer.model.seq_len

    def describe(self) -> ScalingPoint:
        """Return the point before it has run."""
        micro_batch, accumulation = split_batch(self.trainer.batch, self.point.gpus)
        return ScalingPoint(
            gpus=self.point.gpus,
            nodes=self.point.nodes,
            strategy=self.point.strategy,
            micro_batch=micro_batch,
            accumulation=accumulation,
            tokens_per_step=self.tokens_per_step,
            expected=self._expect(),
        )

    def _expect(self) -> Expected | None:
        if self.card is None or self.request.plan.device != "cuda":
            return None
        return expect(self.trainer, self.point, self.card, self.request.profile.network.gbps)


def prepare_points(
    profile: ClusterProfile, job: JobSpec, gpus: Sequence[int], strategies: Sequence[Strategy], how: Measurement
) -> list[PlannedPoint]:
    """Return all points with their launches. Raise UsageError with every point that does not fit."""
    if job.trainer is None:
        raise UsageError(
            f"job {job.name} has an entrypoint of its own: bench scaling reads the metrics of the bundled trainer"
        )
    try:
        points = plan_points(gpus, strategies or [job.trainer.mesh.strategy], _procs_of_node(profile, job))
    except ValueError as error:
        raise UsageError(
            f"--gpus: {error}", hint="procs_per_node of the job or the profile is what a node has"
        ) from None
    if not how.is_strong and job.trainer.batch.micro_batch is None:
        job = _with_micro_batch(profile, job, points, how)
    card = find_profile_card(profile)
    planned, problems = [], []
    for point in points:
        try:
            request = without_notices(prepare(profile, configure(job, point, how)))
        except IncompatibleError as error:
            problems += [f"{point.label}: {problem}" for problem in error.problems]
        except ValueError as error:
            problems.append(f"{point.label}: {error}")
        else:
            memory = find_memory_problem(profile, request.job, request.plan)
            if memory is not None and memory.fit is Fit.TOO_LARGE:
                problems.append(f"{point.label}: {memory.text}; {memory.advice}")
            planned.append(PlannedPoint(point, request, card and card[0]))
    if problems:
        raise UsageError("\n".join([f"job {job.name} does not fit profile {profile.name}:", *problems]))
    return planned


def _with_micro_batch(profile: ClusterProfile, job: JobSpec, points: Sequence[Point], how: Measurement) -> JobSpec:
    """Return the job with the micro-batch that it has at its smallest points: weak scaling keeps it."""
    assert job.trainer is not None
    smallest = min(point.gpus for point in points)
    found = []
    for point in points:
        if point.gpus != smallest:
            continue
        try:
            chosen = prepare(profile, configure(job, point, replace(how, is_strong=True))).job.trainer
            assert chosen is not None
            found.append(split_batch(chosen.batch, smallest)[0])
        except (IncompatibleError, ValueError) as error:
            reasons = error.problems if isinstance(error, IncompatibleError) else [error]
            raise UsageError(
                f"job {job.name} has no trainer.batch.micro_batch, and for {point.label} none can be chosen: "
                + "; ".join(map(str, reasons)),
                hint="set trainer.batch.micro_batch, the sequences of a GPU in a step",
            ) from None
    batch = replace(job.trainer.batch, micro_batch=min(found))
    return job.model_copy(update={"trainer": replace(job.trainer, batch=batch)})


def _procs_of_node(profile: ClusterProfile, job: JobSpec) -> int:
    """Return the ranks of a node of which all GPUs are used."""
    alone = job.model_copy(update={"nodes": 1})
    runs_root = runs_root_of(profile)
    host = submit_host(profile, runs_root, job.name, Path.cwd())
    cluster = describe_cluster(profile, alone, host, str(runs_root))
    planned = get_backend(profile.backend.kind).planning.plan_backend(profile.backend, cluster)
    return max(1, count_procs(profile, alone, planned, []))
