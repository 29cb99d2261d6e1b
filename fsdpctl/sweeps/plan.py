"""A launch for each run of a sweep. Nothing is created: whatever does not fit is refused before the first one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from fsdpctl.backends.table import get_backend
from fsdpctl.errors import UsageError
from fsdpctl.schema.dump import dump_yaml
from fsdpctl.specs.load import load_job
from fsdpctl.sweeps.points import Point, make_points, overrides_of, read_grid
from fsdpctl.sweeps.record import SweepRecord, SweptRun
from fsdpctl.verbs.fit import check_memory
from fsdpctl.verbs.submit import Request, read_request


@dataclass(frozen=True)
class SweepRequest:
    """What the user asks for."""

    job: str
    overrides: tuple[str, ...]  # options, and --set with one or several values
    profile: str | None
    backend: tuple[str, ...]


@dataclass(frozen=True)
class PlannedSweep:
    """All points with their launches, whose run ids are drawn."""

    job: str  # its name
    points: tuple[Point, ...]
    requests: tuple[Request, ...]
    fingerprint: str

    @property
    def default_name(self) -> str:
        """The same for the same command."""
        return f"{self.job}-{self.fingerprint[:6]}"

    @property
    def default_at_once(self) -> int | None:
        """All, where a scheduler gives each run its GPUs; else one, which has all of them."""
        return None if get_backend(self.requests[0].plan.backend).has_scheduler else 1

    def record(self, name: str) -> SweepRecord:
        """Return what is stored before the first run starts."""
        first = self.requests[0]
        pairs = zip(self.points, self.requests, strict=True)
        runs = tuple(SweptRun(point.name, request.plan.run_id, point.values) for point, request in pairs)
        runs_root = first.plan.run_dir.rpartition("/")[0]
        return SweepRecord(name, self.job, first.profile.name, self.fingerprint, runs_root, runs)


def plan_sweep(request: SweepRequest, force: bool = False) -> PlannedSweep:
    """Return the plan of all runs. Raise UsageError, also where one of them does not fit."""
    try:
        grid = read_grid(request.overrides)
    except ValueError as error:
        raise UsageError(f"--set: {error}") from None
    job = load_job(request.job, [override for override in grid.common if override.startswith("--name=")]).name
    points = make_points(job, grid)
    requests = [
        read_request(request.job, request.profile, overrides_of(point, grid), request.backend) for point in points
    ]
    for one in requests:
        check_memory(one.profile, one.job, one.plan, force=force)
    return PlannedSweep(job, tuple(points), tuple(requests), _fingerprint(requests))


def again(request: SweepRequest, run_id: str, point: Point) -> Request:
    """Return the launch of a run under an id that was drawn before."""
    grid = read_grid(request.overrides)
    return read_request(request.job, request.profile, overrides_of(point, grid), request.backend, run_id=run_id)


def _fingerprint(requests: Sequence[Request]) -> str:
    jobs = [dump_yaml(one.job) for one in requests]
    return hashlib.sha256(json.dumps([requests[0].profile.name, *jobs]).encode()).hexdigest()
