"""Ask sacct about jobs that the controller has forgotten, on clusters that keep accounts.

Most clusters do not store comments there: a job is recognized by its working directory, which is that of its run or
of its job array.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePath

from fsdpctl.backends.slurm.batch_script import name_owner
from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask
from fsdpctl.backends.slurm.queue import LAUNCH_FAILURE, MAX_POLL_S, POLL_S, QueuedJob

FORMAT = "JobID,State,ExitCode,Submit,WorkDir"
"""The directory is last, because it may contain the separator."""


def parse_accounts(text: str) -> list[QueuedJob]:
    """Parse the output of `sacct --parsable2 --format=FORMAT`; a state may have more text, as in `CANCELLED by 0`."""
    jobs = []
    for line in text.splitlines():
        fields = line.split("|", FORMAT.count(","))
        if len(fields) == FORMAT.count(",") + 1 and fields[1]:
            job_id, state, exit_code, submitted, directory = fields
            reason = LAUNCH_FAILURE if exit_code == "0:53" else ""
            owner = name_owner(PurePath(directory).name, job_id)
            jobs.append(QueuedJob(job_id, state.split()[0], reason, "", submitted, owner))
    return jobs


def ask_accounts(job_ids: Collection[str]) -> list[QueuedJob]:
    argv = ["sacct", "--allocations", "--duplicates", "--noheader", "--parsable2", f"--format={FORMAT}"]
    return parse_accounts(ask([*argv, f"--jobs={','.join(sorted(job_ids))}"], tool_environment()))


class Accounts:
    """Asks sacct once about each job: many jobs in one query, at most every two seconds."""

    def __init__(
        self,
        ask: Callable[[Collection[str]], Sequence[QueuedJob]] = ask_accounts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._clock, self._next = ask, clock, 0.0
        self._jobs: dict[str, list[QueuedJob]] = {}

    def jobs(self, job_ids: Collection[str]) -> list[QueuedJob]:
        """Return the known jobs of these ids; none where no accounts are kept."""
        if (unknown := {*job_ids} - {*self._jobs}) and self._clock() >= self._next:
            self._learn(unknown)
        return [job for job_id in job_ids for job in self._jobs.get(job_id, [])]

    def _learn(self, job_ids: set[str]) -> None:
        try:
            found = self._ask(job_ids)
        except SlurmError:  # disabled, or down for now
            self._next = self._clock() + MAX_POLL_S
            return
        self._jobs |= {job_id: [job for job in found if job.job_id == job_id] for job_id in job_ids}
        self._next = self._clock() + POLL_S
