"""`fsdpctl bench nccl`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.benchmark_run import Nodes, leave, show_benchmark
from fsdpctl.cli.options import Backend, Json, Profile
from fsdpctl.cli.output import print_json, print_rows, print_table

if TYPE_CHECKING:
    from fsdpctl.cli.shapes.cluster import BenchedNetwork
    from fsdpctl.contract.benchmarks import NetworkReport
    from fsdpctl.verbs.benchmark import Benchmarked


def nccl(
    profile: Profile = None,
    nodes: Nodes = None,
    sizes: Annotated[
        str | None,
        typer.Option("--sizes", metavar="SIZE,...", help="Like 1M,64M,1G; default: 1M to 1G, without GPUs to 16M."),
    ] = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Measure collectives over all nodes, then pairs, and name the slow node or link. Exit 1 when there is one."""
    from fsdpctl.specs.load import load_profile
    from fsdpctl.specs.search import choose_profile
    from fsdpctl.verbs.benchmark import parse_sizes, plan_network, run_network

    chosen = parse_sizes(sizes) if sizes is not None else ()
    spec = load_profile(choose_profile(profile)[0], backend or ())
    request = plan_network(spec, nodes, chosen)
    with show_benchmark(request) as report:
        done = run_network(request, report)
    if as_json:
        print_json(as_shape(done))
    else:
        print_network(done, spec.network.gbps)
    leave(done, has_fault=done.report is not None and has_fault(done.report))


def print_network(done: Benchmarked[NetworkReport], gbps: float | None) -> None:
    """Print what was measured, also of a run that has failed."""
    from fsdpctl.cli.network_text import HEADER, collective_rows, member_names, summary_rows

    if done.report is None:
        return
    if rows := collective_rows(done.report):
        print_table(HEADER, rows)
    print_rows(summary_rows(done.report, member_names(done.report, done.names), gbps))


def has_fault(report: NetworkReport) -> bool:
    from fsdpctl.contract.benchmarks import Fault

    return report.verdict is not None and report.verdict.fault is not Fault.NONE


def as_shape(done: Benchmarked[NetworkReport]) -> BenchedNetwork:
    from fsdpctl.cli.network_text import member_names
    from fsdpctl.cli.shapes.cluster import BenchedNetwork

    members = tuple(member_names(done.report, done.names)) if done.report is not None else ()
    return BenchedNetwork(done.run.root.name, str(done.run.root), done.status.state, members, done.report)
