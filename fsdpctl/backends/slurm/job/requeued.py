"""What a requeued job makes of the attempts that ended with its earlier allocations."""

from __future__ import annotations

from dataclasses import replace

from fsdpctl.backends.slurm.job.decide_step import is_final
from fsdpctl.contract import State
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.runs.events import record_verdict
from fsdpctl.runs.evidence import AttemptFacts, RunFacts, read_verdict
from fsdpctl.runs.progress import with_progress
from fsdpctl.runs.store import read_record
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.decide import end_between, judge, stopped
from fsdpctl.supervise.history import History, read_history
from fsdpctl.supervise.notify import Notifier, record_and_notify


def find_end(run: RunPaths, plan: LaunchPlan, notifier: Notifier) -> str:
    """Judge the attempts that ended with an allocation; return why no other attempt follows, or "". Raise OSError."""
    first_attempt = read_record(run).submissions[-1].first_attempt
    close_open_attempts(run, plan, first_attempt, notifier)
    _end_as_requested(run, notifier)
    last = RunFacts(run).newest_of_submission
    if last is not None and _has_ended(last):
        return "the run has ended, and requeuing its job changes nothing"
    if give_up(run, plan, first_attempt, notifier):
        return "the run makes no progress; `fsdpctl resume` starts it again"
    return ""


def _has_ended(last: AttemptFacts) -> bool:
    """Return whether no requeue starts an attempt after this one: by its verdict, or at the request of a user."""
    return last.verdict is not None and (is_final(last.verdict) or not last.is_wanted)


def _end_as_requested(run: RunPaths, notifier: Notifier) -> None:
    """Record the end of a run that a user requested when its job was being requeued. Raise OSError."""
    last = RunFacts(run).newest_of_submission
    if last is None or last.is_last or (verdict := end_between(last.stop, last.abort)) is None:
        return
    record_and_notify(notifier, last.paths, replace(with_progress(verdict, run), hosts=last.hosts))


def close_open_attempts(run: RunPaths, plan: LaunchPlan, first_attempt: int, notifier: Notifier) -> None:
    """Write the verdict of attempts whose supervisor ended with the allocation; send the notices of those of this
    submission, as an end before a resume is none of the run that has begun again. Raise OSError."""
    for paths in run.attempts():
        attempt = AttemptFacts(paths)
        if attempt.verdict is not None or not paths.allocation.exists():
            continue
        verdict = replace(with_progress(judge(attempt.end(len(plan.nodes))), run), hosts=attempt.hosts)
        if attempt.number < first_attempt:
            record_verdict(paths, verdict)
        elif verdict.state in (State.SUCCEEDED, State.CANCELLED) or not attempt.is_wanted:
            record_and_notify(notifier, paths, verdict)
        else:
            has_failed = attempt.stop is None and verdict.state in (State.FAILED, State.LOST)
            verdict = _requeued(verdict, attempt.stop)
            verdict = _unless_stuck(verdict, read_history(run, plan, paths, verdict))
            record_and_notify(notifier, paths, verdict, has_failed=has_failed)


def _requeued(verdict: Verdict, stop: ControlFile | None) -> Verdict:
    """Return the verdict on an attempt that ended with its allocation: the run waits in the queue again."""
    cause = stopped(stop).cause if stop is not None else verdict.cause
    reason = f"ended by Slurm and requeued; {verdict.reason}"
    return replace(verdict, state=State.STOPPED, reason=reason, restart=True, cause=cause)


def _unless_stuck(verdict: Verdict, history: History) -> Verdict:
    """Return the verdict of a run that restarts, or its end if it makes no progress."""
    if not (verdict.restart and history.is_stuck):
        return verdict
    reason = f"{verdict.reason}; {history.describe_stuck()}"
    return replace(verdict, state=State.FAILED, reason=reason, restart=False)


def give_up(run: RunPaths, plan: LaunchPlan, first_attempt: int, notifier: Notifier) -> bool:
    """Return whether the submission makes no progress, so that no attempt should follow; record it as its end then.

    Slurm requeues a job by itself, too, when a node dies: an attempt that always ends like that has no other judge.
    """
    newest = run.attempts()[-1:]
    verdict = read_verdict(newest[0]) if newest and newest[0].number >= first_attempt else None
    if verdict is None or not (history := read_history(run, plan, newest[0], verdict)).is_stuck:
        return False
    if verdict.restart:
        record_and_notify(notifier, newest[0], _unless_stuck(verdict, history))
    return True
