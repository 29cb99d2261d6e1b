"""Build the whole batch script from a LaunchPlan. Pure: the dry run prints it, the launcher submits it.

Environment, entrypoint and secrets of ranks are not in it: nodes read them from the run directory. So a script
contains no secret, and nothing passes through `--export`, which splits values at commas.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from fsdpctl.commands.environment import code_env
from fsdpctl.contract import Env
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan, SlurmPlan
from fsdpctl.errors import UsageError

_EXCLUDE = "--exclude="
COMMENT_PREFIX = "fsdpctl:"
SUPERVISOR = "fsdpctl.backends.slurm.job"
SIGNAL_MARGIN_S = 30
"""From the KILL of ranks that did not save within the grace, to the end of the allocation."""

_MAX_SIGNAL_S = 65_535  # sbatch(1): --signal's time is a 16-bit number of seconds
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def batch_script(plan: LaunchPlan, after_job: str | None = None) -> str:
    """Return the batch script: it starts the supervisor of the run's attempts on the first node.

    `after_job`: the job of the run that must succeed before.
    """
    assert plan.slurm is not None
    run = RunPaths.of(plan.run_dir)
    env = {Env.RUN_ID: plan.run_id, **code_env(run)}
    return script_of(
        sbatch_options(plan, after_job),
        [
            _refuse_without_code(run),
            *plan.setup,
            *[f"export {name}={shlex.quote(value)}" for name, value in env.items()],
            shlex.join(["exec", plan.slurm.python, "-m", SUPERVISOR, plan.run_dir]),
        ],
    )


def script_of(options: Sequence[str], commands: Sequence[str]) -> str:
    """Return a batch script. Raise UsageError for a control character."""
    header = [f"#SBATCH {quote_option(option)}" for option in options]
    lines = ["#!/bin/bash", *header, "", "set -e", "umask 077", *commands]
    if found := next((line for line in lines if _CONTROL.search(line)), None):
        raise UsageError(f"a control character would reach the batch script: {found!r}")
    return "\n".join(lines) + "\n"


def _refuse_without_code(run: RunPaths) -> str:
    """Return the line that ends a job whose code is gone: Python would run an installed fsdpctl, or name no path."""
    code = shlex.quote(str(run.code))
    return f"test -d {code} || {{ echo 'the code of the run is missing:' {code} >&2; exit 1; }}"


def sbatch_options(plan: LaunchPlan, after_job: str | None = None) -> list[str]:
    """Return all options of the job, unquoted: those of fsdpctl, then those of the profile."""
    log = escape_pattern(str(RunPaths.of(plan.run_dir).batch_log))
    return job_options(plan, JobNames(plan.job_name, plan.run_id, log, plan.run_dir), after_job)


@dataclass(frozen=True)
class JobNames:
    """The options of a job that no other job has."""

    name: str
    owner: str  # for its comment
    log: str  # a pattern
    directory: str


def job_options(plan: LaunchPlan, names: JobNames, after_job: str | None = None) -> list[str]:
    """Return all options of a job, unquoted."""
    assert plan.slurm is not None
    time_limit = [f"--time={format_time(plan.time_limit_s)}"] if plan.time_limit_s is not None else []
    after = [f"--dependency=afterok:{after_job}", "--kill-on-invalid-dep=yes"] if after_job is not None else []
    warning_s = min(plan.grace_s + SIGNAL_MARGIN_S, _MAX_SIGNAL_S)
    return [
        f"--job-name={names.name}",
        f"--comment={job_comment(names.owner, plan.slurm.comment)}",
        f"--nodes={len(plan.nodes)}",
        "--ntasks-per-node=1",
        *time_limit,
        *after,
        f"--signal=B:USR2@{warning_s}",
        "--requeue" if plan.slurm.max_requeues else "--no-requeue",
        "--open-mode=append",
        f"--output={names.log}",
        f"--chdir={names.directory}",
        *_without_suspects(plan.slurm),
    ]


def _without_suspects(slurm: SlurmPlan) -> list[str]:
    """Return the profile's options, with the suspects among the nodes that it excludes."""
    if not slurm.suspects:
        return list(slurm.options)
    excluded = [option.partition("=")[2] for option in slurm.options if option.startswith(_EXCLUDE)]
    others = [option for option in slurm.options if not option.startswith(_EXCLUDE)]
    return [*others, _EXCLUDE + ",".join([*excluded, *slurm.suspects])]


def job_comment(owner: str, text: str = "") -> str:
    """Return the comment that identifies a run's job: job ids are reused after the controller lost its state."""
    return f"{COMMENT_PREFIX}{owner} {text}".rstrip()


def owner_of(comment: str, job_id: str) -> str:
    """Return to what a job belongs, or "" for a job that fsdpctl did not submit."""
    if not comment.startswith(COMMENT_PREFIX):
        return ""
    return name_owner(comment.removeprefix(COMMENT_PREFIX).partition(" ")[0], job_id)


def name_owner(name: str, job_id: str) -> str:
    """Return the run id `name` of a job of its own, or `ARRAY/TASK` for a task of the job array `name`."""
    _, is_task, task = job_id.partition("_")
    return f"{name}/{task}" if is_task else name


def format_time(seconds: int) -> str:
    """Return the time as Slurm's D-HH:MM:SS."""
    return f"{seconds // 86400}-{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def quote_option(option: str) -> str:
    """Quote one option for a `#SBATCH` line. sbatch splits it at any blank and ends it at a bare `#`; it removes double
    quotes, and within them a backslash before a backslash or a quote.
    """
    name, equals, value = option.partition("=")
    if _PLAIN.fullmatch(value):
        return option
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}{equals}"{escaped}"'


def escape_pattern(path: str) -> str:
    if "\\" in path:  # there is no escape for it: sbatch stops replacing `%` in a name with a backslash
        raise UsageError(f"Slurm cannot write a log to a path with a backslash: {path}", hint="change runs_root")
    return path.replace("%", "%%")
