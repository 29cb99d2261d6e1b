"""What the jobs of runs have used, by Slurm's own accounts: elapsed time and CPU efficiency, as `seff` computes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from fsdpctl.backends.base import JobUsage
from fsdpctl.backends.slurm.batch_script import name_owner
from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask
from fsdpctl.backends.slurm.job_refs import read_job_ids, read_owners
from fsdpctl.contract.paths import RunPaths

FORMAT = "JobID,ElapsedRaw,AllocCPUS,TotalCPU,WorkDir"
"""The directory is last, because it may contain the separator."""
_CPU_TIME = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+(?:\.\d+)?)")


def read_job_usage(runs: Sequence[RunPaths]) -> dict[str, JobUsage]:
    """Return run id -> usage; nothing of runs without accounts, or where no accounts are kept."""
    job_ids = sorted({job_id for run in runs for job_id in read_job_ids(run)})
    if not job_ids:
        return {}
    argv = ["sacct", "--duplicates", "--noheader", "--parsable2", f"--format={FORMAT}", f"--jobs={','.join(job_ids)}"]
    try:
        found = parse_usage(ask(argv, tool_environment()))
    except SlurmError:
        return {}
    own = {run.root.name: [found[owner] for owner in read_owners(run) if owner in found] for run in runs}
    return {run_id: _add(usages) for run_id, usages in own.items() if usages}


def _add(usages: Sequence[JobUsage]) -> JobUsage:
    return JobUsage(
        sum(usage.elapsed_s for usage in usages),
        sum(usage.allocated_cpu_s for usage in usages),
        sum(usage.used_cpu_s for usage in usages),
    )


def parse_usage(text: str) -> Mapping[str, JobUsage]:
    """Return the usage by owner, from the last part of the working directory: a controller that lost its state gives
    out old ids again. Rows of steps have no directory, and their job's row has their sum."""
    found: dict[str, list[JobUsage]] = {}
    for line in text.splitlines():
        fields = line.split("|", FORMAT.count(","))
        if len(fields) <= FORMAT.count(",") or not fields[4] or not (fields[1].isdecimal() and fields[2].isdecimal()):
            continue
        owner, elapsed_s, cpus = name_owner(PurePath(fields[4]).name, fields[0]), float(fields[1]), int(fields[2])
        found.setdefault(owner, []).append(JobUsage(elapsed_s, elapsed_s * cpus, parse_cpu_time(fields[3])))
    return {owner: _add(usages) for owner, usages in found.items()}


def parse_cpu_time(text: str) -> float:
    """Return the seconds of sacct's `[DD-[HH:]]MM:SS[.mmm]`; 0 for anything else."""
    if (match := _CPU_TIME.fullmatch(text)) is None:
        return 0.0
    days, hours, minutes, seconds = match.groups()
    return ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes)) * 60 + float(seconds)
