"""Rehearse an own script before it is queued: two ranks of it on this machine, or on one node of the cluster.

A rehearsal is a run of its own, of the same copy of the project: it ends at the first sign of progress, and is removed.
One that fails is kept, for its logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fsdpctl.backends.table import get_backend
from fsdpctl.commands.container import find_container
from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import RunFailed, UsageError
from fsdpctl.launch.snapshot import list_project
from fsdpctl.node.checks.smi import visible_gpus
from fsdpctl.own_scripts.modules import find_missing, read_needed
from fsdpctl.runs.progress import newest_save
from fsdpctl.runs.store import default_runs_root, discard
from fsdpctl.specs import bundled
from fsdpctl.specs.environment import PyxisEnvironment
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import read_profile
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.rehearsal_failure import describe_failure
from fsdpctl.verbs.status import RunStatus
from fsdpctl.verbs.stop import cancel
from fsdpctl.verbs.submit import Request, prepare, submit, without_notices
from fsdpctl.verbs.watch import watch

LIMIT_S = 60.0
"""Time in which ranks may fail, of a script that reports no step."""
RANKS = 2
_SUFFIX = "-rehearsal"


class Sign(StrEnum):
    """What ended a rehearsal that found nothing wrong."""

    STEP = "step"
    SAVE = "save"
    END = "end"
    TIME = "time"
    IMPORTS = "imports"
    """No rank can run on this machine: only the modules were looked for."""


@dataclass(frozen=True)
class Rehearsal:
    """How far the ranks came, without a failure; `seconds` without the time in a queue."""

    sign: Sign
    ranks: int
    seconds: float
    step: int | None = None


def rehearse_here(request: Request, report: Callable[[str], None]) -> Rehearsal:
    """Start ranks of an own script here until the first sign of progress. `report` gets a line for each part.

    Raise RunFailed with the user's line if a module is missing or a rank fails, UsageError for the bundled trainer.
    """
    _require_own_script(request)
    here = _local_profile(request)
    gpus = len(visible_gpus()) if here.gpus_per_node != 0 else 0
    if find_container(request.plan) is None:  # else they are in the image
        check_modules(request, here.python or request.plan.python)
    if request.plan.device == "cuda" and not gpus:
        return Rehearsal(Sign.IMPORTS, 0, 0.0)
    ranks = min(RANKS, request.plan.world_size, gpus or RANKS)
    hold = request.hold if get_backend(request.profile.backend.kind).runs_here else None  # it holds this machine
    small = without_notices(prepare(here, _first_ranks(request.job, ranks), hold=hold))
    report(f"rehearsal: {count_ranks(ranks)} on this machine, by {small.plan.python}")
    return _run(small, ranks, report)


def rehearse_on_node(request: Request, report: Callable[[str], None]) -> Rehearsal:
    """Start them on one node of the request's profile, or of its hold, once it is given; see `rehearse_here`."""
    _require_own_script(request)
    ranks = min(RANKS, request.plan.procs_per_node)
    profile = request.profile.model_copy(update={"procs_per_node": None})
    small = without_notices(prepare(profile, _first_ranks(request.job, ranks), hold=request.hold))
    report(f"rehearsal: {count_ranks(ranks)} on one node of profile {profile.name}")
    return _run(small, ranks, report)


def count_ranks(ranks: int) -> str:
    """Return the number as words."""
    return f"{ranks} {'rank' if ranks == 1 else 'ranks'}"


def _require_own_script(request: Request) -> None:
    if request.plan.entry.is_bundled:
        raise UsageError(
            f"job {request.job.name} has no script of its own to rehearse",
            hint="--smoke runs it with a tiny model, for 8 steps",
        )


