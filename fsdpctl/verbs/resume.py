"""resume: a new submission of a stored run. Loading the newest checkpoint is the trainer's only way to start."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fsdpctl.checkpoints.stored import list_checkpoints
from fsdpctl.contract import State
from fsdpctl.contract.checkpoint import committed, save_fits
from fsdpctl.contract.codec import encode, read_json, write_json
from fsdpctl.contract.paths import RunPaths, checkpoint_name, step_of
from fsdpctl.contract.resumable import compare
from fsdpctl.contract.trainer import TrainerConfig
from fsdpctl.errors import BusyError, UsageError
from fsdpctl.launchers.environment import read_secrets
from fsdpctl.launchers.table import get_launcher
from fsdpctl.plan import MisfitError
from fsdpctl.progress import Progress, ignore
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.record import Submission
from fsdpctl.runs.store import locked, open_record
from fsdpctl.snapshot import take_snapshot
from fsdpctl.specs.load import job_document, profile_document, read_job, read_profile
from fsdpctl.specs.types import format_duration
from fsdpctl.verbs.rewind import go_back
from fsdpctl.verbs.status import RunStatus, read_status
from fsdpctl.verbs.submit import (
    Request,
    check_entrypoint,
    foresee,
    located,
    plan_request,
    site_of,
    write_specs,
)


def resume(
    run: RunPaths,
    overrides: Sequence[str] = (),
    *,
    step: int | None = None,
    update_code: bool = False,
    only_stranded: bool = False,
    progress: Progress = ignore,
) -> None:
    """Start the run again. Raises BusyError while it is alive, UsageError when the changed job does not fit.

    `only_stranded`: only if its scheduler has left it behind, and nobody has resumed it since. `progress` is that of
    copying the project anew.
    """
    with locked(run):
        _mend_code(run)
        if (status := read_status(run)).state.is_alive:
            raise BusyError(
                f"run {run.root.name} is {status.state}: {status.reason}", hint=f"fsdpctl stop {run.root.name}"
            )
        if only_stranded and not status.is_stranded:
            raise BusyError(f"run {run.root.name} is {status.state}, and does not wait for a new submission")
        request = _prepare(run, overrides, Path.cwd() if update_code else Path(read_plan(run).submit_dir))
        if update_code:
            check_entrypoint(request.job, Path.cwd())
        _refuse_another_run(run, request, has_steps=bool(status.step))
        if request.job.trainer is not None:
            _refuse_nothing_left(run, status, request.job.trainer.steps, step)
        elif status.state is State.SUCCEEDED and step is None and not (overrides or update_code):
            again = f"fsdpctl resume {run.root.name} --update-code, or with another --set"
            raise UsageError(f"run {run.root.name} has succeeded", hint=again)  # it would do it all again
        if step is not None:
            go_back(run, request.plan, step)
        _store(run, request, update_code, progress)
        get_launcher(request.plan.backend).start(run, request.plan)


def _prepare(run: RunPaths, overrides: Sequence[str], submit_dir: Path) -> Request:
    """Plan from what the run has stored: a resume needs nothing of the directory where it is typed."""
    profile = read_profile(run.profile)
    profile = profile.model_copy(update={"runs_root": str(run.root.parent)})
    job = read_job(run.job, overrides)
    try:
        return plan_request(profile, job, site_of(profile, run.root.parent, run.root.name, submit_dir))
    except MisfitError as error:
        raise located(error, job_document(run.job, overrides), profile_document(run.profile)) from None


def _refuse_nothing_left(run: RunPaths, status: RunStatus, steps: int, step: int | None) -> None:
    saved = [step_of(name) for name in committed(run.checkpoints)]
    if step is not None and saved and step not in saved:
        return  # which `go_back` refuses
    begin = step if step is not None else saved[-1] if saved else _last_saved(status)
    is_only_evaluated = status.state is not State.SUCCEEDED and status.total_steps == steps
    if not is_nothing_left(begin, steps, is_only_evaluated):
        return
    again = f"fsdpctl resume {run.root.name}"
    older = [str(number) for number in saved if number < steps]
    back = f"; or go back by --step to {', '.join(older)}" if older else ""
    what = f"goes on from step {begin}, so with trainer.steps={steps} nothing is left to train"
    if step is None and begin == steps == status.total_steps:
        what = f"has finished all {steps} steps"
    raise UsageError(f"run {run.root.name} {what}", hint=f"{again} --set trainer.steps={2 * begin}{back}")


def is_nothing_left(begin: int, steps: int, is_only_evaluated: bool) -> bool:
    """Whether a run that begins after so many steps has nothing to do. One that was ended before its evaluation after
    the last step has that to do."""
    return begin > steps or (begin == steps and not is_only_evaluated)


def _last_saved(status: RunStatus) -> int:
    """Where each host keeps its own checkpoints, what the last attempt said of them."""
    return status.outcome.step if status.outcome is not None and status.outcome.checkpoint else 0


def _refuse_another_run(run: RunPaths, request: Request, *, has_steps: bool) -> None:
    """What the trainer would refuse is told now, and the stored configuration stays as it is."""
    if request.job.trainer is None or not has_steps:
        return
    stored = encode(read_json(TrainerConfig, run.trainer_config))
    _, forbidden = compare(stored, encode(request.job.trainer))
    if forbidden:
        raise UsageError(
            f"run {run.root.name} has trained with another configuration:\n" + "\n".join(f"  {c}" for c in forbidden),
            hint="submit it as a run of its own",
        )


def _store(run: RunPaths, request: Request, update_code: bool, progress: Progress) -> None:
    record = open_record(run)
    attempts = run.attempts()
    first = attempts[-1].number + 1 if attempts else 1
    submission = Submission("resume", time.time(), len(request.plan.nodes), first)
    if update_code:
        _replace_code(run, request, progress)
    secrets, missing = read_secrets(request.plan.pass_env)
    if secrets and not missing:
        write_json(run.secrets, secrets)
    write_specs(run, request)
    write_json(run.record, replace(record, submissions=(*record.submissions, submission)))


def _replace_code(run: RunPaths, request: Request, progress: Progress) -> None:
    """Build the new snapshot aside and swap; a resume that is killed in between is mended by the next."""
    aside = RunPaths(run.root / ".new-code")
    shutil.rmtree(aside.root, ignore_errors=True)
    aside.root.mkdir(mode=0o700)
    take_snapshot(request.plan, aside, progress)
    run.code.rename(_old_code(run))
    aside.code.rename(run.code)
    shutil.rmtree(_old_code(run))
    shutil.rmtree(aside.root)


def _old_code(run: RunPaths) -> Path:
    return run.root / ".old-code"


def _mend_code(run: RunPaths) -> None:
    """Finish what a killed `--update-code` left between its two renames."""
    if not run.code.exists() and _old_code(run).exists():
        _old_code(run).rename(run.code)
    shutil.rmtree(_old_code(run), ignore_errors=True)


def foresee_resumed(run: RunPaths) -> list[str]:
    """What may be lost of this run, going by what its newest checkpoint took."""
    manifest = next((stored.manifest for stored in list_checkpoints(run) if stored.manifest), None)
    plan = read_plan(run)
    _, found = foresee(plan, manifest.save_s if manifest is not None else 0.0)
    if manifest is not None and not save_fits(manifest.save_s, plan.grace_s):
        took = f"{checkpoint_name(manifest.step)} took {manifest.save_s:.0f} s to save"
        grace = format_duration(plan.grace_s)
        found = [f"{took}: a grace of {grace} is too short for a stop to be saved; --set grace=DURATION", *found]
    return found
