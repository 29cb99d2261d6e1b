"""The supervisor of a Slurm run: what the batch script becomes on the first node of the allocation.

    python -m fsdpctl.backends.slurm.job.batch RUN_DIR

It runs attempts with srun, one agent a node, and hands the nodes back when it must. It has no state of its own: what
it decides is written beside the attempt that it judged, and a requeued job begins here again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

from fsdpctl.backends.slurm.job import scontrol
from fsdpctl.backends.slurm.job.partition import Partition, read_partition
from fsdpctl.backends.slurm.job.requeue import (
    Next,
    Situation,
    Step,
    decide_step,
    find_suspects,
    history_of,
    is_final,
    read_signal,
)
from fsdpctl.backends.slurm.job.scontrol_output import Job
from fsdpctl.backends.slurm.job.srun import srun_argv, srun_env
from fsdpctl.contract import AbortReason, State
from fsdpctl.contract.control_files import create_once, read_control_file, write_request
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import Allocation, LaunchPlan
from fsdpctl.runs.events import add_event, record_start
from fsdpctl.runs.evidence import attempt_end, newest_step, read_plan, read_verdict
from fsdpctl.runs.store import read_record
from fsdpctl.supervise.attempts import begin_attempt, close_open_attempts, log, patiently, record
from fsdpctl.supervise.decide import History, Verdict, decide_next, judge

POLL_S = 0.1
PAUSE_S = 1.0
"""Between a failure and the next attempt, and between questions to a controller that does not answer."""


class Batch:
    """One allocation of a run."""

    def __init__(self, run: RunPaths, job_id: str, own_restarts: int, host_list: str, partition: str) -> None:
        self.run, self.job_id, self.own_restarts = run, job_id, own_restarts
        self.plan: LaunchPlan = read_plan(run)
        assert self.plan.slurm is not None
        self.slurm = self.plan.slurm
        submissions = read_record(run).submissions
        self.submission, self.first_attempt = len(submissions), submissions[-1].first_attempt
        self.nodes = scontrol.allocated_nodes(host_list)
        self.preempt_grace_s = preempt_grace_s(self.plan, read_partition(partition))
        self.signals: list[int] = []

    def supervise(self) -> int:
        """Run attempts until this allocation has no further use; return the exit code of the job."""
        if (owner := patiently(self._claim)) is None:
            return 1
        if owner != self.job_id:
            log(f"job {owner} runs this submission already: a killed submit was repeated")
            return 0
        close_open_attempts(self.run, len(self.plan.nodes), self.first_attempt)
        if self._has_ended():
            log("the run has ended: whoever requeued its job gains nothing by that")
            return 0
        while True:
            allocation = Allocation(self.job_id, self.own_restarts, self.nodes)
            if (attempt := patiently(partial(begin_attempt, self.run, allocation))) is None:
                return 1
            self._run_attempt(attempt)
            step = self._judge(attempt)
            record(attempt, step.verdict)
            if step.next is Next.REQUEUE and (refusal := self._requeue(attempt, step.exclude)):
                reason = f"Slurm refused to requeue ({refusal}), `fsdpctl resume` continues it; {step.verdict.reason}"
                stranded = replace(step.verdict, reason=reason, restart=False, is_stranded=not step.exclude)
                step = Step(Next.LEAVE, stranded)
                record(attempt, step.verdict)
            if step.next is not Next.AGAIN:
                return 0 if step.verdict.restart or step.verdict.state in (State.SUCCEEDED, State.STOPPED) else 1
            time.sleep(PAUSE_S)

    def _claim(self) -> str:
        """The job that owns this submission, now and after every requeue: whichever came first."""
        path = self.run.job_claim(self.submission)
        create_once(path, self.job_id)
        note = read_control_file(path)
        assert note is not None
        return note.cause

    def _has_ended(self) -> bool:
        attempts = self.run.attempts()
        if not attempts or attempts[-1].number < self.first_attempt:
            return False
        verdict = read_verdict(attempts[-1])
        return verdict is not None and is_final(verdict)

    def _run_attempt(self, attempt: AttemptPaths) -> None:
        env = srun_env(os.environ, attempt, self.preempt_grace_s)
        srun = subprocess.Popen(srun_argv(self.plan, attempt), env=env, stdin=subprocess.DEVNULL)
        record_start(attempt, len(self.nodes))
        patience = time.monotonic() + self.plan.join_timeout_s
        while srun.poll() is None:
            while self.signals:
                self._handle_signal(self.signals.pop(), attempt)
            if time.monotonic() > patience and not attempt.nodes():
                srun.kill()  # it waits for ever where the controller was restarted while it asked for its step
            time.sleep(POLL_S)

    def _handle_signal(self, number: int, attempt: AttemptPaths) -> None:
        try:
            job: Job | None = scontrol.show_job(self.job_id)
        except (scontrol.SlurmError, ValueError) as error:
            add_event(attempt, f"signal {number}, but Slurm does not say why: {error}")
            job = None
        word, reason = read_signal(number, job, self.own_restarts)
        if write_request(attempt.abort if word is AbortReason.CANCEL else attempt.stop, word, reason):
            add_event(attempt, f"{signal.Signals(number).name} came: {reason}")
        if job is not None and job.is_taken and is_wanted(attempt) and self.own_restarts < self.slurm.max_requeues:
            self._requeue(attempt, ())  # where Slurm cancels what it preempts; KILL comes soon, so now

    def _judge(self, attempt: AttemptPaths) -> Step:
        end = attempt_end(attempt, len(self.plan.nodes))
        verdict = replace(judge(end), step=newest_step(self.run))
        if not attempt.nodes():
            verdict = replace(verdict, reason=f"srun started no agent; see {self.run.batch_log.name}")
        if is_final(verdict):
            return Step(Next.LEAVE, verdict)
        verdict = decide_next(verdict, self._history(verdict))
        return decide_step(
            Situation(
                verdict=verdict,
                stop=read_control_file(attempt.stop),
                job=self._ask_job(attempt),
                own_restarts=self.own_restarts,
                max_requeues=self.slurm.max_requeues,
                suspects=tuple(self.nodes[rank].name for rank in find_suspects(end)),
            )
        )

    def _history(self, verdict: Verdict) -> History:
        known = [(a.number, v) for a in self.run.attempts() if (v := read_verdict(a)) is not None]
        earlier = [v for number, v in known if number >= self.first_attempt]
        before = max((v.step for number, v in known if number < self.first_attempt), default=0)
        return history_of(earlier, verdict, before, self.plan.restarts)

    def _ask_job(self, attempt: AttemptPaths) -> Job:
        """What Slurm wants of this job; while the controller is down there is nothing to do but to ask again."""
        is_told = False
        while True:
            try:
                return scontrol.show_job(self.job_id)
            except (scontrol.SlurmError, ValueError) as error:
                if not is_told:
                    add_event(attempt, f"asks again until Slurm answers: {error}")
                is_told = True
                time.sleep(PAUSE_S)

    def _requeue(self, attempt: AttemptPaths, exclude: tuple[str, ...]) -> str:
        """Ask for it; from then on Slurm ends this very script. Returns why it refused, "" when it did not."""
        excluded = [*filter(None, [self._ask_job(attempt).excluded]), *exclude] if exclude else []
        try:
            scontrol.requeue(self.job_id, ",".join(excluded))
        except scontrol.SlurmError as error:
            if self._ask_job(attempt).restarts == self.own_restarts:
                return str(error)
        return ""


def preempt_grace_s(plan: LaunchPlan, partition: Partition | None) -> int:
    """The shorter one of the job's grace, which is all that other stops know, and what the partition gives."""
    if partition is None or not partition.is_preempted:
        return plan.grace_s
    return min(plan.grace_s, partition.time_to_save_s)


def is_wanted(attempt: AttemptPaths) -> bool:
    """Whether nobody has asked for the end of the run."""
    stop, abort = read_control_file(attempt.stop), read_control_file(attempt.abort)
    return (stop is None or not stop.is_users_stop) and (abort is None or not abort.is_cancel)


def main(run_dir: str) -> int:
    os.umask(0o077)
    batch = Batch(
        RunPaths(Path(run_dir)),
        os.environ["SLURM_JOB_ID"],
        int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        os.environ["SLURM_JOB_NODELIST"],
        os.environ["SLURM_JOB_PARTITION"],
    )

    def on_signal(number: int, _frame: FrameType | None) -> None:
        batch.signals.append(number)

    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, on_signal)
    return batch.supervise()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