def check_modules(request: Request, python: str) -> None:
    """Raise RunFailed with each import of a module that the ranks would not have."""
    entry, project = request.plan.entry, Path(request.plan.submit_dir)
    files = list_project(project)
    if (file := _entry_file(entry.kind, entry.target, files)) is None:
        return  # a module that is installed
    needed = read_needed(project, files, file)
    plan = request.plan
    missing = find_missing(python, plan.setup, plan.env, list(needed.outside)) or frozenset()
    lines = list(needed.problems)
    for name, one in needed.outside.items():
        if name in missing:
            lines.append(f"{one.file}:{one.line}: import {one.module}: {python} has no module {name}")
    if lines:
        raise RunFailed(
            "\n".join([f"job {request.job.name} cannot start; nothing was queued", *lines]),
            hint="install it there, or set `environment` of the profile, or its `python` or `venv`",
        )


def _entry_file(kind: str, target: str, files: list[str]) -> str | None:
    """Return the file of an entrypoint in the project."""
    if kind == "script":
        return target
    path = target.replace(".", "/")
    return next((name for name in (f"{path}.py", f"{path}/__main__.py") if name in files), None)


def _local_profile(request: Request) -> ClusterProfile:
    """Return the profile of ranks on this machine: the job's own, or `local` with what its profile sets for ranks."""
    profile = request.profile
    if get_backend(profile.backend.kind).runs_here:
        return profile.model_copy(update={"procs_per_node": None})
    local = read_profile(bundled.profiles_dir() / "local.yaml")
    python = request.plan.python
    taken = {
        "env": profile.env,
        "setup": profile.setup,
        "modules": profile.modules,
        "environment": None if isinstance(profile.environment, PyxisEnvironment) else profile.environment,
        "pass_env": profile.pass_env,
        "python": python if Path(python).is_file() else None,
        "runs_root": str(default_runs_root()),
    }
    return local.model_copy(update=taken)


def _first_ranks(job: JobSpec, ranks: int) -> JobSpec:
    limit = int(LIMIT_S) + job.grace + 60  # if this process is killed, the ranks end by themselves
    name = f"{job.name[: 64 - len(_SUFFIX)]}{_SUFFIX}"
    changed = {"name": name, "nodes": 1, "procs_per_node": ranks, "restarts": 0, "time_limit": limit}
    return job.model_copy(update=changed)


def _run(request: Request, ranks: int, report: Callable[[str], None]) -> Rehearsal:
    """Run until the first sign, then end all ranks and remove the run. One that fails stays, without processes."""
    run = RunPaths.of(request.plan.run_dir)
    try:
        submit(request)
        started = _wait_until_started(run, report)
        sign, status = _wait(run, started + LIMIT_S)
        cancel(run)
    except BaseException:  # an interrupt, too
        if run.root.exists():
            cancel(run)
            discard(run)
        raise
    if sign is None:
        failure = describe_failure(run, status)
        hint = f"fsdpctl logs {run.root.name}; leave out the rehearsal to submit it all the same"
        raise RunFailed(f"the rehearsal failed; nothing was queued\n{failure}", hint=hint)
    discard(run)
    return Rehearsal(sign, ranks, time.monotonic() - started, status.step)


def _wait_until_started(run: RunPaths, report: Callable[[str], None]) -> float:
    """Return the monotonic time at which no queue is left to wait in; `report` gets each new reason to wait."""
    reason = ""
    for observed in watch(run):
        status = observed.status
        if status.state is not State.QUEUED:
            break
        if status.reason != reason:
            report(f"rehearsal waits for a node: {status.reason}")
            reason = status.reason
    return time.monotonic()


def _wait(run: RunPaths, deadline: float) -> tuple[Sign | None, RunStatus]:
    """Return the first sign of progress; None if the run has failed before."""
    for observed in watch(run):
        status = observed.status
        if status.step is not None:
            return Sign.STEP, status
        if newest_save(run):
            return Sign.SAVE, status
        if time.monotonic() > deadline and status.state.is_alive:
            return Sign.TIME, status
    return (Sign.END if status.state is State.SUCCEEDED else None), status
