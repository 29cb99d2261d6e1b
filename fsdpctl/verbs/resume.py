"""resume: a new submission of a stored run. The trainer itself loads the newest checkpoint at every start."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fsdpctl.backends.submit_environment import read_secrets
from fsdpctl.backends.table import get_backend
from fsdpctl.checkpoints.listing import newest_manifest
from fsdpctl.contract import SCHEMA, State
from fsdpctl.contract.byte_progress import Progress, ignore
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.formats.manifest import save_fits
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import BusyError, FsdpctlError, UsageError
from fsdpctl.launch.build import IncompatibleError
from fsdpctl.launch.locate import locate_problems
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.progress import time_to_first_step
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.store import locked, open_record
from fsdpctl.schema.types import format_duration
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import job_document, profile_document, read_job, read_profile
from fsdpctl.specs.search import find_profile
from fsdpctl.verbs.fit import check_memory
from fsdpctl.verbs.holds import HoldStatus, entering, profile_of
from fsdpctl.verbs.refusals import check_trainer
from fsdpctl.verbs.rewind import go_back
from fsdpctl.verbs.run_code import bring_up_to_date, is_older, prepare_code, repair_code, replace_code
from fsdpctl.verbs.slot import check_waiting, start_run
from fsdpctl.verbs.status import RunStatus, read_status
from fsdpctl.verbs.submit import Request, check_entrypoint, node_kind, place_request, plan_request, write_specs
from fsdpctl.verbs.submit_host import submit_host


@dataclass(frozen=True)
class Resumed:
    """What a resume has replaced."""

    has_new_fsdpctl: bool  # instead of an older version's
    code_dir: Path | None  # from which the project was copied again
    kept: tuple[str, ...]  # files of the project that stay as a rank has changed them, below the run directory
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Changes:
    """What is different from the last submission."""

    overrides: Sequence[str] = ()  # of keys of the job
    backend: Sequence[str] = ()  # of keys of the profile's backend
    profile: str | None = None
    hold: HoldStatus | None = None  # where it takes place
    step: int | None = None  # go back to this checkpoint
    update_code: bool = False  # copy the project again
    code_dir: Path | None = None  # from here, instead of from where it was copied before

    @property
    def have_other_profile(self) -> bool:
        return self.profile is not None or self.hold is not None


def resume(
    run: RunPaths,
    changes: Changes = Changes(),
    *,
    only_stranded: bool = False,
    force: bool = False,
    progress: Progress = ignore,
    report_wait: Callable[[str], None] | None = None,
    start: Callable[[RunPaths, LaunchPlan], None] | None = None,
) -> Resumed:
    """Start the run again.

    Raise BusyError while it is alive, UsageError if the changed job does not fit. `only_stranded`: only if its
    scheduler does not requeue it, and no other command has resumed it since. `force`: also where a change does not fit
    the GPUs' memory. `progress`: of copying the project. `report_wait`: wait at the scheduler's limit of jobs, after a
    line to this function. `start`: what to do instead of starting the run.
    """
    if changes.code_dir is not None and not changes.update_code:
        raise UsageError(f"{changes.code_dir} is not copied without --update-code", hint="add it, or leave out --from")
    with locked(run):
        repair_code(run)
        status = read_status(run)
        _check_state(run, status, only_stranded)
        request = _prepare(run, changes)
        warnings = [*_check_fit(run, request, changes, force), *request.suspects]
        check_waiting(request.plan, report_wait)
        _check_work(run, status, request, changes)
        record = open_record(run)
        copies = changes.update_code
        kept = prepare_code(run, request.plan, record.created, progress) if copies else []
        with entering(changes.hold, run):
            if changes.step is not None:
                go_back(run, request.plan, changes.step)
            _store(run, record, request, changes)
            if start is not None:
                start(run, request.plan)
            else:
                start_run(run, request.plan, report_wait)
        return Resumed(
            has_new_fsdpctl=is_older(record) and not copies,
            code_dir=Path(request.plan.submit_dir) if copies and not request.plan.entry.is_bundled_trainer else None,
            kept=tuple(kept),
            warnings=tuple(warnings),
        )


def _check_state(run: RunPaths, status: RunStatus, only_stranded: bool) -> None:
    """Raise BusyError for a run that is alive, or that is not stranded where that is asked for."""
    name = run.root.name
    if status.state.is_alive:
        raise BusyError(f"run {name} is {status.state}: {status.reason}", hint=f"fsdpctl stop {name}")
    if only_stranded and not status.is_stranded:
        raise BusyError(f"run {name} is {status.state}, and does not wait for a new submission")


def _check_fit(run: RunPaths, request: Request, changes: Changes, force: bool) -> list[str]:
    """Return a warning where memory is tight. Raise UsageError for what fits neither its GPUs nor its checkpoints."""
    if changes.have_other_profile:
        _check_profile(run, request)
    if not (changes.have_other_profile or changes.overrides or changes.backend):
        return []
    tight = check_memory(request.profile, request.job, request.plan, force=force)
    return [tight] if tight else []


def _check_work(run: RunPaths, status: RunStatus, request: Request, changes: Changes) -> None:
    """Raise UsageError where nothing is left to do or the project cannot be copied, FsdpctlError without any code."""
    name = run.root.name
    if changes.update_code:
        _check_project(run, request.job, Path(request.plan.submit_dir))
    if request.job.trainer is not None:
        check_trainer(run, status, request.job.trainer, changes.step)
    elif status.state is State.SUCCEEDED and changes.step is None and not (changes.overrides or changes.update_code):
        again = f"fsdpctl resume {name} --update-code, or with another --set"
        raise UsageError(f"run {name} has succeeded", hint=again)  # it would run all of it again
    if not (changes.update_code or run.code.is_dir()):
        raise FsdpctlError(f"the run's code is missing: {run.code}", hint="--update-code copies it again")


def _check_project(run: RunPaths, job: JobSpec, project: Path) -> None:
    """Raise UsageError if the project is not there any more, or has no such script."""
    if not job.entrypoint.is_bundled_trainer and not project.is_dir():
        again = f"fsdpctl resume {run.root.name} --update-code --from DIR takes another directory"
        raise UsageError(f"{project}, the directory of the project, is not there", hint=again)
    check_entrypoint(job, project)


def _check_profile(run: RunPaths, request: Request) -> None:
    """Raise UsageError for a profile under which the run's checkpoints cannot be read."""
    if read_plan(run).shared_disk != request.plan.shared_disk:
        raise UsageError(
            f"run {run.root.name} cannot continue under profile {request.profile.name}: of these two, one has a disk"
            " that its hosts share, and in the other each host has checkpoints of its own",
            hint=f"fsdpctl checkpoints export {run.root.name}, and init_from in a run of its own",
        )


