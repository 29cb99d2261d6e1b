"""`fsdpctl ls`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsdpctl.cli.complete import complete_job
from fsdpctl.cli.hold import log_idle_holds
from fsdpctl.cli.options import Json
from fsdpctl.cli.output import log, print_json, print_table
from fsdpctl.cli.since import parse_since
from fsdpctl.cli.status import as_record, date
from fsdpctl.contract import State

if TYPE_CHECKING:
    from fsdpctl.runs.store import Listed
    from fsdpctl.verbs.status import RunStatus

LISTED = 20
"""Runs in a table of `ls`."""


def ls(
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"Number of newest runs; default: {LISTED}, with --json all.")
    ] = None,
    state: Annotated[
        list[State] | None, typer.Option(case_sensitive=False, help="Only runs in this state; may be repeated.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only runs of this job.", autocompletion=complete_job)] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only runs created since then: 90m, 2d, 2026-11-28.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List runs, the newest at the bottom; --json lists the newest first."""
    from fsdpctl.runs.store import list_runs
    from fsdpctl.verbs.status import read_statuses

    earliest = parse_since(since) if since is not None else None
    runs = [run for run in list_runs() if _is_asked_for(run, job, earliest)]
    most = len(runs) if as_json and limit is None else limit or LISTED
    asked = runs if state else runs[:most]  # the state of a run costs more than its record
    statuses = read_statuses(asked, with_speed=as_json)
    rows = [_row(run, statuses[run.run_id]) for run in asked]
    found = [row for row in rows if not state or row["state"] in state]
    if as_json:
        _print_json(found[:most])
        return
    _print(found[:most][::-1])
    if most < (total := len(found) if state else len(runs)):
        log(f"the newest {most} of {total}; --limit {total} shows all")
    log_idle_holds()


def _is_asked_for(run: Listed, job: str | None, earliest: float | None) -> bool:
    """Return whether a run is to be listed; one whose record cannot be read is, unless a filter needs the record."""
    if run.record is None:
        return job is None and earliest is None
    return (job is None or run.record.job == job) and (earliest is None or run.record.created >= earliest)


def _row(run: Listed, status: RunStatus | str) -> dict[str, Any]:
    """Return one row, also for a run that cannot be read."""
    if not isinstance(status, str):
        return as_record(status)
    return {"run_id": run.run_id, "state": "BROKEN", "reason": status, "hosts": (), "run_dir": str(run.paths.root)}


def _print_json(rows: Sequence[dict[str, Any]]) -> None:
    from dataclasses import fields

    from fsdpctl.cli.shapes.status import ListedRun

    unknown: dict[str, Any] = {field.name: None for field in fields(ListedRun)}
    print_json([ListedRun(**{**unknown, **row}) for row in rows])


def _print(rows: Sequence[dict[str, Any]]) -> None:
    optional = [column for column in ("job_id", "hosts") if any(row.get(column) for row in rows)]
    columns = ("run_id", "state", "step", "nodes", *optional, "created", "reason")
    print_table([column.upper() for column in columns], [[_cell(row, column) for column in columns] for row in rows])


def _cell(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    if value is None or value == ():
        return "-"
    if column == "hosts":
        first, *more = dict.fromkeys(filter(None, value))
        return f"{first} +{len(more)}" if more else str(first)
    if column == "created":
        return date(value)
    if column == "step" and row.get("total_steps"):
        return f"{value}/{row['total_steps']}"
    return str(value)
