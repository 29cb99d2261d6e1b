"""submit: create a run directory from a profile and a job, and start the run."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fsdpctl.backends.submit_environment import read_secrets
from fsdpctl.backends.table import get_backend
from fsdpctl.contract import State
from fsdpctl.contract.byte_progress import Progress, ignore
from fsdpctl.contract.codec import write_json, write_text
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import AfterRun, LaunchPlan
from fsdpctl.errors import RefusedError, UsageError
from fsdpctl.launch.build import IncompatibleError
from fsdpctl.launch.host import SubmitHost
from fsdpctl.launch.locate import locate_problems
from fsdpctl.launch.smoke import shrink
from fsdpctl.launch.snapshot import list_project, take_snapshot
from fsdpctl.runs.record import NodeKind, RunRecord
from fsdpctl.runs.store import claim_run_id, create, discard, locked
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import job_document, load_job_with_notices, load_profile, profile_document
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.specs.search import ProfileSource, choose_profile, find_job, find_profile
from fsdpctl.verbs.cards import find_profile_card
from fsdpctl.verbs.data_source import resolve_data
from fsdpctl.verbs.float8 import check_float8
from fsdpctl.verbs.foreign import hinting_at_import
from fsdpctl.verbs.holds import HoldStatus, entering, own_machines, plan_of, profile_of
from fsdpctl.verbs.micro_batch import plan_with_micro_batch
from fsdpctl.verbs.placing import place
from fsdpctl.verbs.pretrained import resolve_weights
from fsdpctl.verbs.slot import WaitInterrupted, check_waiting, start_run
from fsdpctl.verbs.submit_host import runs_root_of, submit_host

DRY_RUN_ID_SUFFIX = "-dryrun"


@dataclass(frozen=True)
class Request:
    """A launch that has passed every check that needs no scheduler and no host."""

    profile: ClusterProfile
    job: JobSpec
    plan: LaunchPlan
    profile_source: ProfileSource = ProfileSource.OPTION
    notices: tuple[str, ...] = ()  # what was left out of the job's command, and what was chosen
    suspects: tuple[str, ...] = ()  # a line for each node that may be bad
    hold: HoldStatus | None = None  # in which the run takes place


def prepare(
    profile: ClusterProfile, job: JobSpec, *, run_id: str | None = None, hold: HoldStatus | None = None
) -> Request:
    """Build the plan of a new run from the current directory. Nothing is created.

    `run_id` None: draw a new one. `hold`: where the run takes place.
    """
    runs_root = runs_root_of(profile)
    submit_dir = Path.cwd()
    check_entrypoint(job, submit_dir)
    host = submit_host(profile, runs_root, run_id or claim_run_id(job.name, runs_root), submit_dir)
    return place_request(plan_request(profile, job, host), hold)


def place_request(request: Request, hold: HoldStatus | None = None) -> Request:
    """Return the request on nodes that are free, or on those of a hold. Raise LaunchError."""
    own = own_machines(hold) if hold is not None else None
    part = plan_of(hold) if hold is not None else None
    plan, suspects = place(request.plan, own)
    return replace(request, plan=replace(plan, hold=part), hold=hold, suspects=tuple(suspects))


def without_notices(request: Request) -> Request:
    """Return the request of a run that its user waits for, as of a benchmark: it sends no notices."""
    return replace(request, plan=replace(request.plan, notify=()))


def read_request(
    job: str,
    profile: str | None,
    overrides: Sequence[str] = (),
    backend: Sequence[str] = (),
    *,
    smoke: bool = False,
    dry_run: bool = False,
    run_id: str | None = None,
    hold: HoldStatus | None = None,
) -> Request:
    """Find and read both files, then `prepare`. Raise IncompatibleError with the lines that do not fit together.

    `profile` None: that of `hold`, else the default one. `run_id`: one that was drawn before.
    """
    if hold is not None:
        profile = profile_of(hold, profile, backend)
    with hinting_at_import(job):
        spec, notices = load_job_with_notices(job, overrides)
    spec = shrink(spec) if smoke else spec
    chosen, source = choose_profile(profile, spec.profile)
    loaded = read_profile(chosen, source, backend)
    try:
        request = prepare(loaded, spec, run_id=spec.name + DRY_RUN_ID_SUFFIX if dry_run else run_id, hold=hold)
        return replace(request, profile_source=source, notices=(*notices, *request.notices))
    except IncompatibleError as error:
        documents = job_document(find_job(job), overrides), profile_document(find_profile(chosen), backend)
        raise locate_problems(error, *documents) from None


def read_profile(chosen: str, source: ProfileSource, backend: Sequence[str]) -> ClusterProfile:
    """Read the profile that `choose_profile` has chosen. Raise UsageError, which names the source of a default."""
    try:
        return load_profile(chosen, backend)
    except UsageError as error:
        if source is ProfileSource.OPTION:
            raise
        raise UsageError(error.message, hint=f"this profile is from {source}; --profile takes another") from None


def start_after(request: Request, run: RunPaths) -> Request:
    """Return the request for a run that starts when `run` has succeeded. Raise UsageError if it cannot any more."""
    from fsdpctl.verbs.status import read_status

    status = read_status(run)
    if not (status.state.is_alive or status.state is State.SUCCEEDED):
        name = run.root.name
        raise UsageError(f"run {name} is {status.state}, so nothing can start after it", hint=f"fsdpctl resume {name}")
    return replace(request, plan=replace(request.plan, after=AfterRun(run.root.name, str(run.root))))


def plan_request(profile: ClusterProfile, job: JobSpec, host: SubmitHost) -> Request:
    """Check the job's data and weights, then plan."""
    is_here = get_backend(profile.backend.kind).runs_here
    job = resolve_data(job, Path(host.submit_dir), is_here=is_here)
    job = resolve_weights(job, Path(host.submit_dir), is_here=is_here)
    job, plan, notices = plan_with_micro_batch(profile, job, host)
    if job.trainer is not None and plan.device == "cuda" and (found := find_profile_card(profile)) is not None:
        check_float8(job.trainer, found[0])
    if is_here and not plan.setup and plan.container is None and shutil.which(plan.python) is None:
        raise UsageError(
            f"profile {profile.name}: this machine has no program {plan.python}",
            hint="`environment` in the profile sets what runs the ranks, or `python`, `venv`",
        )
    return Request(profile, job, plan, notices=notices)


