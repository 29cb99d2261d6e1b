"""What a Slurm run does after a signal, and after the end of an attempt, row by row."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from fsdpctl.backends.slurm.job.decide_step import (
    MAX_EXCLUDED,
    Situation,
    decide_step,
    read_signal,
)
from fsdpctl.backends.slurm.job.scontrol_output import Job
from fsdpctl.contract import AbortReason, Cause, State, StopReason
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.agents import Next
from fsdpctl.supervise.history import History

RUNNING = Job("7", "RUNNING", "None", restarts=0, is_preempted=False, excluded="")
PREEMPTED = replace(RUNNING, is_preempted=True)
SCANCELLED = replace(RUNNING, state="COMPLETING")
TAKEN = replace(SCANCELLED, is_preempted=True, is_taken=True)
REQUEUED = replace(SCANCELLED, restarts=1)
TIMED_OUT = replace(SCANCELLED, reason="TimeLimit")
STOPPED = Verdict(State.STOPPED, "stopped; saved at step 9", step=9)
FAILED = Verdict(State.FAILED, "node 1: rank 2 ended with signal 9 (SIGKILL)", restart=True, step=9)
FINAL = replace(FAILED, restart=False)
IN_VAIN = replace(FINAL, cause=Cause.CONFIGURATION)
HISTORY = History(0, 0, 1)


def seen(verdict: Verdict, job: Job = RUNNING, word: str | None = None, suspects: tuple[str, ...] = ()) -> Situation:
    stop = ControlFile(word, "") if word is not None else None
    return Situation(verdict, stop, job, own_restarts=0, max_requeues=100, suspects=suspects, history=HISTORY)


@pytest.mark.parametrize(
    ("situation", "then", "state", "comes_back"),
    [
        # A finished run stays finished, whatever Slurm does to its job in that second.
        (seen(Verdict(State.SUCCEEDED, "finished")), Next.LEAVE, State.SUCCEEDED, False),
        (seen(Verdict(State.SUCCEEDED, "finished"), PREEMPTED), Next.LEAVE, State.SUCCEEDED, False),
        (seen(Verdict(State.SUCCEEDED, "finished"), TIMED_OUT), Next.LEAVE, State.SUCCEEDED, False),
        # A cancel stays a cancel, by fsdpctl or by scancel, even if the ranks had saved.
        (seen(Verdict(State.CANCELLED, "fsdpctl cancel"), PREEMPTED), Next.LEAVE, State.CANCELLED, False),
        (seen(STOPPED, SCANCELLED, StopReason.PREEMPT), Next.LEAVE, State.CANCELLED, False),
        (seen(FAILED, SCANCELLED), Next.LEAVE, State.CANCELLED, False),
        # Slurm has requeued the job already: by hand, after the grace, or for a dead node.
        (seen(STOPPED, REQUEUED, StopReason.PREEMPT), Next.LEAVE, State.STOPPED, True),
        (seen(FINAL, REQUEUED), Next.LEAVE, State.FAILED, True),
        # A user's stop is no preemption, even during one.
        (seen(STOPPED, RUNNING, StopReason.USER), Next.LEAVE, State.STOPPED, False),
        (seen(STOPPED, PREEMPTED, StopReason.USER), Next.LEAVE, State.STOPPED, False),
        (seen(STOPPED, PREEMPTED, ""), Next.LEAVE, State.STOPPED, False),  # a stop file made by hand
        (replace(seen(STOPPED, word=StopReason.USER), job=None), Next.LEAVE, State.STOPPED, False),  # no answer
        (seen(FINAL, RUNNING, StopReason.USER), Next.LEAVE, State.FAILED, False),
        (seen(FINAL, RUNNING, StopReason.USER, ("node2",)), Next.LEAVE, State.FAILED, False),
        (seen(STOPPED, REQUEUED, StopReason.USER), Next.LEAVE, State.STOPPED, False),  # by Slurm, after the grace
        (seen(FINAL, REQUEUED, StopReason.USER), Next.LEAVE, State.FAILED, False),
        (seen(STOPPED, SCANCELLED, StopReason.USER), Next.LEAVE, State.CANCELLED, False),
        # Preemption: a saved job that just exits would count as completed.
        (seen(STOPPED, PREEMPTED, StopReason.PREEMPT), Next.REQUEUE, State.STOPPED, True),
        (seen(FINAL, PREEMPTED, StopReason.PREEMPT), Next.REQUEUE, State.FAILED, True),
        (seen(STOPPED, PREEMPTED, StopReason.TIME), Next.REQUEUE, State.STOPPED, True),
        # Taken without a grace where Slurm cancels what it preempts, with scancel during a grace for comparison.
        (seen(STOPPED, TAKEN, StopReason.PREEMPT), Next.REQUEUE, State.STOPPED, True),
        (seen(FINAL, TAKEN), Next.REQUEUE, State.FAILED, True),
        (seen(STOPPED, replace(TAKEN, is_taken=False), StopReason.PREEMPT), Next.LEAVE, State.CANCELLED, False),
        (seen(STOPPED, TAKEN, StopReason.USER), Next.LEAVE, State.STOPPED, False),
        # The time limit: near, or just passed.
        (seen(STOPPED, RUNNING, StopReason.TIME), Next.REQUEUE, State.STOPPED, True),
        (seen(FINAL, TIMED_OUT), Next.REQUEUE, State.FAILED, True),
        # An error that comes again in every attempt: not even then.
        (seen(IN_VAIN, TIMED_OUT), Next.LEAVE, State.FAILED, False),
        (seen(IN_VAIN, PREEMPTED, StopReason.PREEMPT), Next.LEAVE, State.FAILED, False),
        (seen(replace(IN_VAIN, restart=True)), Next.AGAIN, State.FAILED, True),  # `restart_on` has it
        # A signal of unknown origin.
        (seen(STOPPED, RUNNING, StopReason.PREEMPT), Next.REQUEUE, State.STOPPED, True),
        # Failures: again on the same nodes, on others if a node is at fault, or not again.
        (seen(FAILED), Next.AGAIN, State.FAILED, True),
        (seen(FAILED, suspects=("node2",)), Next.REQUEUE, State.FAILED, True),
        (seen(FINAL), Next.LEAVE, State.FAILED, False),
        (seen(FINAL, suspects=("node2",)), Next.LEAVE, State.FAILED, False),
        (seen(STOPPED), Next.LEAVE, State.STOPPED, False),
    ],
)
def test_the_table(situation: Situation, then: Next, state: State, comes_back: bool) -> None:
    step = decide_step(situation)
    assert (step.next, step.verdict.state, step.verdict.restart) == (then, state, comes_back)
    assert step.verdict.step == situation.verdict.step


def test_only_the_nodes_at_fault_are_excluded() -> None:
    step = decide_step(seen(FAILED, suspects=("node2",)))
    assert step.exclude == ("node2",)
    assert step.verdict.reason == f"without node2, asks for a requeue; {FAILED.reason}"
    assert decide_step(seen(STOPPED, PREEMPTED, suspects=("node2",))).exclude == ()


def test_a_run_excludes_only_so_many_nodes() -> None:
    full = replace(RUNNING, excluded=",".join(f"n{i}" for i in range(MAX_EXCLUDED)))
    assert decide_step(seen(FAILED, full, suspects=("node2",))).next is Next.AGAIN


def test_requeues_are_counted() -> None:
    last = replace(seen(STOPPED, replace(PREEMPTED, restarts=100)), own_restarts=100)
    step = decide_step(last)
    assert (step.next, step.verdict.restart) == (Next.LEAVE, False)
    assert step.verdict.reason.startswith("preempted, and all 100 requeues are used up")


def test_a_run_that_makes_no_step_within_its_allocation_is_not_requeued_forever() -> None:
    stuck = replace(seen(STOPPED, RUNNING, StopReason.TIME), history=History(0, 0, 3))
    step = decide_step(stuck)
    assert (step.next, step.verdict.restart, step.verdict.cause) == (Next.LEAVE, False, Cause.TIME_LIMIT)
    assert step.verdict.state is State.FAILED, "a stop that was asked for would be STOPPED"
    assert step.verdict.reason.startswith("time limit; 3 attempts in a row made no step")
    preempted = replace(seen(STOPPED, PREEMPTED, StopReason.PREEMPT), history=History(0, 0, 3))
    assert decide_step(preempted).next is Next.REQUEUE  # not a fault of the run


@pytest.mark.parametrize(
    ("situation", "cause"),
    [
        (seen(STOPPED, PREEMPTED, StopReason.PREEMPT), Cause.PREEMPTION),
        (seen(STOPPED, RUNNING, StopReason.TIME), Cause.TIME_LIMIT),
        (seen(STOPPED, REQUEUED, StopReason.PREEMPT), Cause.REQUEUE),
        (seen(replace(FAILED, cause=Cause.LOST), REQUEUED), Cause.LOST),  # nothing was signalled before
        (seen(FAILED, SCANCELLED), Cause.CANCEL),
        (seen(replace(FAILED, cause=Cause.SIGNAL), suspects=("node2",)), Cause.SIGNAL),
    ],
)
def test_the_cause_is_a_value(situation: Situation, cause: Cause) -> None:
    assert decide_step(situation).verdict.cause is cause


def test_no_decision_of_a_requeue_depends_on_a_text() -> None:
    for job in (RUNNING, PREEMPTED, SCANCELLED, TAKEN, REQUEUED, TIMED_OUT):
        for verdict in (STOPPED, FAILED, FINAL):
            for stop in (None, *StopReason):
                plain = decide_step(seen(verdict, job, stop))
                reworded = decide_step(seen(replace(verdict, reason="preempted; cancelled; finished"), job, stop))
                assert reworded.next is plain.next
                assert replace(reworded.verdict, reason="") == replace(plain.verdict, reason="")


@pytest.mark.parametrize(
    ("number", "job", "reason"),
    [
        (signal.SIGTERM, SCANCELLED, AbortReason.CANCEL),
        (signal.SIGTERM, TAKEN, StopReason.PREEMPT),
        (signal.SIGTERM, REQUEUED, StopReason.PREEMPT),  # by hand: the run comes back
        (signal.SIGTERM, TIMED_OUT, StopReason.PREEMPT),
        (signal.SIGTERM, RUNNING, StopReason.PREEMPT),  # of unknown origin
        (signal.SIGTERM, None, StopReason.PREEMPT),
        (signal.SIGUSR2, RUNNING, StopReason.TIME),
        (signal.SIGUSR2, PREEMPTED, StopReason.PREEMPT),
        (signal.SIGUSR2, None, StopReason.TIME),
    ],
)
def test_what_a_signal_asks_for(number: int, job: Job | None, reason: StopReason | AbortReason) -> None:
    assert read_signal(number, job, own_restarts=0)[0] is reason
