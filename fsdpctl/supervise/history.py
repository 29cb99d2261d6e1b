"""The attempts of one submission so far: restarts that were used, and attempts in a row without progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fsdpctl.contract import State
from fsdpctl.contract.causes import RULES
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.runs.evidence import AttemptFacts, read_verdict
from fsdpctl.runs.record import Submission
from fsdpctl.runs.store import read_record
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.decide import judge

MAX_WITHOUT_PROGRESS = 3


@dataclass(frozen=True)
class History:
    """The restarts and progress of one submission."""

    restarts_used: int
    restarts_allowed: int
    without_progress: int  # attempts in a row without a new step, this one included
    is_repeated: bool = False  # the exception that ended this attempt ended another one of those before

    @property
    def is_stuck(self) -> bool:
        """Whether another attempt would make no progress."""
        return self.without_progress >= MAX_WITHOUT_PROGRESS

    def describe_stuck(self) -> str:
        return f"{self.without_progress} attempts in a row made no step, so it does not try again"


@dataclass(frozen=True)
class Baseline:
    """How far a run was before its newest submission: what is beyond that is progress."""

    step: int = 0
    saved: float = 0.0  # seconds since the epoch
    discarded: Verdict | None = None  # the last one before a rewind

    def drop_discarded(self, verdict: Verdict) -> Verdict:
        """Return the verdict without its step if that is of before the rewind: its attempt has recorded none."""
        old = self.discarded
        is_old = old is not None and (verdict.step, verdict.step_time) == (old.step, old.step_time)
        return replace(verdict, step=0) if is_old else verdict


def read_history(run: RunPaths, plan: LaunchPlan, newest: AttemptPaths, verdict: Verdict) -> History:
    """Return the history of the newest submission up to the attempt `newest`, which ended with `verdict`.

    An earlier attempt without a verdict, which a full disk may have prevented, is judged now.
    """
    submissions = read_record(run).submissions
    first = submissions[-1].first_attempt
    attempts = [attempt for attempt in run.attempts() if attempt.number < newest.number]
    before = {
        attempt.number: found for attempt in attempts if attempt.number < first and (found := read_verdict(attempt))
    }
    own = [
        read_verdict(attempt) or judge(AttemptFacts(attempt).end(len(plan.nodes)))
        for attempt in attempts
        if attempt.number >= first
    ]
    return measure_history([*own, verdict], find_baseline(submissions, before), plan.restarts)


def find_baseline(submissions: Sequence[Submission], before: Mapping[int, Verdict]) -> Baseline:
    """Return what the attempts of earlier submissions have reached, by their verdicts, since the last rewind of all."""
    rewind = next((submission for submission in reversed(submissions) if submission.step is not None), None)
    since = rewind.first_attempt if rewind is not None else 0
    older = [verdict for attempt, verdict in before.items() if attempt < since]
    begin = Baseline(rewind.step or 0, rewind.time, older[-1] if older else None) if rewind is not None else Baseline()
    reached = [begin.drop_discarded(verdict) for attempt, verdict in before.items() if attempt >= since]
    step = max([begin.step, *(verdict.step for verdict in reached)])
    return replace(begin, step=step, saved=max([begin.saved, *(verdict.saved for verdict in reached)]))


def measure_history(verdicts: Sequence[Verdict], baseline: Baseline, restarts_allowed: int) -> History:
    """Count failures and attempts without progress; the last verdict is that of the attempt that has just ended.

    Progress is a new step, or for a script that records none a newer checkpoint. Which attempts count without it is in
    `contract/causes.py`.
    """
    failures = [verdict for verdict in verdicts[:-1] if verdict.state in (State.FAILED, State.LOST)]
    step, saved = baseline.step, baseline.saved
    idle: list[Verdict] = []
    for verdict in map(baseline.drop_discarded, verdicts):
        if verdict.step > step or verdict.saved > saved:
            step, saved, idle = max(step, verdict.step), max(saved, verdict.saved), []
        elif RULES[verdict.cause].counts:
            idle.append(verdict)
    last = verdicts[-1].exception
    is_repeated = bool(last) and last in [verdict.exception for verdict in idle[:-1]]
    return History(len(failures), restarts_allowed, len(idle), is_repeated)
