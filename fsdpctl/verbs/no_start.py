"""Wait until a submission has started, and send notices where it has not in time.

    python -m fsdpctl.verbs.no_start RUN_DIR SUBMISSION

`submit` and `resume` start it on the submitting host, as no other process of a queued run exists.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError, read_json
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.notify import Notice, NotifyTarget
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError
from fsdpctl.node.os.own_session import start_in_own_session
from fsdpctl.notify.record import deliver_and_record
from fsdpctl.runs.store import read_record
from fsdpctl.supervise.notify import Notifier
from fsdpctl.verbs.status import read_status

POLL_S = 5.0


def start_no_start_watch(run: RunPaths, plan: LaunchPlan) -> None:
    """Start the process that waits for the start of the newest submission, where a target wants that.

    Raise OSError and CodecError.
    """
    if not Notifier(run, plan).wants("no_start"):
        return
    submission = len(read_record(run).submissions)
    watch = start_in_own_session("fsdpctl.verbs.no_start", str(run.root), str(submission), cwd=run.root)
    assert watch.stdin is not None
    watch.stdin.close()


def watch(run: RunPaths, submission: int, send: Callable[[Sequence[NotifyTarget], Notice], None]) -> None:
    """Send notices to each target when its time is over; return at the start, at the end, and after all of them.

    `submission`: the run's first is 1.
    """
    plan = read_json(LaunchPlan, run.plan)
    first_attempt = read_record(run).submissions[submission - 1].first_attempt
    begun = time.monotonic()
    waiting = sorted(
        (target for target in plan.notify if "no_start" in target.on), key=lambda target: target.no_start_after_s
    )
    while waiting and run.root.is_dir() and not has_started(run, submission, first_attempt):
        waited_s = time.monotonic() - begun
        due = [target for target in waiting if target.no_start_after_s <= waited_s]
        waiting = [target for target in waiting if target not in due]
        if due and _was_ended(run):
            return
        if due:
            send(due, _notice(run, plan, waited_s))
        elif waiting:
            time.sleep(min(POLL_S, waiting[0].no_start_after_s - waited_s))


def has_started(run: RunPaths, submission: int, first_attempt: int) -> bool:
    """Return whether agents of this submission are up, or it has ended, or another one has followed."""
    with suppress(OSError, CodecError):
        if len(read_record(run).submissions) != submission:
            return True
    attempts = [attempt for attempt in run.attempts() if attempt.number >= first_attempt]
    return any(attempt.verdict.exists() or _has_agent(attempt) for attempt in attempts)


def _was_ended(run: RunPaths) -> bool:
    """Return whether the run was stopped or cancelled while it waited: then no attempt has a verdict."""
    with suppress(FsdpctlError, CodecError, OSError):
        return read_status(run).state in (State.STOPPED, State.CANCELLED)
    return False


def _has_agent(attempt: AttemptPaths) -> bool:
    return any(node.agent.exists() for node in attempt.nodes())


def _notice(run: RunPaths, plan: LaunchPlan, waited_s: float) -> Notice:
    waits = ""
    with suppress(OSError):
        waits = "; " + read_bytes(run.waiting).decode(errors="replace").strip()
    reason = f"not started within {waited_s / 60:.0f} minutes{waits}"
    return Notice(("no_start",), plan.run_id, plan.job_name, str(run.root), round(time.time(), 3), reason=reason)


if __name__ == "__main__":
    os.umask(0o077)
    of_run = RunPaths.of(sys.argv[1])
    watch(of_run, int(sys.argv[2]), lambda targets, notice: deliver_and_record(of_run, targets, notice))
    os._exit(0)
