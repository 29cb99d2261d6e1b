"""`fsdpctl bench io`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.benchmark_run import Nodes, leave, show_benchmark
from fsdpctl.cli.complete import complete_job
from fsdpctl.cli.options import Backend, Json, Profile
from fsdpctl.cli.output import print_json, print_rows, print_table

if TYPE_CHECKING:
    from fsdpctl.cli.shapes.cluster import BenchedDisk
    from fsdpctl.contract.benchmarks import DiskReport
    from fsdpctl.verbs.benchmark import Benchmarked

DEFAULT_SIZE = "1G"
Checkpoint = tuple[str, int]  # the name of a job, and the bytes of its checkpoint


def bench_io(
    profile: Profile = None,
    nodes: Nodes = None,
    size: Annotated[str, typer.Option("--size", help="What each node writes, like 256M or 4G.")] = DEFAULT_SIZE,
    job: Annotated[
        str | None,
        typer.Option("--job", help="Also print how long a checkpoint of this job takes.", autocompletion=complete_job),
    ] = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Write and read the run root from all nodes at once, and name the node that differs. Exit 1 when one does."""
    from fsdpctl.cli.disk_text import differs
    from fsdpctl.specs.load import load_profile
    from fsdpctl.specs.search import choose_profile
    from fsdpctl.verbs.benchmark import checkpoint_bytes, parse_size, plan_disk, run_disk

    num_bytes = parse_size(size)
    checkpoint = checkpoint_bytes(job) if job is not None else None
    request = plan_disk(load_profile(choose_profile(profile)[0], backend or ()), nodes, num_bytes)
    with show_benchmark(request) as report:
        done = run_disk(request, report)
    if as_json:
        print_json(as_shape(done, checkpoint))
    else:
        print_disk(done, checkpoint)
    leave(done, has_fault=done.report is not None and differs(done.report))


def print_disk(done: Benchmarked[DiskReport], checkpoint: Checkpoint | None) -> None:
    from fsdpctl.cli.disk_text import HEADER, node_rows, summary_rows

    if done.report is None:
        return
    print_table(HEADER, node_rows(done.report, done.names))
    print_rows(summary_rows(done.report, done.names, checkpoint))


def as_shape(done: Benchmarked[DiskReport], checkpoint: Checkpoint | None) -> BenchedDisk:
    from fsdpctl.cli.shapes.cluster import BenchedDisk

    size = checkpoint[1] if checkpoint is not None else None
    return BenchedDisk(done.run.root.name, str(done.run.root), done.status.state, done.names, size, done.report)
