"""Run the points of a scaling benchmark, one after the other: each is a run like any other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import FsdpctlError
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.metrics import read_metrics
from fsdpctl.runs.store import list_runs
from fsdpctl.scaling.points import Measurement
from fsdpctl.scaling.prepare import PlannedPoint
from fsdpctl.scaling.result import ScalingPoint, measure
from fsdpctl.schema.dump import dump_yaml
from fsdpctl.verbs.explain import explain_ended
from fsdpctl.verbs.status import RunStatus, read_status
from fsdpctl.verbs.stop import cancel
from fsdpctl.verbs.submit import Request, submit
from fsdpctl.verbs.watch import watch

ReportStatus = Callable[[RunStatus], None]
_CANNOT_READ = (FsdpctlError, CodecError, OSError)


def run_point(planned: PlannedPoint, how: Measurement, report: ReportStatus) -> ScalingPoint:
    """Run one point to its end and return its result; a failure is a result, too.

    A KeyboardInterrupt ends the run before it is raised. Raise FsdpctlError if the run may still be alive: what is
    measured beside it would be wrong.
    """
    run = RunPaths.of(planned.request.plan.run_dir)
    try:
        submit(planned.request)
        for observed in watch(run):
            report(observed.status)
        return read_point(planned, how, run, observed.status)
    except KeyboardInterrupt:
        _end(run)
        raise
    except _CANNOT_READ as error:
        found = replace(planned.describe(), problem=str(error))
        if not run.root.exists():
            return found
        return replace(found, run_id=run.root.name, run_dir=str(run.root), state=_end(run))


def _end(run: RunPaths) -> State | None:
    """End a run, if it exists, and return its state. Raise FsdpctlError if it may still be alive."""
    if not run.root.exists():
        return None
    try:
        return State.CANCELLED if cancel(run) else RunFacts(run).final_state
    except _CANNOT_READ as error:
        name = run.root.name
        raise FsdpctlError(
            f"run {name} may still be alive: {error}",
            hint=f"fsdpctl cancel {name}; then the same command with --reuse",
        ) from error


def read_point(planned: PlannedPoint, how: Measurement, run: RunPaths, status: RunStatus) -> ScalingPoint:
    """Return the result of a run that has ended."""
    found = replace(planned.describe(), run_id=run.root.name, run_dir=str(run.root), state=status.state)
    if status.state is not State.SUCCEEDED or status.outcome is None:
        category, problem = _find_problem(run, status)
        return replace(found, category=category, problem=problem)
    lines = list(read_metrics(run.metrics))
    measured = measure(planned.point, planned.tokens_per_step, lines, how.steps, status.outcome.summary)
    return replace(found, measured=measured, problem="" if measured else "metrics.jsonl does not have all steps")


def find_finished(request: Request) -> RunPaths | None:
    """Return the newest run of the same job on the same profile, all keys equal, that has succeeded."""
    job, profile = dump_yaml(request.job), dump_yaml(request.profile)
    for listed in list_runs():
        if listed.record is None or listed.record.job != request.job.name:
            continue
        with suppress(OSError, CodecError):
            is_same = listed.paths.job.read_text() == job and listed.paths.profile.read_text() == profile
            if is_same and RunFacts(listed.paths).final_state is State.SUCCEEDED:
                return listed.paths
    return None


def reuse_point(planned: PlannedPoint, how: Measurement) -> ScalingPoint | None:
    """Return the result of a run of this point that has already succeeded, if there is one."""
    with suppress(*_CANNOT_READ):  # then it is measured again
        run = find_finished(planned.request)
        return read_point(planned, how, run, read_status(run)) if run is not None else None
    return None


def _find_problem(run: RunPaths, status: RunStatus) -> tuple[str | None, str]:
    """Return the category of a failure and its sentence."""
    try:
        diagnosis = explain_ended(run, status).diagnosis
    except _CANNOT_READ:
        diagnosis = None
    return (diagnosis.category, diagnosis.summary) if diagnosis is not None else (None, status.reason)
