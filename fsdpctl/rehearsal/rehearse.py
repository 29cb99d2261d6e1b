"""Rehearse an own script before it is queued: two ranks of it on this machine, or on one node of the cluster.

A rehearsal is a run of its own, of the same copy of the project: it ends at the first sign of progress, and is removed.
One that fails is kept, for its logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.backends.table import get_backend
from fsdpctl.commands.container import find_container
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import RunFailed, UsageError
from fsdpctl.node.checks.smi import visible_gpus
from fsdpctl.own_scripts.printed_steps import PrintedStep
from fsdpctl.rehearsal.end import end_and_remove
from fsdpctl.rehearsal.failure import describe_failure
from fsdpctl.rehearsal.guard import guarding
from fsdpctl.rehearsal.modules import check_modules
from fsdpctl.rehearsal.signs import Sign, look, wait_for_sign, wait_until_started
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.specs import bundled
from fsdpctl.specs.environment import PyxisEnvironment
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import read_profile
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.stop import cancel
from fsdpctl.verbs.submit import Request, prepare, submit, without_notices

LIMIT_S = 60.0
"""Time in which ranks may fail, of a script that reports no step."""
RANKS = 2
_SUFFIX = "-rehearsal"


@dataclass(frozen=True)
class Rehearsal:
    """How far the ranks came, without a failure; `seconds` without the time in a queue."""

    sign: Sign
    ranks: int
    seconds: float
    step: int | None = None
    printed: PrintedStep | None = None
    seen: tuple[str, ...] = ()  # at the limit: where each rank was, and what rank 0 had printed last


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
    nodes = choose_nodes(request.plan, ranks, hold.record.num_nodes if hold is not None else ranks)
    small = without_notices(prepare(here, _first_ranks(request.job, ranks, nodes), hold=hold))
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


def choose_nodes(plan: LaunchPlan, ranks: int, most: int) -> int:
    """Return the number of local nodes: one of each rank, where no node of the job has more, so that LOCAL_RANK is what
    it will be. Pure."""
    return min(ranks, most) if plan.procs_per_node == 1 else 1


def count_ranks(ranks: int) -> str:
    """Return the number as words."""
    return f"{ranks} {'rank' if ranks == 1 else 'ranks'}"


def _require_own_script(request: Request) -> None:
    if request.plan.entry.is_bundled:
        raise UsageError(
            f"job {request.job.name} has no script of its own to rehearse",
            hint="--smoke runs it with a tiny model, for 8 steps",
        )


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


def _first_ranks(job: JobSpec, ranks: int, nodes: int = 1) -> JobSpec:
    limit = int(LIMIT_S) + job.grace + 60  # if this process is killed, the ranks end by themselves
    name = f"{job.name[: 64 - len(_SUFFIX)]}{_SUFFIX}"
    changed = {"name": name, "nodes": nodes, "procs_per_node": ranks // nodes, "restarts": 0}
    return job.model_copy(update={**changed, "time_limit": limit})


def _run(request: Request, ranks: int, report: Callable[[str], None]) -> Rehearsal:
    """Run until the first sign, then end all ranks and remove the run. One that fails stays, without processes."""
    run = RunPaths.of(request.plan.run_dir)
    with guarding(run):
        try:
            submit(request)
            started = wait_until_started(run, report)
            sign, status, printed = wait_for_sign(
                run, started + LIMIT_S, finds_steps=request.job.progress_regex is None
            )
            seconds = time.monotonic() - started
            seen = look(run, status) if sign is Sign.TIME else ()
            if sign is None:
                cancel(run)
            else:
                end_and_remove(run)
        except KeyboardInterrupt:
            report(f"\nrehearsal: interrupted; nothing was queued, and {run.root.name} is being ended")
            end_and_remove(run)
            report("rehearsal: nothing of it is left")
            raise
        except BaseException:
            end_and_remove(run)
            raise
    if sign is None:
        name = run.root.name
        hint = f"fsdpctl explain {name}; fsdpctl logs {name}; leave out the rehearsal to submit it all the same"
        raise RunFailed(f"the rehearsal failed; nothing was queued\n{describe_failure(run, status)}", hint=hint)
    return Rehearsal(sign, ranks, seconds, status.step, printed, seen)
