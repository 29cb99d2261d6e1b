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
    from fsdpctl.cli.shapes import Doctored
    from fsdpctl.doctor.examine import Examined


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
    if as_json:
        print_json(_as_shape(spec.name, examined))
    else:
        print_table(("CHECK", "RESULT", "NODES", "REASON"), rows(examined))
    failed = [node.node for node in examined if node.has_failed]
    if failed:
        log(f"not fit for a run: {fold_names(failed)}")
        raise typer.Exit(CliExit.FAILED)


def _as_shape(profile: str, examined: Sequence[Examined]) -> Doctored:
    from fsdpctl.cli.shapes import Doctored
    from fsdpctl.contract.codec import encode

    ok = not any(node.has_failed for node in examined)
    return Doctored(profile, ok, tuple(encode(node) for node in examined))
