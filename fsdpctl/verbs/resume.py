"""resume: a new submission of a stored run. The trainer itself loads the newest checkpoint at every start."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from fsdpctl.backends.submit_environment import read_secrets
from fsdpctl.backends.table import get_backend
from fsdpctl.checkpoints.listing import newest_manifest
from fsdpctl.contract import SCHEMA, State
from fsdpctl.contract.byte_progress import Progress, ignore
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.formats.manifest import save_fits
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.errors import BusyError, FsdpctlError, UsageError
from fsdpctl.launch.build import IncompatibleError
from fsdpctl.launch.locate import locate_problems
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.store import locked, open_record
from fsdpctl.schema.types import format_duration
from fsdpctl.specs.load import job_document, profile_document, read_job, read_profile
from fsdpctl.verbs.refusals import check_trainer
from fsdpctl.verbs.rewind import go_back
from fsdpctl.verbs.run_code import bring_up_to_date, is_older, repair_code, replace_code
from fsdpctl.verbs.slot import check_waiting, start_run
from fsdpctl.verbs.status import read_status
from fsdpctl.verbs.submit import (
    Request,
    check_entrypoint,
    plan_request,
    submit_host,
    write_specs,
)


def resume(
    run: RunPaths,
    overrides: Sequence[str] = (),
    backend: Sequence[str] = (),
    *,
    step: int | None = None,
    update_code: bool = False,
    only_stranded: bool = False,
    progress: Progress = ignore,
    report_wait: Callable[[str], None] | None = None,
) -> bool:
    """Start the run again; return whether its copy of fsdpctl, of an older version, was replaced.

    Raise BusyError while it is alive, UsageError if the changed job does not fit. `only_stranded`: only if its
    scheduler does not requeue it, and no other command has resumed it since. `progress`: of copying the project again.
    `report_wait`: wait at the scheduler's limit of jobs, after a line to this function.
    """
    with locked(run):
        repair_code(run)
        if (status := read_status(run)).state.is_alive:
            raise BusyError(
                f"run {run.root.name} is {status.state}: {status.reason}", hint=f"fsdpctl stop {run.root.name}"
            )
        if only_stranded and not status.is_stranded:
            raise BusyError(f"run {run.root.name} is {status.state}, and does not wait for a new submission")
        request = _prepare(run, overrides, backend, Path.cwd() if update_code else Path(read_plan(run).submit_dir))
        check_waiting(request.plan, report_wait)
        if update_code:
            check_entrypoint(request.job, Path.cwd())
        if request.job.trainer is not None:
            check_trainer(run, status, request.job.trainer, step)
        elif status.state is State.SUCCEEDED and step is None and not (overrides or update_code):
            again = f"fsdpctl resume {run.root.name} --update-code, or with another --set"
            raise UsageError(f"run {run.root.name} has succeeded", hint=again)  # it would run all of it again
        if not (update_code or run.code.is_dir()):
            raise FsdpctlError(f"the run's code is missing: {run.code}", hint="--update-code copies it again")
        if step is not None:
            go_back(run, request.plan, step)
        record = open_record(run)
        _store(run, record, request, update_code, progress)
        start_run(run, request.plan, report_wait)
        return is_older(record) and not update_code


def _prepare(run: RunPaths, overrides: Sequence[str], backend: Sequence[str], submit_dir: Path) -> Request:
    """Plan from the run's stored specs: a resume does not depend on the current directory."""
    profile = read_profile(run.profile, backend)
    profile = profile.model_copy(update={"runs_root": str(run.root.parent)})
    job = read_job(run.job, overrides)
    try:
        return plan_request(profile, job, submit_host(profile, run.root.parent, run.root.name, submit_dir))
    except IncompatibleError as error:
        raise locate_problems(error, job_document(run.job, overrides), profile_document(run.profile, backend)) from None


def _store(run: RunPaths, record: RunRecord, request: Request, update_code: bool, progress: Progress) -> None:
    attempts = run.attempts()
    first = attempts[-1].number + 1 if attempts else 1
    submission = Submission("resume", time.time(), len(request.plan.nodes), first)
    if update_code:
        replace_code(run, request.plan, progress)
    elif is_older(record):
        bring_up_to_date(run, request.plan)
    secrets, missing = read_secrets(request.plan.pass_env)
    if secrets and not missing:
        write_json(run.secrets, secrets)
    write_specs(run, request)
    write_json(run.record, replace(record, schema=SCHEMA, submissions=(*record.submissions, submission)))


def predict_resumed(run: RunPaths) -> list[str]:
    """Return warnings about a preemption or stop that is too short to save, by the time of the newest checkpoint."""
    manifest = newest_manifest(run)
    plan = read_plan(run)
    found = list(get_backend(plan.backend).predict(plan, manifest.save_s if manifest is not None else 0.0).warnings)
    if manifest is not None and not save_fits(manifest.save_s, plan.grace_s):
        took = f"{checkpoint_name(manifest.step)} took {manifest.save_s:.0f} s to save"
        grace = format_duration(plan.grace_s)
        found = [f"{took}: a grace of {grace} is too short for a stop to be saved; --set grace=DURATION", *found]
    return found
