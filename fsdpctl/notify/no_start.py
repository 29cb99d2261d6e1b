"""Wait until a submission has started, and send notices where it has not in time.

    python -m fsdpctl.notify.no_start RUN_DIR FIRST_ATTEMPT

`submit` and `resume` start it on the submitting host, as no other process of a queued run exists.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from fsdpctl.contract.codec import read_json
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.notify import Notice, NotifyTarget
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.notify.record import deliver_and_record

POLL_S = 5.0


def watch(run: RunPaths, first_attempt: int, send: Callable[[Sequence[NotifyTarget], Notice], None]) -> None:
    """Send notices to each target when its time is over; return at the start, at the end, and after all of them."""
    plan = read_json(LaunchPlan, run.plan)
    begun = time.monotonic()
    waiting = sorted(
        (target for target in plan.notify if "no_start" in target.on), key=lambda target: target.no_start_after_s
    )
    while waiting and run.root.is_dir() and not has_started(run, first_attempt):
        waited_s = time.monotonic() - begun
        due = [target for target in waiting if target.no_start_after_s <= waited_s]
        waiting = [target for target in waiting if target not in due]
        if due:
            send(due, _notice(run, plan, waited_s))
        elif waiting:
            time.sleep(min(POLL_S, waiting[0].no_start_after_s - waited_s))


def has_started(run: RunPaths, first_attempt: int) -> bool:
    """Return whether agents of this submission are up, or it has ended, or another one has followed."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        if json.loads(read_bytes(run.record))["submissions"][-1]["first_attempt"] != first_attempt:
            return True
    attempts = [attempt for attempt in run.attempts() if attempt.number >= first_attempt]
    return any(attempt.verdict.exists() or _has_agent(attempt) for attempt in attempts)


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