def _prepare(run: RunPaths, changes: Changes) -> Request:
    """Plan from the run's stored specs: a resume does not depend on the current directory."""
    hold, chosen = changes.hold, changes.profile
    if hold is not None:
        chosen = profile_of(hold, chosen, changes.backend)
    file = find_profile(chosen) if chosen else run.profile
    project = Path(read_plan(run).submit_dir) if changes.code_dir is None else changes.code_dir.absolute()
    profile = read_profile(file, changes.backend)
    profile = profile.model_copy(update={"runs_root": str(run.root.parent)})
    job = read_job(run.job, changes.overrides)
    try:
        host = submit_host(profile, run.root.parent, run.root.name, project)
        return place_request(plan_request(profile, job, host), hold)
    except IncompatibleError as error:
        documents = job_document(run.job, changes.overrides), profile_document(file, changes.backend)
        raise locate_problems(error, *documents) from None


def _store(run: RunPaths, record: RunRecord, request: Request, changes: Changes) -> None:
    attempts = run.attempts()
    first = attempts[-1].number + 1 if attempts else 1
    nodes, node = len(request.plan.nodes), node_kind(request)
    submission = Submission("resume", time.time(), nodes, first, changes.step, node)
    if changes.update_code:
        replace_code(run)
    elif is_older(record):
        bring_up_to_date(run, request.plan)
    secrets, missing = read_secrets(request.plan.pass_env)
    if secrets and not missing:
        write_json(run.secrets, secrets)
    write_specs(run, request)
    changed = replace(record, profile=request.profile.name, backend=request.plan.backend)
    write_json(run.record, replace(changed, schema=SCHEMA, submissions=(*record.submissions, submission)))


def predict_resumed(run: RunPaths) -> list[str]:
    """Return warnings about a preemption, stop or time limit that is too short, by how long saves and a start took."""
    manifest = newest_manifest(run)
    plan = read_plan(run)
    found = list(get_backend(plan.backend).predict(plan, manifest.save_s if manifest is not None else 0.0).warnings)
    if manifest is not None and not save_fits(manifest.save_s, plan.grace_s):
        took = f"{checkpoint_name(manifest.step)} took {manifest.save_s:.0f} s to save"
        grace = format_duration(plan.grace_s)
        found = [f"{took}: a grace of {grace} is too short for a stop to be saved; --set grace=DURATION", *found]
    return [*_short_time_limit(plan, time_to_first_step(run)), *found]


def _short_time_limit(plan: LaunchPlan, first_step_s: float | None) -> list[str]:
    """Return a warning if an attempt is asked to stop before its first step is done. Pure."""
    if plan.time_limit_s is None or first_step_s is None or first_step_s <= plan.time_limit_s - plan.grace_s:
        return []
    limit, grace = format_duration(plan.time_limit_s), format_duration(plan.grace_s)
    return [
        f"an attempt of this run took {first_step_s:.0f} s to its first step: a time limit of {limit} less the grace of"
        f" {grace} leaves none; --set time_limit=DURATION"
    ]
