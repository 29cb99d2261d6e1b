"""The agents of a Slurm run, inside its allocation: srun starts one on each node; a requeue releases the nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fsdpctl.backends.slurm.job import scontrol
from fsdpctl.backends.slurm.job.decide_step import Situation, decide_step, is_final, read_signal
from fsdpctl.backends.slurm.job.partition import Partition
from fsdpctl.backends.slurm.job.requeued import find_end
from fsdpctl.backends.slurm.job.scontrol_output import Job
from fsdpctl.backends.slurm.job.srun import srun_argv, srun_env, sweep_argv
from fsdpctl.contract import AbortReason, Cause, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once, read_control_file, write_request
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import Allocation, LaunchPlan
from fsdpctl.errors import LaunchError
from fsdpctl.node.os.log import log
from fsdpctl.runs.events import add_event
from fsdpctl.runs.evidence import AttemptFacts, RunFacts
from fsdpctl.runs.store import read_record
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.supervise.agents import Agents, AttemptCheck, Step
from fsdpctl.supervise.disk import begin_attempt
from fsdpctl.supervise.history import History
from fsdpctl.supervise.notify import record_and_notify
from fsdpctl.supervise.suspects import find_suspects

ASK_AGAIN_S = 1.0
"""Between two queries to a controller that does not answer."""
SWEEP_S = 30.0
"""Longest wait for the nodes whose agent and guard were killed."""


@dataclass(frozen=True)
class OwnJob:
    """The job whose batch script runs this process."""

    job_id: str
    restarts: int  # how often Slurm had requeued it when this allocation began
    nodes: tuple[str, ...]  # names
    partition: Partition | None


class SlurmAgents(Agents):
    """The agents of one allocation."""

    disk_tries = 30  # allocated nodes should not wait for long

    def __init__(self, run: RunPaths, plan: LaunchPlan, job: OwnJob, signals: list[int] | None = None) -> None:
        """`signals`: those that this process has got and that are not handled yet; more are added to it."""
        super().__init__(run, plan)
        assert plan.slurm is not None
        self.slurm, self.job = plan.slurm, job
        self.preempt_grace_s = preempt_grace_s(plan, job.partition)
        self._signals = signals if signals is not None else []
        self._has_begun = False
        self._srun: subprocess.Popen[bytes] | None = None
        self._step: AttemptPaths | None = None  # the attempt that srun runs
        self._agents_until = 0.0

    def open_attempt(self) -> AttemptPaths | None:
        """Return a new attempt; None if another job owns this submission, or the run has ended."""
        if not self._has_begun:
            if not self._claim(len(read_record(self.run).submissions)):
                return None
            if why := find_end(self.run, self.plan, self.notifier):
                log(f"no attempt is started: {why}")
                return None
            last = RunFacts(self.run).newest_of_submission
            attempt = begin_attempt(self, last.paths if last is not None else None)
            self._has_begun = True
            if not self._may_start(attempt):
                return None
        return self.run.attempts()[-1]

    def _may_start(self, attempt: AttemptPaths) -> bool:
        """Return whether the run that this one waited for has succeeded: a job that was stopped is "ok" for Slurm, too.

        Else record that this one does not start.
        """
        after = self.plan.after
        if after is None or attempt.number != read_record(self.run).submissions[-1].first_attempt:
            return True
        state = RunFacts(RunPaths.of(after.run_dir)).final_state
        if state is not State.SUCCEEDED:
            reason = f"not started: run {after.run_id}, for which it waited, is {state or 'not at its end'}"
            record_and_notify(self.notifier, attempt, Verdict(State.CANCELLED, reason, cause=Cause.START))
        return state is State.SUCCEEDED

    def _claim(self, submission: int) -> bool:
        """Return whether this job owns the submission, now and after every requeue: the first job to claim it does."""
        path = self.run.job_claim(submission)
        create_once(path, self.job.job_id)
        claim = read_control_file(path)
        if claim is None or claim.cause == self.job.job_id:
            return True
        log(f"job {claim.cause} runs this submission already: a killed submit was repeated")
        return False

    def describe_nodes(self, attempt: AttemptPaths) -> None:
        nodes = scontrol.find_addresses(self.job.nodes)  # again for each attempt: the controller may have been down
        write_json(attempt.allocation, Allocation(self.job.job_id, self.job.restarts, nodes))

    def start(self, attempt: AttemptPaths) -> None:
        if self._step == attempt:
            return
        env = srun_env(self.inherited(), attempt, self.preempt_grace_s)
        try:
            self._srun = subprocess.Popen(self.srun_command(attempt), env=env, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise LaunchError(f"srun cannot be started: {error.strerror}") from None
        self._step, self._agents_until = attempt, time.monotonic() + self.plan.join_timeout_s

    def srun_command(self, attempt: AttemptPaths) -> list[str]:
        """Return the command that starts the attempt's agents."""
        return srun_argv(self.plan, attempt)

    def inherited(self) -> Mapping[str, str]:
        """Return the environment that srun is given, but for the attempt's own variables."""
        return os.environ

    def machine(self, rank: int) -> tuple[str, str]:
        name = self.job.nodes[rank]
        return name, name

    def is_over(self, attempt: AttemptPaths) -> bool:
        return self._srun is None or self._srun.poll() is not None

    def check(self, attempt: AttemptPaths) -> AttemptCheck:
        while self._signals:
            self._handle_signal(self._signals.pop(), attempt)
        if self._srun is not None and time.monotonic() > self._agents_until and not attempt.nodes():
            self._srun.kill()  # it waits forever if the controller was restarted while it asked for its step
        return AttemptCheck()

    def end(self, attempt: AttemptPaths, *, is_last: bool = True) -> list[str]:
        """Sweep the nodes whose agent and guard were killed; the other agents have done it.

        Slurm ends what is left with the step where it tracks processes by cgroup. A node that cannot be swept is an
        event only: Slurm has to end its job, and no attempt must wait for a node that is down.
        """
        vanished = [node for node in attempt.nodes() if node.agent.exists() and not node.end.exists()]
        sweeps = {node.node_rank: self._start_sweep(attempt, node.node_rank) for node in vanished}
        deadline = time.monotonic() + SWEEP_S
        for rank, sweep in sweeps.items():
            if problem := _wait(sweep, deadline - time.monotonic()):
                add_event(attempt, f"node {rank} cannot be swept: {problem}")
        return []

    def _start_sweep(self, attempt: AttemptPaths, node_rank: int) -> subprocess.Popen[str]:
        argv = sweep_argv(attempt, node_rank, self.job.nodes[node_rank])
        env = srun_env(self.inherited(), attempt, self.preempt_grace_s)
        return subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def _handle_signal(self, number: int, attempt: AttemptPaths) -> None:
        try:
            job: Job | None = scontrol.show_job(self.job.job_id)
        except (scontrol.SlurmError, ValueError) as error:
            add_event(attempt, f"signal {number}, but Slurm does not report why: {error}")
            job = None
        why, reason = read_signal(number, job, self.job.restarts)
        if write_request(attempt.abort if why is AbortReason.CANCEL else attempt.stop, why, reason):
            add_event(attempt, f"{signal.Signals(number).name} came: {reason}")
        is_wanted = AttemptFacts(attempt).is_wanted
        if job is not None and job.is_taken and is_wanted and self.job.restarts < self.slurm.max_requeues:
            self._requeue(attempt, ())  # where Slurm cancels preempted jobs; KILL follows soon, so do it now

    def decide(self, attempt: AttemptPaths, end: AttemptEnd, verdict: Verdict, history: History) -> Step:
        if not attempt.nodes() and verdict.cause is Cause.LOST:
            verdict = replace(verdict, reason=f"srun started no agent; see {self.run.batch_log.name}")
        return decide_step(
            Situation(
                verdict=verdict,
                stop=end.stop,
                job=self._find_job(attempt, end, verdict),
                own_restarts=self.job.restarts,
                max_requeues=self.slurm.max_requeues,
                suspects=tuple(self.job.nodes[rank] for rank in find_suspects(end)),
                history=history,
            )
        )

    def hand_back(self, attempt: AttemptPaths, step: Step) -> Verdict | None:
        """Requeue the job; Slurm then ends this process."""
        if not (refusal := self._requeue(attempt, step.exclude)):
            return None
        verdict = step.verdict
        reason = f"Slurm refused to requeue ({refusal}), `fsdpctl resume` continues it; {verdict.reason}"
        return replace(verdict, reason=reason, restart=False, is_stranded=not step.exclude)

    def _find_job(self, attempt: AttemptPaths, end: AttemptEnd, verdict: Verdict) -> Job | None:
        """Return what Slurm reports of this job; None where nothing depends on it, or a user waits."""
        if is_final(verdict):
            return None
        if end.stop is None or not end.stop.is_users_stop:
            return self._ask_job(attempt)
        try:
            return scontrol.show_job(self.job.job_id)
        except (scontrol.SlurmError, ValueError) as error:
            add_event(attempt, f"ends without an answer of Slurm: {error}")
            return None

    def _ask_job(self, attempt: AttemptPaths) -> Job:
        """Return what Slurm reports of this job; ask again while the controller is down."""
        is_reported = False
        while True:
            try:
                return scontrol.show_job(self.job.job_id)
            except (scontrol.SlurmError, ValueError) as error:
                if not is_reported:
                    add_event(attempt, f"asks again until Slurm answers: {error}")
                is_reported = True
                time.sleep(ASK_AGAIN_S)

    def _requeue(self, attempt: AttemptPaths, exclude: tuple[str, ...]) -> str:
        """Ask for a requeue; return why Slurm refused, or ""."""
        excluded = [*filter(None, [self._ask_job(attempt).excluded]), *exclude] if exclude else []
        try:
            scontrol.requeue(self.job.job_id, ",".join(excluded))
        except scontrol.SlurmError as error:
            if self._ask_job(attempt).restarts == self.job.restarts:
                return str(error)
        return ""


def _wait(srun: subprocess.Popen[str], limit_s: float) -> str:
    """Wait for a sweep; return what went wrong, or ""."""
    try:
        _, errors = srun.communicate(timeout=max(limit_s, 0.0))
    except subprocess.TimeoutExpired:
        srun.kill()
        srun.communicate()
        return f"no answer within {SWEEP_S:.0f} s"
    return errors.strip() if srun.returncode else ""


def preempt_grace_s(plan: LaunchPlan, partition: Partition | None) -> int:
    """Return the seconds to save in a preemption: the job's grace, or less where the partition gives less."""
    if partition is None or not partition.is_preempted:
        return plan.grace_s
    return min(plan.grace_s, partition.time_to_save_s)
