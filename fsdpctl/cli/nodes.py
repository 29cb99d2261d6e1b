"""`fsdpctl nodes`: nodes that may be bad."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_profile, complete_suspect
from fsdpctl.cli.options import Json
from fsdpctl.cli.output import log, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.cli.shapes.nodes import SuspectNode
    from fsdpctl.verbs.nodes import Evidence

app = typer.Typer(rich_markup_mode=None, help="List nodes that may be bad, by what ended on them, and forgive them.")


@app.callback(invoke_without_command=True)
def nodes(
    context: typer.Context,
    profile: Annotated[
        str | None,
        typer.Option("--profile", "-p", help="Only nodes of this profile.", autocompletion=complete_profile),
    ] = None,
    as_json: Json = False,
) -> None:
    """List nodes that may be bad: for a day, other nodes come first. Slurm excludes them from a job."""
    if context.invoked_subcommand is not None:
        return
    from fsdpctl.verbs.nodes import read_evidence

    found = read_evidence(time.time())
    if profile is not None:
        found = _of_profile(found, profile)
    rows = as_shapes(found)
    if as_json:
        print_json(rows)
    elif not rows:
        log("no node is suspect")
    else:
        _print(rows)


@app.command()
def forgive(
    host: Annotated[str, typer.Argument(help="Name or address of a node.", autocompletion=complete_suspect)],
    as_json: Json = False,
) -> None:
    """Forget what counts against a node."""
    from fsdpctl.verbs.nodes import forgive as forget

    rows = as_shapes(forget(host))
    if as_json:
        print_json(rows)
    else:
        log(f"{host} is forgiven")


def as_shapes(found: Sequence[Evidence]) -> list[SuspectNode]:
    """Return evidence as it is listed."""
    from fsdpctl.cli.shapes.nodes import SuspectNode

    return [
        SuspectNode(
            node=one.suspect.node,
            address=one.suspect.machine,
            backend=one.suspect.backend,
            run_id=one.run_id,
            attempt=one.suspect.attempt,
            reason=one.suspect.reason,
            time=one.suspect.time,
            until=one.suspect.until,
        )
        for one in found
    ]


def _of_profile(found: Sequence[Evidence], profile: str) -> list[Evidence]:
    from fsdpctl.specs.load import load_profile

    spec = load_profile(profile)
    listed = {name for node in (*spec.nodes, *spec.spares) for name in (node.id, f"{node.address}:{node.port}")}
    mine = [one for one in found if one.suspect.backend == spec.backend.kind]
    return [one for one in mine if not listed or listed & {one.suspect.node, one.suspect.machine}]


def _print(rows: Sequence[SuspectNode]) -> None:
    from fsdpctl.cli.status import date

    cells = [(row.node, row.run_id, str(row.attempt), date(row.time), date(row.until), row.reason) for row in rows]
    print_table(("NODE", "RUN", "ATTEMPT", "WHEN", "UNTIL", "REASON"), cells)
    log("hint: fsdpctl nodes forgive NODE")
