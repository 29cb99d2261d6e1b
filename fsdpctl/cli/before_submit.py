"""What `submit` logs of a request before it starts anything, and what it asks."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fsdpctl.cli.output import log
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from fsdpctl.contract.trainer.trainer_config import TrainerConfig
    from fsdpctl.verbs.submit import Request

CPU_FLOPS = 1e11  # of a few cores, roughly
SLOW_STEP_S = 60


def log_request(request: Request, hold: str | None, *, force: bool) -> str:
    """Log where the run takes place, and what its user may not expect; return the scheduler's prediction.

    Raise UsageError if it does not fit the memory of its GPUs; `force`: warn instead.
    """
    from fsdpctl.backends.table import get_backend
    from fsdpctl.notify.check import find_missing
    from fsdpctl.verbs.fit import check_memory

    for notice in (*request.notices, *request.suspects):
        log(notice)
    source = f"hold {hold}" if hold is not None else request.profile_source
    log(f"profile {request.profile.name} ({request.plan.backend}), from {source}")
    predicted = get_backend(request.plan.backend).predict(request.plan)
    memory = check_memory(request.profile, request.job, request.plan, force=force)
    unsent = [f"no notices until this is there: {missing}" for missing in find_missing(request.plan.notify)]
    for warning in (*predicted.warnings, *([memory] if memory else []), *unsent):
        log(f"warning: {warning}")
    return predicted.text


def log_lint(request: Request, job: str, profile: str | None, overrides: Sequence[str], backend: Sequence[str]) -> None:
    """Log what `jobs check` finds; nothing of it prevents the run."""
    from fsdpctl.cli.jobs_check import log_findings
    from fsdpctl.verbs.lint import lint_submission

    options = ["-p", profile] if profile is not None else []
    for option, given in (("--set", map(_as_set, overrides)), ("--backend", backend)):
        options += [word for value in given for word in (option, value)]
    command = shlex.join(["fsdpctl", "jobs", "check", job, *options])
    log_findings(lint_submission(request, job, overrides, backend, profile), command)


def _as_set(override: str) -> str:
    """Return what `--set` takes instead of an option of `submit`."""
    option, equals, value = override.partition("=")
    return f"{option[2:].replace('-', '_')}{equals}{value}" if option.startswith("--") else override


def warn_if_live(request: Request) -> None:
    """Log which sources of an own script's repository are in no copy of it: a later edit of these changes the run."""
    from fsdpctl.launch.live_sources import find_live_sources

    plan = request.plan
    if plan.entry.is_bundled or not (live := find_live_sources(plan.python, Path(plan.submit_dir))):
        return
    log(f"warning: imported where they are, not from the run's copy: {', '.join(live)}; an edit there changes the run")
    log("hint: submit from a directory that contains them; git must not ignore them")


def confirm_slow(request: Request, job: str, *, yes: bool) -> None:
    """Ask before a run whose steps take very long on CPUs; without a terminal, raise UsageError."""
    trainer = request.job.trainer
    if request.plan.device == "cuda" or trainer is None or (warning := predict_slow_steps(trainer)) is None:
        return
    hint = f"--profile chooses a cluster; fsdpctl submit {shlex.quote(job)} --smoke tests the same path in a minute"
    if not (yes or sys.stdin.isatty()):
        raise UsageError(warning, hint=f"{hint}; --yes starts it all the same")
    log(f"warning: {warning}")
    log(f"hint: {hint}")
    if not yes:
        typer.confirm("start it all the same?", abort=True, err=True)


def predict_slow_steps(trainer: TrainerConfig) -> str | None:
    """Return a warning if the steps of a job without a GPU will take very long, else None."""
    parameters, tokens = trainer.model.num_parameters, trainer.batch.sequences * trainer.model.seq_len
    seconds = 6 * parameters * tokens / CPU_FLOPS
    if seconds < SLOW_STEP_S:
        return None
    return (
        f"{parameters:,} parameters and {tokens:,} tokens a step without a GPU:"
        f" expect {'hours' if seconds >= 3600 else 'minutes'} for each of the {trainer.steps:,} steps, and"
        f" {16 * parameters / 2**30:.0f} GiB of memory per replica"
    )
