"""What the jobs of runs have used, by Slurm's own accounts: elapsed time and CPU efficiency, as `seff` computes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from fsdpctl.backends.base import JobUsage
from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask
from fsdpctl.backends.slurm.job_refs import read_job_ids
from fsdpctl.contract.paths import RunPaths

FORMAT = "JobIDRaw,ElapsedRaw,AllocCPUS,TotalCPU,WorkDir"
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
    return {run.root.name: found[run.root.name] for run in runs if run.root.name in found}


def parse_usage(text: str) -> Mapping[str, JobUsage]:
    """Return the usage by the last part of the working directory, which is the run's own: a controller that lost its
    state gives out old ids again. Rows of steps have no directory, and their job's row has their sum."""
    found: dict[str, JobUsage] = {}
    for line in text.splitlines():
        fields = line.split("|", FORMAT.count(","))
        if len(fields) <= FORMAT.count(",") or not fields[4] or not (fields[1].isdigit() and fields[2].isdigit()):
            continue
        run_id, elapsed_s, cpus = PurePath(fields[4]).name, float(fields[1]), int(fields[2])
        before = found.get(run_id, JobUsage())
        found[run_id] = JobUsage(
            before.elapsed_s + elapsed_s,
            before.allocated_cpu_s + elapsed_s * cpus,
            before.used_cpu_s + parse_cpu_time(fields[3]),
        )
    return found


def parse_cpu_time(text: str) -> float:
    """Return the seconds of sacct's `[DD-[HH:]]MM:SS[.mmm]`; 0 for anything else."""
    if (match := _CPU_TIME.fullmatch(text)) is None:
        return 0.0
    days, hours, minutes, seconds = match.groups()
    return ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes)) * 60 + float(seconds)
