"""Shared by the commands that run a benchmark: their options, a live line, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsdpctl.cli.output import log
from fsdpctl.contract import CliExit, State
from fsdpctl.errors import RunFailed

if TYPE_CHECKING:
    from fsdpctl.verbs.benchmark import Benchmarked
    from fsdpctl.verbs.status import RunStatus
    from fsdpctl.verbs.submit import Request

Nodes = Annotated[
    int | None, typer.Option("--nodes", "-n", min=1, max=1024, help="Number of nodes; default: all; 2 under Slurm.")
]


@contextmanager
def show_benchmark(request: Request) -> Iterator[Callable[[RunStatus], None]]:
    """Return a function that shows the status of the run; the line is erased at the end."""
    from fsdpctl.cli.follow import LiveLine
    from fsdpctl.logs.ranges import fold_names

    plan = request.plan
    nodes = fold_names(node.id for node in plan.nodes)
    log(f"{plan.run_id} on {nodes}, {plan.procs_per_node} rank{'s' if plan.procs_per_node > 1 else ''} each")
    line = LiveLine()
    try:
        yield lambda status: line.show(f"{status.run_id}  {status.state}  {status.reason}")
    finally:
        line.erase()


def leave(done: Benchmarked[Any], *, has_fault: bool) -> None:
    """Raise for a run that has failed, and for something slow."""
    run_id = done.run.root.name
    if done.status.state is not State.SUCCEEDED:
        raise RunFailed(f"{run_id} {done.status.state}: {done.status.reason}", hint=f"fsdpctl explain {run_id}")
    log(f"from run {run_id}")
    if has_fault:
        raise typer.Exit(CliExit.FAILED)
