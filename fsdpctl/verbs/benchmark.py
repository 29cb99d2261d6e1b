"""Run a benchmark as a normal run on the nodes of a profile, and read what it has measured."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from fsdpctl.backends.table import get_backend
from fsdpctl.contract import State
from fsdpctl.contract.benchmarks import DISK_BENCHMARK, NETWORK_BENCHMARK, DiskReport, NetworkReport
from fsdpctl.contract.codec import CodecError, find_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import FsdpctlError, UsageError
from fsdpctl.estimate.result import CHECKPOINT_BYTES
from fsdpctl.schema.types import format_duration
from fsdpctl.specs.job import Entrypoint, JobSpec
from fsdpctl.specs.load import load_job
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.status import RunStatus, read_status
from fsdpctl.verbs.stop import cancel
from fsdpctl.verbs.submit import Request, prepare, submit, without_notices
from fsdpctl.verbs.watch import watch

TIME_LIMIT_S = 600
"""Of the ranks; a benchmark takes a minute or two."""
PATIENCE_S = 900.0
"""For a run that has left the queue: hosts may not answer, and a supervisor waits longer for them than a user."""
GRACE_S = 5


MIN_SIZE, MAX_SIZE = 2**10, 64 * 2**30
_SIZE = re.compile(r"([0-9]{1,12})\s*([KMG]?)(i?B)?", re.IGNORECASE)

R = TypeVar("R")


@dataclass(frozen=True)
class Benchmarked(Generic[R]):
    """A benchmark that has ended: what it has measured until then, if anything."""

    run: RunPaths
    status: RunStatus
    report: R | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name of each node, by node rank."""
        hosts = self.status.hosts
        return hosts if len({*hosts} - {""}) == len(hosts) else tuple(f"node {rank}" for rank in range(len(hosts)))


def plan_network(profile: ClusterProfile, num_nodes: int | None, sizes: Sequence[int] = ()) -> Request:
    """Return the request of `bench nccl` on all nodes of a profile and its spares, or the first `num_nodes`."""
    return _plan(profile, num_nodes, "bench-nccl", NETWORK_BENCHMARK, [str(size) for size in sizes])


def plan_disk(profile: ClusterProfile, num_nodes: int | None, size: int) -> Request:
    """Return the request of `bench io`; the ranks of each node write `size` bytes together."""
    return _plan(profile, num_nodes, "bench-io", DISK_BENCHMARK, [str(size)])


def _plan(profile: ClusterProfile, num_nodes: int | None, name: str, module: str, args: Sequence[str]) -> Request:
    nodes = (*profile.nodes, *profile.spares)
    job = JobSpec(
        name=name,
        nodes=num_nodes or len(nodes) or get_backend(profile.backend.kind).doctor_nodes,
        entrypoint=Entrypoint(module=module),
        args=tuple(args),
        time_limit=format_duration(TIME_LIMIT_S),  # type: ignore[arg-type]  # read as from a file
        grace=format_duration(GRACE_S),  # type: ignore[arg-type]
        debug="off",  # its logs would cost time
    )
    return without_notices(prepare(profile.model_copy(update={"nodes": nodes, "spares": ()}), job))


def run_network(request: Request, report: Callable[[RunStatus], None]) -> Benchmarked[NetworkReport]:
    return _run(request, NetworkReport, report)


def run_disk(request: Request, report: Callable[[RunStatus], None]) -> Benchmarked[DiskReport]:
    """Run `bench io`, and remove what killed ranks have left, now and in earlier benchmarks."""
    run = RunPaths.of(request.plan.run_dir)
    try:
        return _run(request, DiskReport, report)
    finally:
        for files in run.root.parent.glob(f"bench-io-*/{run.benchmark_files.name}"):
            with suppress(FsdpctlError, CodecError, OSError):  # another one may have just ended
                if not read_status(RunPaths(files.parent)).state.is_alive:
                    shutil.rmtree(files)


def _run(request: Request, kind: type[R], report: Callable[[RunStatus], None]) -> Benchmarked[R]:
    """Submit and wait for the end. An interrupt ends the run at once, on all nodes."""
    run = RunPaths.of(request.plan.run_dir)
    try:
        submit(request)
        status = _wait(run, report)
    except BaseException:
        if run.root.exists():
            cancel(run)
        raise
    attempts = run.attempts()
    return Benchmarked(run, status, find_json(kind, attempts[-1].node(0).benchmark) if attempts else None)


def _wait(run: RunPaths, report: Callable[[RunStatus], None]) -> RunStatus:
    deadline = None
    for observed in watch(run):
        report(observed.status)
        if observed.status.state is not State.QUEUED:
            deadline = deadline or time.monotonic() + PATIENCE_S
            if time.monotonic() > deadline:
                raise FsdpctlError(
                    f"{run.root.name} has not ended within {PATIENCE_S / 60:.0f} minutes: {observed.status.reason}",
                    hint=f"it was cancelled; fsdpctl explain {run.root.name}, fsdpctl doctor",
                )
    return observed.status


def parse_sizes(text: str) -> list[int]:
    """Return the bytes of sizes like `1M,64M,1G`. Raise UsageError."""
    return [parse_size(part) for part in text.split(",")]


def parse_size(text: str) -> int:
    """Return the bytes of a size like `64M`. Raise UsageError."""
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * 2 ** {"": 0, "K": 10, "M": 20, "G": 30}[found[2].upper()] if found else 0
    if not MIN_SIZE <= size <= MAX_SIZE:
        raise UsageError(f"{text!r:.40} is no size from 1K to 64G", hint="sizes are written like 1M or 64M,1G")
    return size


def checkpoint_bytes(job: str) -> tuple[str, int]:
    """Return the name of a job and the bytes of a checkpoint of it. Raise UsageError for one with its own program."""
    spec = load_job(job)
    if spec.trainer is None:
        raise UsageError(f"job {spec.name} has a program of its own: the size of its checkpoints is not known")
    return spec.name, CHECKPOINT_BYTES * spec.trainer.model.num_parameters