def submit(request: Request, progress: Progress = ignore, report_wait: Callable[[str], None] | None = None) -> RunPaths:
    """Create the run and start it; `progress`: of copying a project. A crash in between leaves a PLANNED run.

    `report_wait`: wait at the scheduler's limit of jobs, after a line to this function. Raise RefusedError, too, if
    nodes were held since the request was prepared, and too few are left.
    """
    request = place_request(request, request.hold)  # hours later in a sweep, minutes after a rehearsal
    plan = request.plan
    check_waiting(plan, report_wait)
    with entering(request.hold, RunPaths.of(plan.run_dir)):
        run = create_run(request, progress)
        try:
            with locked(run):
                start_run(run, plan, report_wait)
        except (RefusedError, WaitInterrupted):
            discard(run)
            raise
    return run


def create_run(request: Request, progress: Progress = ignore) -> RunPaths:
    """Create the run, which is PLANNED then. Raise UsageError if a secret is missing."""
    plan = request.plan
    secrets, missing = read_secrets(plan.pass_env)
    if missing:
        raise UsageError(
            f"profile {request.profile.name} passes {', '.join(missing)}, which this shell does not have",
            hint=f"export {missing[0]}=... and submit again",
        )
    record = RunRecord.new(
        plan.run_id,
        request.job.name,
        request.profile.name,
        plan.backend,
        time.time(),
        len(plan.nodes),
        node_kind(request),
    )

    def fill(run: RunPaths) -> None:
        write_specs(run, request)
        if secrets:
            write_json(run.secrets, secrets)
        take_snapshot(plan, run, progress)

    return create(Path(plan.run_dir).parent, record, fill)


def node_kind(request: Request) -> NodeKind:
    """Return what each node of a submission has."""
    plan = request.plan
    return NodeKind(plan.procs_per_node, plan.device, request.profile.price_per_gpu_hour)


def write_specs(run: RunPaths, request: Request) -> None:
    """Write the plan, and the specs after all overrides."""
    from fsdpctl.schema.dump import dump_yaml

    write_text(run.job, dump_yaml(request.job))
    write_text(run.profile, dump_yaml(request.profile))
    if request.job.trainer is not None:
        write_json(run.trainer_config, request.job.trainer)
    write_json(run.plan, request.plan)


def check_entrypoint(job: JobSpec, submit_dir: Path) -> None:
    """Raise UsageError for a script that is missing, not in the project, or does not compile: not hours later."""
    script = job.entrypoint.script
    if script is None:
        return
    path = submit_dir / script
    if not path.is_file():
        raise UsageError(f"job {job.name}: entrypoint.script {script!r} is no file in {submit_dir}")
    if os.path.normpath(script) not in list_project(submit_dir):
        raise UsageError(
            f"job {job.name}: entrypoint.script {script!r} is not part of the project in {submit_dir}",
            hint="ranks run a copy of the project: what git tracks or would track below this directory",
        )
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"job {job.name}: {script} does not compile: {error}") from error
