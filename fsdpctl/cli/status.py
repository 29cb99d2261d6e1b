"""`fsdpctl status` and `fsdpctl ls`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsdpctl.cli.complete import complete_job
from fsdpctl.cli.options import Json, Run
from fsdpctl.cli.output import log, print_json, print_rows, print_table
from fsdpctl.contract import State

if TYPE_CHECKING:
    from fsdpctl.runs.events import Event
    from fsdpctl.runs.store import Listed
    from fsdpctl.verbs.status import RunStatus

SHOWN_EVENTS = 4
LISTED = 20
"""Runs in a table of `ls`."""


def status(run: Run = None, as_json: Json = False) -> None:
    """Show the state of one run."""
    from fsdpctl.cli.explain_run import short_rows
    from fsdpctl.cli.follow import progress
    from fsdpctl.contract.codec import encode
    from fsdpctl.runs.events import newest_events
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.status import read_status, read_workdir

    paths = find_run(run)
    found = read_status(paths)
    events = newest_events(paths, SHOWN_EVENTS)
    if as_json:
        print_json({**as_record(found), "working_directory": read_workdir(paths), "events": encode(events)})
        return
    hosts = ", ".join(dict.fromkeys(found.hosts))
    rows = [
        ("run", f"{found.run_id} (job {found.job})"),
        ("state", f"{found.state}: {found.reason}"),
        *short_rows(paths, found),
        ("attempt", str(found.attempt)),
        ("progress", (progress(found) or _describe_begin(found)) + _describe_age(found.last_progress_s)),
        ("nodes", f"{found.nodes}: {hosts}" if hosts else str(found.nodes)),
        *([("job id", found.job_id)] if found.job_id else []),
        ("created", _date(found.created)),
        ("directory", found.run_dir),
        ("working in", read_workdir(paths) or "unknown"),
        *(("events" if row == 0 else "", _event(event)) for row, event in enumerate(events)),
    ]
    print_rows(rows)


def ls(
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"Number of newest runs; default: {LISTED}, with --json all.")
    ] = None,
    state: Annotated[
        list[State] | None, typer.Option(case_sensitive=False, help="Only runs in this state; may be repeated.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only runs of this job.", autocompletion=complete_job)] = None,
    as_json: Json = False,
) -> None:
    """List runs, the newest at the bottom; --json lists the newest first."""
    from fsdpctl.runs.store import list_runs
    from fsdpctl.verbs.status import read_statuses

    runs = [run for run in list_runs() if job is None or (run.record is not None and run.record.job == job)]
    most = len(runs) if as_json and limit is None else limit or LISTED
    asked = runs if state else runs[:most]  # the state of a run costs more than its record
    statuses = read_statuses(asked)
    rows = [_row(run, statuses[run.run_id]) for run in asked]
    found = [row for row in rows if not state or row["state"] in state]
    if as_json:
        print_json(found[:most])
        return
    optional = [column for column in ("job_id", "hosts") if any(row.get(column) for row in found[:most])]
    columns = ("run_id", "state", "step", "nodes", *optional, "created", "reason")
    shown = [[_cell(row, column) for column in columns] for row in reversed(found[:most])]
    print_table([column.upper() for column in columns], shown)
    if len(shown) < (total := len(found) if state else len(runs)):
        log(f"the newest {len(shown)} of {total}; --limit {total} shows all")


def as_record(status: RunStatus) -> dict[str, Any]:
    """Return the object that `--json` prints for a run."""
    return {
        "run_id": status.run_id,
        "job": status.job,
        "state": str(status.state),
        "phase": str(status.phase),
        "cause": str(status.cause) if status.cause is not None else None,
        "reason": status.reason,
        "attempt": status.attempt,
        "step": status.step,
        "total_steps": status.total_steps,
        "loss": status.loss,
        "tokens_per_s": status.speed.tokens_per_s if status.speed else None,
        "eta_s": status.speed.eta_s if status.speed else None,
        "last_progress_s": status.last_progress_s,
        "nodes": status.nodes,
        "hosts": list(status.hosts),
        "job_id": status.job_id,
        "created": status.created,
        "run_dir": status.run_dir,
    }


def _describe_age(seconds: float | None) -> str:
    return f"; last sign of progress {seconds:.0f} s ago" if seconds is not None else ""


def _row(run: Listed, status: RunStatus | str) -> dict[str, Any]:
    """Return one row, also for a run that cannot be read."""
    if not isinstance(status, str):
        return as_record(status)
    broken = {"run_id": run.run_id, "job": None, "state": "BROKEN", "phase": None, "cause": None, "reason": status}
    broken |= {"step": None}
    return {**broken, "run_dir": str(run.paths.root)}


def _cell(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    if value is None or value == []:
        return "-"
    if column == "hosts":
        first, *more = dict.fromkeys(value)
        return f"{first} +{len(more)}" if more else str(first)
    if column == "created":
        return _date(value)
    if column == "step" and row.get("total_steps"):
        return f"{value}/{row['total_steps']}"
    return str(value)


def _describe_begin(status: RunStatus) -> str:
    if status.begins_at is None:
        return "no step yet"
    total = f"/{status.total_steps}" if status.total_steps else ""
    return f"step {status.begins_at}{total} before; no step of this attempt yet"


def _event(event: Event) -> str:
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time))
    return f"{clock} attempt {event.attempt}: {event.text}"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
