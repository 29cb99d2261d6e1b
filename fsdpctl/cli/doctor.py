"""`fsdpctl doctor`: check every node of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_profile
from fsdpctl.cli.options import Json, TrustHosts
from fsdpctl.cli.output import log, print_json, print_table
from fsdpctl.cli.start_progress import live_report
from fsdpctl.contract import CliExit

if TYPE_CHECKING:
    from fsdpctl.cli.shapes.cluster import Doctored
    from fsdpctl.contract.benchmarks import DiskReport, NetworkReport
    from fsdpctl.doctor.examine import Examined
    from fsdpctl.specs.profile import ClusterProfile
    from fsdpctl.verbs.benchmark import Benchmarked

    Measured = tuple[Benchmarked[NetworkReport], Benchmarked[DiskReport]]


def doctor(
    profile: Annotated[
        str | None,
        typer.Argument(
            help="A cluster profile's name or path; default: as for `submit`.", autocompletion=complete_profile
        ),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", "-n", min=1, max=1024, help="Number of nodes; default: all; 2 under Slurm.")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Then measure network and disk: `bench nccl` and `bench io`.")
    ] = False,
    trust_hosts: TrustHosts = False,
    as_json: Json = False,
) -> None:
    """Check all nodes of a cluster: versions, GPUs, network, clocks, limits, disk. Exit 1 when anything failed."""
    from fsdpctl.doctor.rows import rows
    from fsdpctl.logs.ranges import fold_names
    from fsdpctl.specs.load import load_profile
    from fsdpctl.specs.search import choose_profile
    from fsdpctl.verbs.doctor import examine_cluster, trust_cluster

    spec = load_profile(choose_profile(profile)[0])
    if trust_hosts:
        trust_cluster(spec, log)
    with live_report() as report:
        examined = examine_cluster(spec, nodes, report)
    if not as_json:
        print_table(("CHECK", "RESULT", "NODES", "REASON"), rows(examined))
    failed = [node.node for node in examined if node.has_failed]
    measured = _measure(spec, nodes, quiet=as_json) if deep and not failed else None
    if as_json:
        print_json(_as_shape(spec.name, examined, measured))
    if failed:
        log(f"not fit for a run: {fold_names(failed)}" + ("; nothing was measured" if deep else ""))
        raise typer.Exit(CliExit.FAILED)
    if measured is not None:
        _leave_measured(*measured)


def _measure(spec: ClusterProfile, nodes: int | None, *, quiet: bool) -> Measured:
    """Measure the network, then the disk, and print each."""
    from fsdpctl.cli.bench_io import DEFAULT_SIZE, print_disk
    from fsdpctl.cli.bench_nccl import print_network
    from fsdpctl.cli.benchmark_run import show_benchmark
    from fsdpctl.verbs.benchmark import parse_size, plan_disk, plan_network, run_disk, run_network

    request = plan_network(spec, nodes)
    with show_benchmark(request) as report:
        network = run_network(request, report)
    if not quiet:
        print_network(network, spec.network.gbps)
    request = plan_disk(spec, nodes, parse_size(DEFAULT_SIZE))
    with show_benchmark(request) as report:
        disk = run_disk(request, report)
    if not quiet:
        print_disk(disk, None)
    return network, disk


def _leave_measured(network: Benchmarked[NetworkReport], disk: Benchmarked[DiskReport]) -> None:
    """Raise for a benchmark that has failed, and for something slow."""
    from fsdpctl.cli.bench_nccl import has_fault
    from fsdpctl.cli.benchmark_run import leave
    from fsdpctl.cli.disk_text import differs

    is_slow = [
        network.report is not None and has_fault(network.report),
        disk.report is not None and differs(disk.report),
    ]
    leave(network, has_fault=False)
    leave(disk, has_fault=any(is_slow))


def _as_shape(profile: str, examined: Sequence[Examined], measured: Measured | None) -> Doctored:
    from fsdpctl.cli.bench_io import as_shape as as_disk
    from fsdpctl.cli.bench_nccl import as_shape as as_network
    from fsdpctl.cli.shapes.cluster import Doctored
    from fsdpctl.contract.codec import encode

    ok = not any(node.has_failed for node in examined)
    nodes = tuple(encode(node) for node in examined)
    if measured is None:
        return Doctored(profile, ok, nodes)
    return Doctored(profile, ok, nodes, as_network(measured[0]), as_disk(measured[1], None))
