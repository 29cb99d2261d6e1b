"""The agents of a run in a hold or an interactive allocation, for its detached supervisor."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from fsdpctl.backends.slurm.batch_script import SIGNAL_MARGIN_S
from fsdpctl.backends.slurm.environment import job_environment, tool_environment
from fsdpctl.backends.slurm.job.agents import OwnJob, SlurmAgents
from fsdpctl.backends.slurm.job.partition import read_partitions
from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask, expand_hosts, show_job
from fsdpctl.backends.slurm.job.srun import srun_argv
from fsdpctl.backends.slurm.job_refs import read_ref
from fsdpctl.commands.container import task_setup
from fsdpctl.commands.environment import code_env
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.contract import Env, StopReason
from fsdpctl.contract.control_files import write_request
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import LaunchError, RefusedError
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.supervise.agents import Agents, AttemptCheck, Step
from fsdpctl.supervise.history import History


class AllocationAgents(SlurmAgents):
    """The agents of one run on the first nodes of an allocation. They outlive their supervisor, as local ones do."""

    disk_tries = Agents.disk_tries

    def __init__(self, run: RunPaths, plan: LaunchPlan, job: OwnJob) -> None:
        super().__init__(run, plan, replace(job, nodes=job.nodes[: len(plan.nodes)]))

    def open_attempt(self) -> AttemptPaths | None:
        return Agents.open_attempt(self)

    def start(self, attempt: AttemptPaths) -> None:
        if not any(node.agent.exists() for node in attempt.nodes()):  # else an earlier supervisor has started them
            super().start(attempt)

    def is_over(self, attempt: AttemptPaths) -> bool:
        return super().is_over(attempt) and not AttemptFacts(attempt).living_agents

    def check(self, attempt: AttemptPaths) -> AttemptCheck:
        hold = self.plan.hold
        if hold is not None and time.time() > hold.until - self.plan.grace_s - SIGNAL_MARGIN_S:
            write_request(attempt.stop, StopReason.TIME, f"hold {hold.name} is about to end")
        return super().check(attempt)

    def decide(self, attempt: AttemptPaths, end: AttemptEnd, verdict: Verdict, history: History) -> Step:
        if verdict.restart and has_ended(self.job.job_id):
            reason = f"allocation {self.job.job_id} has ended; {verdict.reason}"
            verdict = replace(verdict, restart=False, reason=reason)
        return Agents.decide(self, attempt, end, verdict, history)

    def srun_command(self, attempt: AttemptPaths) -> list[str]:
        srun, *options = srun_argv(self.plan, attempt)
        argv = [srun, f"--nodelist={','.join(self.job.nodes)}", *options]
        return argv if task_setup(self.plan) else with_setup(self.plan.setup, argv)  # as in a batch script

    def inherited(self) -> dict[str, str]:
        tag = {Env.RUN_ID: self.plan.run_id, "SLURM_JOB_ID": self.job.job_id}
        return {**job_environment(os.environ), **code_env(self.run), **tag}


def open_agents(run: RunPaths, plan: LaunchPlan) -> AllocationAgents:
    ref = read_ref(run)
    if ref is None or ref.job_id is None or not ref.is_interactive:
        raise LaunchError(f"{run.root.name} has a job of its own, which supervises it")
    return AllocationAgents(run, plan, read_allocation(ref.job_id, owner(plan)))


def owner(plan: LaunchPlan) -> str:
    """Return who has the allocation of a run, for messages."""
    return f"hold {plan.hold.name}" if plan.hold is not None else "this shell"


def read_allocation(job_id: str, owner: str) -> OwnJob:
    """Return a running allocation of this user. Raise RefusedError if it has ended, or Slurm does not answer."""
    argv = ["squeue", "--noheader", f"--jobs={job_id}", "--states=RUNNING", "--format=%N|%P"]
    try:
        hosts, _, partition = ask(argv, tool_environment()).strip().partition("|")
        if not hosts:
            raise SlurmError("no such allocation is running")
        nodes = expand_hosts(hosts)
    except SlurmError as error:
        hint = "`exit` leaves a shell whose allocation has ended; `unset SLURM_JOB_ID` keeps the shell"
        raise RefusedError(f"{owner} has allocation {job_id}, but Slurm reports: {error}", hint=hint) from error
    return OwnJob(job_id, 0, nodes, next(iter(read_partitions(partition, tool_environment())), None))


def has_ended(job_id: str) -> bool:
    """Return whether Slurm reports the end of the allocation; False while it does not answer."""
    try:
        return show_job(job_id).is_ending
    except (SlurmError, ValueError):
        return False
