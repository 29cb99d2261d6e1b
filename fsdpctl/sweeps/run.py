"""Start the runs of a sweep as others end, until all have ended. Runs continue without this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from fsdpctl.contract import State
from fsdpctl.errors import BusyError, NoSlotError, RefusedError, UsageError
from fsdpctl.runs.store import Listed, read_record
from fsdpctl.sweeps.array import find_obstacle, start_together
from fsdpctl.sweeps.decide import Todo, choose, todo
from fsdpctl.sweeps.plan import PlannedSweep, SweepRequest, again
from fsdpctl.sweeps.points import Point
from fsdpctl.sweeps.record import SweepPaths, SweepRecord, SweptRun, find_record, sweep_locked, write_record
from fsdpctl.sweeps.result import update
from fsdpctl.verbs.resume import resume
from fsdpctl.verbs.status import RunStatus, read_statuses
from fsdpctl.verbs.stop import stop_all
from fsdpctl.verbs.submit import Request, submit

POLL_S = 1.0


def begin(paths: SweepPaths, planned: PlannedSweep) -> SweepRecord:
    """Return the stored sweep, or store a new one; its lock is held. Raise UsageError if another one has this name."""
    record = find_record(paths)
    if record is None:
        record = planned.record(paths.root.name)
        write_record(paths, record)
    check_same(record, planned)
    paths.stop.unlink(missing_ok=True)
    return record


def check_same(record: SweepRecord, planned: PlannedSweep) -> None:
    """Raise UsageError if another sweep has this name."""
    if record.fingerprint != planned.fingerprint:
        raise UsageError(
            f"sweep {record.name} was begun with other values, another job or another profile",
            hint="give it the same ones to continue, or another --name",
        )


def prepare_missing(record: SweepRecord, request: SweepRequest) -> dict[str, Request]:
    """Return run id -> launch of the runs that do not exist: a later edit of the job file changes none of them."""
    missing = [run for run in refresh(record).runs if run.state is None]
    return {run.run_id: again(request, run.run_id, Point(run.name, run.values)) for run in missing}


def run_sweep(
    paths: SweepPaths,
    record: SweepRecord,
    requests: Mapping[str, Request],
    at_once: int | None,
    report: Callable[[str], None],
) -> Iterator[SweepRecord]:
    """Yield the sweep again and again until all of its runs have ended, or no further one may start; its lock is held.

    `requests`: of `prepare_missing`. `report` gets a line for each start and each end. Raise FsdpctlError if a run
    cannot be started.
    """
    record = refresh(record)
    write_record(paths, record)  # what has ended while no command was there
    stopped = {run.run_id for run in record.runs if run.state is State.STOPPED}
    if not paths.stop.exists() and (started := _start_as_array(record, stopped, requests, at_once, report)):
        _stop_if_asked(paths, record, started)
        stopped.clear()
        record = refresh(record)
        write_record(paths, record)
    while True:
        if may_start := not paths.stop.exists():
            for number in choose(_todos(record, stopped), at_once):
                run = record.runs[number]
                if paths.stop.exists() or not _start(record, run, requests, report):
                    break
                _stop_if_asked(paths, record, [run])
                stopped.discard(run.run_id)
        before, record = record, refresh(record)
        if [run.state for run in before.runs] != [run.state for run in record.runs]:
            write_record(paths, record)
            _report_ends(before, record, report)
        yield record
        left = _todos(record, stopped)
        if Todo.WAIT not in left and not (may_start and {Todo.SUBMIT, Todo.RESUME} & {*left}):
            return
        time.sleep(POLL_S)


def refresh_stored(paths: SweepPaths, record: SweepRecord) -> SweepRecord:
    """Return the stored sweep with what is known of its runs now, and store that: `gc` may remove the runs.

    A command that is at work on the sweep stores it itself. The lock is not held while runs are looked up, which may
    take seconds: a command that begins to work on the sweep must not find it busy.
    """
    stored = find_record(paths) or record
    record = refresh(stored)
    with suppress(BusyError, OSError), sweep_locked(paths):  # OSError: on a full disk, too, it can be shown
        if find_record(paths) in (stored, None):
            write_record(paths, record)
    return record


def refresh(record: SweepRecord) -> SweepRecord:
    """Return the sweep with what is known of its runs now; a run whose directory was removed keeps its result."""
    listed = [
        Listed(run.run_id, record.paths(run), read_record(record.paths(run)))
        for run in record.runs
        if record.paths(run).record.exists()
    ]
    statuses = read_statuses(listed)
    return replace(record, runs=tuple(_refresh_one(run, statuses.get(run.run_id)) for run in record.runs))


def _refresh_one(run: SweptRun, status: RunStatus | str | None) -> SweptRun:
    if isinstance(status, RunStatus):
        return update(run, status)
    if status is None and run.state is not None and run.state.is_alive:
        return replace(run, state=State.LOST, reason="its directory is gone")
    return run


def stop_sweep(paths: SweepPaths, record: SweepRecord) -> list[str]:
    """Let no further run start, and ask those that run to save and exit. Return their ids."""
    paths.stop.touch(0o600)
    alive = [run for run in refresh(record).runs if run.state is not None and run.state.is_alive]
    stopped = stop_all(record.paths(run) for run in alive)
    return [run.run_id for run in alive if record.paths(run) in stopped]


def _stop_if_asked(paths: SweepPaths, record: SweepRecord, started: Sequence[SweptRun]) -> None:
    """Stop these runs if the sweep was stopped while they were started: `stop_sweep` may not have seen them alive."""
    if paths.stop.exists():
        stop_all(record.paths(run) for run in started)


def _todos(record: SweepRecord, stopped: set[str]) -> list[Todo]:
    return [todo(run.state, was_stopped=run.run_id in stopped) for run in record.runs]


def _start_as_array(
    record: SweepRecord,
    stopped: set[str],
    requests: Mapping[str, Request],
    at_once: int | None,
    report: Callable[[str], None],
) -> list[SweptRun]:
    """Start all runs that have not begun or were stopped as one job array; return them, none if they cannot be one."""
    todos = _todos(record, stopped)
    if (obstacle := find_obstacle(record, todos, requests, at_once)) is None:
        runs = [record.runs[number] for number in choose(todos, None)]
        try:
            array_id = start_together(record, runs, requests, at_once)
        except RefusedError as error:
            obstacle = error.message
        else:
            limit = "" if at_once is None else f", at most {at_once} at a time"
            report(f"job array {array_id}: {len(runs)} runs{limit}")
            return runs
    if obstacle:
        report(f"a job for each run, not one job array: {obstacle}")
    return []


def _start(record: SweepRecord, run: SweptRun, requests: Mapping[str, Request], report: Callable[[str], None]) -> bool:
    """Start one run; return False where the scheduler takes no more jobs until one of this sweep has ended."""
    is_new = run.state is None
    try:
        if is_new:
            submit(requests[run.run_id])
        else:
            resume(record.paths(run))
    except NoSlotError:
        if any(other.state is not None and other.state.is_alive for other in refresh(record).runs):
            return False
        raise
    except RefusedError as error:
        again = "the same command continues the sweep"
        hint = f"{error.hint}; then {again}" if error.hint else again
        raise RefusedError(f"{run.run_id} is not started: {error.message}", hint=hint) from None
    report(f"{run.run_id}  {'started' if is_new else 'resumed'}")
    return True


def _report_ends(before: SweepRecord, after: SweepRecord, report: Callable[[str], None]) -> None:
    for old, new in zip(before.runs, after.runs, strict=True):
        if new.state is not None and new.state is not old.state and not new.state.is_alive:
            report(f"{new.run_id}  {new.state}: {new.reason}")
