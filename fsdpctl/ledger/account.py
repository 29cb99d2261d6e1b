"""The ledger of a run: every second from its submission belongs to one use of time. Pure.

The uses are cut one after the other from the run's time, so that they add up to it, whatever the records contain:
times of several hosts, whose clocks differ, or of damaged files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from fsdpctl.contract.work_log import Work


class TimeUse(StrEnum):
    """What a second of a run was used for."""

    QUEUE = "queue"  # until the scheduler gives nodes, or the run of `--after` has succeeded; also after a requeue
    START = "start"  # of each attempt: agents, node check, join, imports, process groups, model
    RESTORE = "restore"  # reading the checkpoint, or drawing the first values
    COMPILE = "compile"  # torch's compiler works
    STEP = "step"  # training, without all that has a row of its own
    RUNNING = "running"  # of a script of your own: from its first step, or its ranks' start, to its end
    SAVE = "save"  # training waits for a save; what is written beside training is part of `step`
    EVALUATION = "evaluation"  # of held-out text
    REDONE = "redone"  # steps that a later attempt did again, and the unfinished one at a fault
    HANG = "hang"  # after a hang or the loss of a node: from the last sign of progress until it was found
    RESTART = "restart"  # from a fault until the next attempt's agents start
    END = "end"  # after the last step, until the run had ended
    IDLE = "idle"  # between the end of a run and its resume by the user


USES = {
    Work.START: TimeUse.START,
    Work.RESTORE: TimeUse.RESTORE,
    Work.COMPILE: TimeUse.COMPILE,
    Work.STEP: TimeUse.STEP,
    Work.SCRIPT: TimeUse.RUNNING,
    Work.SAVE: TimeUse.SAVE,
    Work.EVALUATE: TimeUse.EVALUATION,
    Work.END: TimeUse.END,
}
_LOST = (TimeUse.STEP, TimeUse.RUNNING, TimeUse.SAVE, TimeUse.EVALUATION)
"""What an attempt that ends by a fault has done for nothing since its last checkpoint."""
UNCOUNTED = (TimeUse.QUEUE, TimeUse.IDLE)
EFFECTIVE = (TimeUse.STEP, TimeUse.RUNNING, TimeUse.EVALUATION)


@dataclass(frozen=True)
class AttemptTimes:
    """When things happened in one attempt, in seconds since the epoch; None for what is not known or did not happen."""

    number: int
    queued_until: float | None = None  # when its scheduler gave it nodes, if it waited for them
    began: float | None = None  # its first agent started
    ready: float | None = None  # its nodes had joined
    work: Sequence[tuple[float, Work]] = ()  # of rank 0
    first_step: float | None = None  # ended; of the steps that no later attempt has done again
    last_kept_step: float | None = None  # of the same
    last_step: float | None = None  # of all
    last_sign: float | None = None  # of progress, before a hang or the loss of a node
    failed: float | None = None  # its fault was found
    cancelled: float | None = None  # by a request
    ended: float | None = None  # it has a verdict, or its last process had ended before
    restarts: bool = False  # another attempt of the same submission follows


@dataclass(frozen=True)
class SubmissionTimes:
    """One `submit` or `resume` and its attempts."""

    time: float
    attempts: Sequence[AttemptTimes] = ()
    waits: bool = False  # it is queued until its first attempt begins
    ended: float | None = None  # None: it has not


@dataclass(frozen=True)
class Interval:
    """Some seconds of a run."""

    use: TimeUse
    begin: float
    end: float
    attempt: int  # 0 before the first


@dataclass(frozen=True)
class Ledger:
    """The time of a run, from its submission on, without a gap."""

    intervals: tuple[Interval, ...]
    knows_steps: bool  # else neither redone work nor an effective time is known

    @property
    def total_s(self) -> float:
        return self.intervals[-1].end - self.intervals[0].begin if self.intervals else 0.0

    @cached_property
    def seconds(self) -> Mapping[TimeUse, float]:
        """The seconds of each use that has any, in the order of `TimeUse`."""
        sums = dict.fromkeys(TimeUse, 0.0)
        for interval in self.intervals:
            sums[interval.use] += interval.end - interval.begin
        return {use: seconds for use, seconds in sums.items() if seconds > 0}

    @property
    def counted_s(self) -> float:
        """The time that counts for `effective`."""
        return sum(seconds for use, seconds in self.seconds.items() if use not in UNCOUNTED)

    @property
    def effective(self) -> float | None:
        """The share of the time, without queue and idle, in steps and evaluations that were not done again."""
        if not self.knows_steps or self.counted_s <= 0:
            return None
        return sum(self.seconds.get(use, 0.0) for use in EFFECTIVE) / self.counted_s


def account(submissions: Sequence[SubmissionTimes], until: float, *, is_queued: bool = False) -> Ledger:
    """Return the ledger of a run up to a time: now, or its end. A run that is queued waits for its scheduler now."""
    tape = _Tape(submissions[0].time)
    ends = [*(submission.time for submission in submissions[1:]), until]
    for submission, end in zip(submissions, ends, strict=True):
        tape.until = min(end, until)
        tape.cut(submission.time, TimeUse.IDLE)
        waits_for = _add_submission(tape, submission)
        tape.cut(submission.ended, TimeUse.END)
        if submission.ended is None:
            tape.cut(tape.until, TimeUse.QUEUE if is_queued else waits_for)
    attempts = [attempt for submission in submissions for attempt in submission.attempts]
    return Ledger(tuple(tape.intervals), any(attempt.first_step is not None for attempt in attempts))


class _Tape:
    """A run's time, from which intervals are cut in order."""

    def __init__(self, begin: float) -> None:
        self.reached = self.until = begin
        self.attempt = 0
        self.intervals: list[Interval] = []

    def cut(self, end: float | None, use: TimeUse) -> None:
        """Use the time up to `end`, if it is later than what is cut already, for this."""
        end = min(self.until, end) if end is not None else self.reached
        if end <= self.reached:
            return
        newest = self.intervals[-1] if self.intervals else None
        if newest is not None and (newest.use, newest.attempt) == (use, self.attempt):
            self.intervals[-1] = Interval(use, newest.begin, end, self.attempt)
        else:
            self.intervals.append(Interval(use, self.reached, end, self.attempt))
        self.reached = end


