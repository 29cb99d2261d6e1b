"""Ask squeue about all of a user's jobs at once: one query for all runs, at most every two seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fsdpctl.backends.base import View
from fsdpctl.backends.slurm.batch_script import owner_of
from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask
from fsdpctl.backends.slurm.job.scontrol_output import END_STATES
from fsdpctl.contract import Phase, State
from fsdpctl.contract.paths import RunPaths

POLL_S = 2.0
MAX_POLL_S = 60.0

FORMAT = "%i|%T|%r|%S|%V|%k"
"""Job id, state, reason, expected start, submit time, comment; the comment is last: it may contain the separator."""

_WAITING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT")

_NEVER = (
    *("BadConstraints", "DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS", "PartitionConfig"),
    *("PartitionNodeLimit", "PartitionTimeLimit"),
)
"""Slurm's reasons that go away only when the job or the cluster is changed."""

_MEANINGS = {
    "BeginTime": "Slurm delays a requeued job for about two minutes",
    "Dependency": "waits for another job",
    "DependencyNeverSatisfied": "a job that it waits for has failed or is gone",
    "JobArrayTaskLimit": "so many runs of its sweep as `--at-once` allows are alive",
    "JobHeldAdmin": "held by an administrator",
    "JobHeldUser": "held; `scontrol release` releases it",
    "PartitionConfig": "the partition has no such nodes, or not so many",
    "PartitionNodeLimit": "the partition gives no job so many nodes",
    "PartitionTimeLimit": "the partition gives no job so much time; set `backend.time` to the partition's limit",
    "Priority": "other jobs come first",
    "ReqNodeNotAvail": "a requested node is not available",
    "Resources": "the nodes are in use",
    "launch failed requeued held": "a node could not begin it; `scontrol release` tries again",
}

_NO_VALUE = ("", "N/A", "None", "null", "Unknown")

_HELD = ("JobHeldAdmin", "JobHeldUser")

_PAUSED = ("STOPPED", "SUSPENDED")
"""States of a job that keeps its nodes, but whose processes do not run."""

LAUNCH_FAILURE = "JobLaunchFailure"
"""Slurm's reason for exit code 0:53: slurmd could not open the files of the batch script."""


@dataclass(frozen=True)
class QueuedJob:
    """One job of the user, queued, running, or ended a short while ago."""

    job_id: str
    state: str
    reason: str
    start: str  # expected or real; "N/A" when unknown
    submitted: str
    owner: str  # run id, or `ARRAY/TASK`; "" for jobs that fsdpctl did not submit

    @property
    def is_waiting(self) -> bool:
        return self.state in _WAITING

    @property
    def is_array_task(self) -> bool:
        return "_" in self.job_id

    @property
    def is_held(self) -> bool:
        return self.is_waiting and self.reason in _HELD

    @property
    def never_starts(self) -> bool:
        return self.is_waiting and self.reason in _NEVER

    @property
    def is_over(self) -> bool:
        return self.state in END_STATES

    @property
    def has_failed_launch(self) -> bool:
        return self.reason == LAUNCH_FAILURE or self.reason.startswith("RaisedSignal:53")  # so from Slurm 23 on


def parse_queue(text: str) -> list[QueuedJob]:
    """Parse the output of `squeue --format=FORMAT`; lines of another form are skipped."""
    jobs = []
    for line in text.splitlines():
        fields = line.strip().split("|", FORMAT.count("|"))
        if len(fields) == FORMAT.count("|") + 1:
            job_id, state, reason, start, submitted, comment = fields
            jobs.append(QueuedJob(job_id, state, reason, start, submitted, owner_of(comment, job_id)))
    return jobs


def view_job(job: QueuedJob, run: RunPaths) -> View:
    """Return a job's state as that of its run."""
    job_id = job.job_id
    if job.is_waiting:
        never = "; it never starts: `fsdpctl cancel` removes it" if job.never_starts else ""
        return View("queued", f"job {job_id}: {explain(job.reason)}{_expected(job.start)}{never}", job_id=job_id)
    if job.state == "PREEMPTED":
        reason = f"job {job_id} was preempted, and Slurm does not requeue it: `fsdpctl resume` continues the run"
        return View("none", reason, State.STOPPED, is_stranded=True, job_id=job_id)
    if job.is_over:
        final = {"CANCELLED": State.CANCELLED, "COMPLETED": State.LOST}.get(job.state, State.FAILED)
        return View("none", _explain_end(job, run), final, job_id=job_id)
    if job.state in _PAUSED:
        reason = f"job {job_id} is {job.state} in Slurm: its processes are paused until Slurm resumes it"
        return View("running", reason, phase=Phase.SUSPENDED, job_id=job_id)
    return View("running", job_id=job_id)


def _explain_end(job: QueuedJob, run: RunPaths) -> str:
    """Return why a job has ended of which no attempt has a verdict, as far as Slurm and the run directory show it."""
    if job.has_failed_launch:
        return (
            f"job {job.job_id} could not begin ({LAUNCH_FAILURE}, exit code 0:53): its node does not see {run.root},"
            " or cannot write there; `runs_root` must be on a disk that all nodes share"
        )
    ended = f"job {job.job_id} is {job.state} in Slurm"
    if not run.code.is_dir():
        return f"{ended}: the run's code is missing, {run.code}; `fsdpctl resume --update-code` copies it again"
    return f"{ended}; see batch.log" if run.batch_log.exists() else ended


def explain(reason: str) -> str:
    """Return Slurm's reason for waiting, with its meaning if known."""
    name = reason.strip("()").split(",")[0]
    if name in _NO_VALUE:
        return "Slurm has not looked at the job yet"
    meaning = _MEANINGS.get(name)
    return f"{reason} ({meaning})" if meaning else reason


def _expected(start: str) -> str:
    return "" if start.strip("()") in _NO_VALUE else f", expected to start {start.replace('T', ' ')}"


def ask_queue() -> list[QueuedJob]:
    argv = ["squeue", "--me", "--array", "--states=all", "--noheader", f"--format={FORMAT}"]
    return parse_queue(ask(argv, tool_environment()))


class Queue:
    """Asks squeue at most every two seconds, and less often while it does not answer."""

    def __init__(
        self,
        ask: Callable[[], Sequence[QueuedJob]] = ask_queue,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ask, self._clock, self._sleep = ask, clock, sleep
        self._pause_s, self._next, self._answered = POLL_S, 0.0, -POLL_S
        self._jobs: Sequence[QueuedJob] | SlurmError = ()

    def jobs(self) -> Sequence[QueuedJob]:
        """Return all of this user's jobs that Slurm still knows. Raise SlurmError."""
        if self._clock() >= self._next:
            self.refresh()
        if isinstance(self._jobs, SlurmError):
            raise self._jobs
        return self._jobs

    def refresh(self) -> None:
        """Ask now, or as soon as two seconds have passed since the last answer."""
        self._sleep(max(0.0, self._answered + POLL_S - self._clock()))
        try:
            self._jobs = self._ask()
            self._pause_s = POLL_S
        except SlurmError as error:
            self._jobs = error
            self._pause_s = min(2 * self._pause_s, MAX_POLL_S)
        self._answered = self._clock()
        self._next = self._answered + self._pause_s
