"""When things happened in a run, from what its processes have recorded. What is missing or damaged is not known.

A time that is in a record is preferred to that of a file, which copies of a run directory have lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from fsdpctl.backends.table import get_backend
from fsdpctl.contract import FAULTS, GOOD_ENDS, Cause, State
from fsdpctl.contract.codec import CodecError, find_json
from fsdpctl.contract.events import EventKind
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import Allocation
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.contract.work_log import read_work
from fsdpctl.ledger.account import AttemptTimes, Ledger, SubmissionTimes, account
from fsdpctl.runs.attempt_time import last_alive
from fsdpctl.runs.events import supervisor_events
from fsdpctl.runs.evidence import AttemptFacts, RunFacts, read_plan
from fsdpctl.runs.metrics import Span, attempt_spans
from fsdpctl.supervise.hang import Hang

LAST_TIME = 1e11
"""No record of a run has a later time, nor one that is no number."""
_FOUND_LATE = (Cause.HANG, Cause.LOST)
"""No process reported them: they began some time before they were found."""


def read_ledger(run: RunFacts, now: float | None, *, is_queued: bool = False) -> Ledger | None:
    """Return the ledger of a run up to now, or for None up to its end; None before it has used any time.

    Raise CodecError and OSError if the run's record cannot be read.
    """
    attempts = [AttemptFacts(paths) for paths in run.paths.attempts()]
    submissions = list(_submissions(run, attempts))
    until = now if now is not None else _last_sign(submissions, attempts)
    ledger = account(submissions, until, is_queued=is_queued)
    return ledger if ledger.intervals else None


def _submissions(run: RunFacts, attempts: Sequence[AttemptFacts]) -> Iterator[SubmissionTimes]:
    is_scheduled = get_backend(run.record.backend).has_scheduler and run.supervisor is None
    allocations = [_read_allocation(attempt.paths) for attempt in attempts]
    is_new = [is_scheduled and now != before for before, now in pairwise([None, *allocations])]
    spans = {span.attempt: span for span in attempt_spans(run.paths.metrics)}
    submissions = run.record.submissions
    ends = [*(submission.first_attempt for submission in submissions[1:]), math.inf]
    for submission, end in zip(submissions, ends, strict=True):
        own = [index for index, one in enumerate(attempts) if submission.first_attempt <= one.number < end]
        times = tuple(
            _read_attempt(
                attempts[index],
                spans.get(attempts[index].number),
                is_new=is_new[index],
                is_followed=index != own[-1],
                is_left=is_new[index + 1] if index != own[-1] else end != math.inf,
            )
            for index in own
        )
        waits = is_scheduled or (end == math.inf and _waits_for_run(run.paths))
        ended = times[-1].ended if times and not times[-1].restarts else None
        yield SubmissionTimes(submission.time, times, waits, ended)


def _read_allocation(attempt: AttemptPaths) -> tuple[str, int] | None:
    """Return job and requeues, by which allocations differ: the addresses in one may be known only later."""
    found = find_json(Allocation, attempt.allocation)
    return (found.job_id, found.restarts) if found is not None else None


def _read_attempt(
    attempt: AttemptFacts, kept: Span | None, *, is_new: bool, is_followed: bool, is_left: bool
) -> AttemptTimes:
    """Return the times of an attempt. `is_left`: what followed it, an allocation or a submission, is not of its own
    supervisor, which may have ended before it."""
    paths, verdict = attempt.paths, attempt.verdict
    head = paths.node(0)
    agent = find_json(ProcessIdentity, head.agent)
    began = _time(agent.started) if agent is not None else None
    given = _changed(paths.allocation) if is_new else None
    last_kept = _time(kept.last) if kept is not None else None
    ended = _ended(attempt)
    if is_left:
        alive = _time(last_alive(attempt) or 0.0)
        ended = min(filter(None, (ended, alive)), default=last_kept or began or _changed(paths.root))
    failed = _failed(attempt)
    if failed is None and (verdict.state in (State.FAILED, State.LOST) if verdict is not None else _is_lost(attempt)):
        failed = ended
    step_time = _time(verdict.step_time) if verdict is not None else None
    if began is not None and (step_time is None or step_time < began):
        step_time = last_kept  # that of an older attempt, if this one has made none
    return AttemptTimes(
        number=attempt.number,
        queued_until=min(filter(None, (given, began)), default=None) if is_new else None,
        began=began,
        ready=_changed(head.ready),
        work=read_work(head.work_log),
        first_step=_time(kept.first) if kept is not None else None,
        last_kept_step=last_kept,
        last_step=step_time,
        last_sign=_last_progress(attempt, failed) if failed is not None and _is_found_late(attempt) else None,
        failed=failed,
        cancelled=_changed(paths.abort) if attempt.is_cancelled else None,
        ended=ended,
        restarts=is_followed or (not is_left and verdict is not None and verdict.restart),
    )


def _ended(attempt: AttemptFacts) -> float | None:
    """Return when an attempt had its verdict: for one that its own supervisor did not judge, that may be much later."""
    if attempt.verdict is None:
        return None
    events = supervisor_events(attempt.paths)
    ends = [event.time for event in events if event.kind is EventKind.ENDED] or [event.time for event in events[-1:]]
    return _time(ends[-1]) if ends else _changed(attempt.paths.verdict)


def _failed(attempt: AttemptFacts) -> float | None:
    """Return when a fault was found that ended the attempt."""
    if attempt.verdict is not None and attempt.verdict.state in (State.SUCCEEDED, State.CANCELLED):
        return None
    if (abort := attempt.abort) is not None:
        return _changed(attempt.paths.abort) if abort.cause in FAULTS else None
    ends = [end for end in attempt.ends.values() if end.code not in GOOD_ENDS]
    times = [end.first_error.time if end.first_error is not None else end.time for end in ends]
    return min(filter(None, map(_time, times)), default=None)


def _is_lost(attempt: AttemptFacts) -> bool:
    """Return whether an attempt without a verdict was ended by something that left no exit record, as a reboot."""
    return not attempt.is_cancelled and any(node.node_rank not in attempt.ends for node in attempt.nodes)


def _is_found_late(attempt: AttemptFacts) -> bool:
    causes = (attempt.abort.cause if attempt.abort is not None else "", attempt.verdict and attempt.verdict.cause)
    return any(cause in _FOUND_LATE for cause in causes)


def _last_progress(attempt: AttemptFacts, before: float) -> float | None:
    """Return when a rank last showed progress, before a time."""
    files = [path for node in attempt.readable for path in node.rank_progress_files()]
    times = [time for time in map(_changed, files) if time is not None and time < before]
    hang, found = find_json(Hang, attempt.paths.hang), _changed(attempt.paths.hang)
    if not times and hang is not None and found is not None:
        ranks = [hang.culprit] if hang.culprit is not None else hang.others
        times = [found - rank.report.sign_s for rank in ranks]
    if not times:  # of a host that was lost
        return min(filter(None, (_changed(node.heartbeat) for node in attempt.readable)), default=None)
    return max(times)


def _waits_for_run(run: RunPaths) -> bool:
    with suppress(CodecError, OSError):
        return read_plan(run).after is not None
    return False


def _last_sign(submissions: Sequence[SubmissionTimes], attempts: Sequence[AttemptFacts]) -> float:
    """Return when a run that is not alive had ended: without a verdict, at its last sign of life."""
    newest = submissions[-1]
    if newest.ended is not None:
        return newest.ended
    times = [time for attempt in newest.attempts for time in (attempt.ended, attempt.last_kept_step, attempt.failed)]
    beats = [_changed(node.heartbeat) for attempt in attempts[-1:] for node in attempt.nodes]
    return max(filter(None, (newest.time, *times, *beats)))


def _changed(path: Path) -> float | None:
    try:
        return _time(path.stat().st_mtime)
    except OSError:
        return None


def _time(seconds: float) -> float | None:
    """Return a time; None for a number that is none, as in a damaged record."""
    return float(seconds) if 0 < seconds < LAST_TIME else None
