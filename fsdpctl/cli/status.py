"""`fsdpctl status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fsdpctl.cli.options import Json, Run
from fsdpctl.cli.output import print_json, print_rows
from fsdpctl.contract.clock import MINUTE, format_clock, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsdpctl.contract.events import Event
    from fsdpctl.verbs.details import RunDetails
    from fsdpctl.verbs.status import RunStatus

SHOWN_EVENTS = 4


def status(run: Run = None, as_json: Json = False) -> None:
    """Show the state of one run."""
    from fsdpctl.cli.explain_run import short_rows
    from fsdpctl.cli.ledger_text import ledger_values
    from fsdpctl.cli.shapes.status import ShownRun
    from fsdpctl.cli.used_rows import read_used_rows
    from fsdpctl.runs.events import find_unsent, newest_events
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.details import read_details
    from fsdpctl.verbs.status import read_status, read_workdir

    paths = find_run(run)
    found = read_status(paths)
    details, workdir, events = read_details(paths, found), read_workdir(paths), newest_events(paths, SHOWN_EVENTS)
    unsent = find_unsent(paths, found.attempt)
    if as_json:
        values = {
            **as_record(found),
            **vars(details),
            **ledger_values(details.ledger),
            "working_directory": workdir,
            "events": tuple(events),
            "unsent_notice": unsent.text if unsent is not None else None,
        }
        print_json(ShownRun(**values))
        return
    hosts = ", ".join(dict.fromkeys(filter(None, found.hosts)))
    rows = [
        ("run", f"{found.run_id} (job {found.job})"),
        ("state", f"{found.state}: {found.reason}"),
        *short_rows(paths, found),
        ("attempt", str(found.attempt)),
        *_progress(found, details),
        *read_used_rows(paths, found, is_brief=True),
        ("nodes", f"{found.nodes}: {hosts}" if hosts else str(found.nodes)),
        *([("job id", found.job_id)] if found.job_id else []),
        ("created", date(found.created)),
        *([("notices", unsent.text)] if unsent is not None else []),
        ("directory", found.run_dir),
        ("working in", workdir or "unknown"),
        *(("events" if row == 0 else "", _event(event)) for row, event in enumerate(events)),
    ]
    print_rows(rows)


def as_record(status: RunStatus) -> dict[str, Any]:
    """Return the values of the keys that a run has in `ls --json` and `status --json`."""
    return {
        "run_id": status.run_id,
        "job": status.job,
        "state": status.state,
        "phase": status.phase,
        "cause": status.cause,
        "reason": status.reason,
        "attempt": status.attempt,
        "step": status.step,
        "total_steps": status.total_steps,
        "loss": status.loss,
        "tokens_per_s": status.speed.tokens_per_s if status.speed else None,
        "eta_s": status.speed.eta_s if status.speed else None,
        "last_progress_s": status.last_progress_s,
        "nodes": status.nodes,
        "hosts": status.hosts,
        "job_id": status.job_id,
        "created": status.created,
        "run_dir": status.run_dir,
    }


def date(seconds: float) -> str:
    """Return a time as local date and minute."""
    return format_time(seconds, MINUTE)


def _progress(status: RunStatus, details: RunDetails) -> Iterator[tuple[str, str]]:
    """Yield the rows on how far the run is, each only where something is known."""
    from fsdpctl.cli.follow import progress
    from fsdpctl.cli.ledger_text import short_row

    sign = _describe_age(status.last_progress_s)
    if details.last_step_s is None:
        yield "progress", (progress(status) or _describe_begin(status)) + sign
    else:
        yield "progress", progress(status) or f"step {status.step}"
        yield "last step", f"{describe_seconds(details.last_step_s)} ago{sign}"
    if details.ends_at is not None:
        yield "ends", f"about {date(details.ends_at)}"
    if gpu := _describe_gpu(details):
        yield "GPU", gpu
    if details.checkpoint_age_s is not None:
        name = f"{details.checkpoint}, " if details.checkpoint else "changed "
        yield "checkpoint", f"{name}{describe_seconds(details.checkpoint_age_s)} ago"
    if details.ledger is not None:
        yield short_row(details.ledger)


def describe_seconds(seconds: float) -> str:
    """Return an age: seconds up to two minutes, else as a clock."""
    return f"{seconds:.0f} s" if seconds < 120 else format_clock(seconds)


def _describe_gpu(details: RunDetails) -> str:
    parts = [f"MFU {details.mfu:.1%}"] if details.mfu is not None else []
    if details.gpu_memory_used is not None and details.gpu_memory_total is not None:
        used, total = details.gpu_memory_used / 2**30, details.gpu_memory_total / 2**30
        parts.append(f"{used:.1f} of {total:.1f} GiB used on the fullest")
    return "; ".join(parts)


def _describe_age(seconds: float | None) -> str:
    return f"; last sign of progress {seconds:.0f} s ago" if seconds is not None else ""


def _describe_begin(status: RunStatus) -> str:
    if status.begins_at is None:
        return "no step yet"
    total = f"/{status.total_steps}" if status.total_steps else ""
    return f"step {status.begins_at}{total} before; no step of this attempt yet"


def _event(event: Event) -> str:
    clock = format_time(event.time)
    return f"{clock} attempt {event.attempt}: {event.text}"