def _add_submission(tape: _Tape, submission: SubmissionTimes) -> TimeUse:
    """Add all attempts, and return what the time after them is used for if the submission has not ended."""
    before = TimeUse.QUEUE if submission.waits else TimeUse.START
    for attempt in submission.attempts:
        tape.cut(attempt.queued_until, TimeUse.QUEUE)
        over = min(filter(None, (attempt.failed, attempt.cancelled, attempt.ended)), default=None)
        tape.cut(attempt.began or over, before if attempt.queued_until is None else TimeUse.START)
        tape.attempt = attempt.number
        after = TimeUse.RESTART if attempt.restarts else TimeUse.END
        for use, end in _overlay(attempt, _worked(attempt, over or tape.until)):
            tape.cut(end, after if use is TimeUse.END else use)
        tape.cut(attempt.ended, after)
        before = TimeUse.RESTART if attempt.began is not None else before
    return before


def _worked(attempt: AttemptTimes, over: float) -> Iterator[tuple[TimeUse, float, float]]:
    """Yield use, begin and end of what the attempt did until it was over, in order."""
    if attempt.began is None:
        return
    changes = [(attempt.began, TimeUse.START), *((time, USES[work]) for time, work in attempt.work)]
    if not attempt.work and (begun := attempt.first_step or attempt.ready) is not None:
        changes.append((begun, TimeUse.RUNNING))
    for (begin, use), (end, _) in zip(changes, [*changes[1:], (over, TimeUse.END)], strict=True):
        yield use, begin, min(end, over)


def _overlay(attempt: AttemptTimes, worked: Iterable[tuple[TimeUse, float, float]]) -> Iterator[tuple[TimeUse, float]]:
    """Yield use and end of the same time, with what was lost and what passed until a hang was found."""
    lost_from, lost_until = _lost(attempt)
    hangs_from = attempt.last_sign if attempt.failed and attempt.last_sign else math.inf
    for use, begin, end in worked:
        borders = {time for time in (lost_from, lost_until, hangs_from) if begin < time < end}
        for cut in sorted({*borders, end}):
            if cut > hangs_from:
                yield TimeUse.HANG, cut
            elif use in _LOST and lost_from < cut <= lost_until:
                yield TimeUse.REDONE, cut
            else:
                yield use, cut


def _lost(attempt: AttemptTimes) -> tuple[float, float]:
    """Return from when and until when the attempt did what was lost: after its last step that still counts."""
    since = attempt.last_kept_step or -math.inf
    if attempt.failed is not None:
        knows_steps = attempt.last_step is not None or bool(attempt.work)
        return (since, math.inf) if knows_steps else (math.inf, math.inf)
    if attempt.last_step is not None and attempt.last_step > since:  # it ended well, and the run went back
        return since, attempt.last_step
    return math.inf, math.inf
