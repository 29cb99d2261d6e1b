"""`fsdpctl sweep`: a job with several values of its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_job, complete_key
from fsdpctl.cli.options import Backend, Force, Json, Profile
from fsdpctl.cli.output import log, print_data, print_json, print_table
from fsdpctl.cli.spec_files import plural
from fsdpctl.contract import CliExit, State
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsdpctl.sweeps.plan import PlannedSweep, SweepRequest
    from fsdpctl.sweeps.record import SweepPaths, SweepRecord, SweptRun
    from fsdpctl.sweeps.result import Sweep


def sweep(
    job: Annotated[str, typer.Argument(help="A job's name or a path to its YAML file.", autocompletion=complete_job)],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE,...",
            help="A key of the job and its values; with one value it is the same in all runs.",
            autocompletion=complete_key,
        ),
    ] = None,
    profile: Profile = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", help="Number of nodes of each run.")] = None,
    backend: Backend = None,
    at_once: Annotated[
        int | None,
        typer.Option(
            "--at-once",
            min=1,
            metavar="K",
            help="Maximum number of runs at a time; default: all, and 1 without a scheduler.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the sweep; default: made of the job and the values.")
    ] = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the runs of this sweep with a save, and start no more.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Show the table of this sweep; start nothing.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Run a job with each combination of values, and compare the results. Exit 1 when a run has failed.

    After an interruption, a stop or a reboot the same command continues: it starts what is missing, and resumes what
    was stopped.
    """
    from fsdpctl.sweeps.plan import SweepRequest, plan_sweep
    from fsdpctl.sweeps.record import sweep_paths

    if stop and show:
        raise UsageError("--show changes nothing, and --stop does: give one of them")
    overrides = [*([f"--nodes={nodes}"] if nodes is not None else []), *(set_ or [])]
    request = SweepRequest(job, tuple(overrides), profile, tuple(backend or ()))
    paths = sweep_paths(_check_name(name)) if name is not None else None
    if paths is not None and (stop or show):  # also where its job no longer fits
        planned = None
    else:
        planned = plan_sweep(request, force=force)
        paths = paths or sweep_paths(planned.default_name)
    if stop:
        record = _stop(paths, planned)
    elif planned is None or show:
        record = _read(paths, planned)
    else:
        record = _run(paths, planned, request, at_once)
    _show(record, as_json=as_json)


def _check_name(name: str) -> str:
    from fsdpctl.schema.types import NAME

    if not NAME.fullmatch(name):
        raise UsageError(f"--name {name!r} is no name: letters, digits, '.', '_' and '-', at most 64")
    return name


def _read(paths: SweepPaths, planned: PlannedSweep | None) -> SweepRecord:
    """Return a sweep that exists, and that is the planned one if any is. Raise UsageError."""
    from fsdpctl.sweeps.record import find_record
    from fsdpctl.sweeps.run import check_same, refresh_stored

    if (record := find_record(paths)) is None:
        raise UsageError(f"there is no sweep {paths.root.name}", hint="it begins without --stop and --show")
    if planned is not None:
        check_same(record, planned)
    return refresh_stored(paths, record)


def _stop(paths: SweepPaths, planned: PlannedSweep | None) -> SweepRecord:
    from fsdpctl.sweeps.run import stop_sweep

    record = _read(paths, planned)
    stopped = stop_sweep(paths, record)
    log(f"asked {plural(len(stopped), 'run')} to save and exit; the same command without --stop continues")
    return _read(paths, planned)


def _run(paths: SweepPaths, planned: PlannedSweep, request: SweepRequest, at_once: int | None) -> SweepRecord:
    """Run the sweep to its end. On Ctrl-C its runs continue."""
    from fsdpctl.sweeps.record import STORING_S, sweep_locked
    from fsdpctl.sweeps.run import begin, prepare_missing, run_sweep

    with sweep_locked(paths, STORING_S):
        record = begin(paths, planned)
        log(f"sweep {record.name}: {plural(len(record.runs), 'run')}, profile {record.profile}")
        requests = prepare_missing(record, request)
        limit = at_once if at_once is not None else planned.default_at_once
        try:
            record = _watch(run_sweep(paths, record, requests, limit, log), record)
        except KeyboardInterrupt:
            log("interrupted: what is submitted continues, nothing else starts; the same command continues the sweep")
            raise
    return record


def _watch(states: Iterable[SweepRecord], record: SweepRecord) -> SweepRecord:
    from fsdpctl.cli.follow import LiveLine

    live = LiveLine()
    try:
        for record in states:
            live.show(_progress(record.runs))
    finally:
        live.erase()
    return record


def _progress(runs: Iterable[SweptRun]) -> str:
    runs = list(runs)
    alive = [run for run in runs if run.state is not None and run.state.is_alive]
    ended = sum(run.state is not None and not run.state.is_alive for run in runs)
    steps = ", ".join(f"{run.run_id} {run.step or 0}" for run in alive[:4])
    return f"{ended} of {len(runs)} ended, {len(alive)} alive{f': steps {steps}' if alive else ''}"


def _show(record: SweepRecord, *, as_json: bool) -> None:
    from fsdpctl.sweeps.result import sweep_result

    result = sweep_result(record)
    if as_json:
        print_json(result)
    else:
        _print(result)
    failed = [run.run_id for run in result.runs if run.state in (State.FAILED, State.LOST, State.CANCELLED)]
    for run_id in failed[:4]:
        log(f"hint: fsdpctl explain {run_id}; fsdpctl resume {run_id}")
    if failed:
        raise typer.Exit(CliExit.FAILED)


def _print(result: Sweep) -> None:
    keys = list(result.runs[0].values)
    head = ("RUN", *(key.rpartition(".")[2] for key in keys), "STATE", "STEP", "LOSS", "HELD-OUT", "TOKENS/S")
    print_table(head, [(run.run_id, *(run.values[key] for key in keys), *_cells(run)) for run in result.runs])
    if result.best is not None:
        print_data(f"best: {result.best}")


def _cells(run: SweptRun) -> tuple[str, ...]:
    return (
        str(run.state or "not started"),
        "-" if run.step is None else f"{run.step:,}",
        "-" if run.loss is None else f"{run.loss:.4f}",
        "-" if run.held_out_loss is None else f"{run.held_out_loss:.4f}",
        "-" if run.tokens_per_s is None else f"{run.tokens_per_s:,.0f}",
    )
