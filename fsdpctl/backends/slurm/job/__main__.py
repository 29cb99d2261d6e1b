"""The supervisor of a Slurm run: the batch script starts it on the first node of the allocation.

    python -m fsdpctl.backends.slurm.job RUN_DIR

A requeued job starts here again.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from fsdpctl.backends.slurm.job.agents import OwnJob, SlurmAgents
from fsdpctl.backends.slurm.job.partition import read_partitions
from fsdpctl.backends.slurm.job.scontrol import expand_hosts
from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.disk import retry_disk_errors
from fsdpctl.supervise.loop import Supervisor

NOTICE_WAIT_S = 30.0
"""Longest time that nodes stay allocated for notices that are being sent."""


def main(run: RunPaths) -> int:
    """Run attempts until this allocation is not needed any more; return the exit code of the job."""
    os.umask(0o077)
    signals = _collect_signals()  # before anything that may take long: by default each of them ends this process
    job = OwnJob(
        job_id=own_job_id(os.environ),
        restarts=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        nodes=expand_hosts(os.environ["SLURM_JOB_NODELIST"]),
        partition=next(iter(read_partitions(os.environ["SLURM_JOB_PARTITION"])), None),
    )
    agents = SlurmAgents(run, read_plan(run), job, signals)
    ended = retry_disk_errors(lambda: (Supervisor(agents).work(),), agents.disk_tries)
    agents.notifier.wait(NOTICE_WAIT_S)  # Slurm kills what is left of the job when this process ends
    return 1 if ended is None else exit_code(*ended)


def _collect_signals() -> list[int]:
    """Return a list to which Slurm's signals are added from now on."""
    signals: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, on_signal)
    return signals


def own_job_id(env: Mapping[str, str]) -> str:
    """Return the id by which Slurm's commands know this job alone: that of an array's last task is the array's own."""
    if (array := env.get("SLURM_ARRAY_JOB_ID")) is not None:
        return f"{array}_{env['SLURM_ARRAY_TASK_ID']}"
    return env["SLURM_JOB_ID"]


def exit_code(verdict: Verdict | None) -> int:
    """Return the job's exit code: 0 where there was nothing to do, the run ended well, or it restarts."""
    if verdict is None or verdict.restart or verdict.state in (State.SUCCEEDED, State.STOPPED):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(RunPaths(Path(sys.argv[1]))))
