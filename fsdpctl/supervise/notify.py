"""Decide which notices an attempt's end calls for, and start the process that sends them."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import encode, find_json, write_json
from fsdpctl.contract.events import EventKind
from fsdpctl.contract.notify import Notice, Occasion
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.os.own_session import start_in_own_session
from fsdpctl.runs.events import add_event, record_verdict
from fsdpctl.runs.verdict import Verdict

if TYPE_CHECKING:
    from fsdpctl.supervise.loss_watch import LossFinding

MAX_REASON = 2000
"""Characters: a notice must fit into a pipe, of which no process may be reading."""
RESEND_WITHIN_S = 86_400.0
"""An older notice is dropped."""
POLL_S = 0.1


def occasions_of(verdict: Verdict, *, has_failed: bool = False) -> tuple[Occasion, ...]:
    """Return what a verdict is an occasion of. Pure.

    `has_failed`: the attempt has, where the verdict has the state of a run that its scheduler has requeued.
    """
    found: dict[Occasion, bool] = {
        "end": not verdict.restart,
        "failure": has_failed or verdict.state in (State.FAILED, State.LOST),
        "hang": verdict.cause is Cause.HANG,
        "preemption": verdict.cause is Cause.PREEMPTION,
    }
    return tuple(occasion for occasion, applies in found.items() if applies)


class Notifier:
    """Sends the notices of one run. Nothing here waits for a server, and nothing raises."""

    def __init__(self, run: RunPaths, plan: LaunchPlan) -> None:
        self._run, self._plan = run, plan
        self._senders: list[subprocess.Popen[bytes]] = []

    def wants(self, *occasions: Occasion) -> bool:
        return any(set(target.on) & set(occasions) for target in self._plan.notify)

    def verdict(self, attempt: AttemptPaths, verdict: Verdict, *, has_failed: bool = False) -> None:
        """Send the notices of an attempt's end; `has_failed` as in `occasions_of`."""
        self._send(
            Notice(
                occasions=occasions_of(verdict, has_failed=has_failed),
                run_id=self._plan.run_id,
                job=self._plan.job_name,
                run_dir=str(self._run.root),
                time=round(time.time(), 3),
                attempt=attempt.number,
                state=verdict.state,
                cause=verdict.cause,
                reason=verdict.reason[:MAX_REASON],
                restart=verdict.restart,
                step=verdict.step or None,
            )
        )

    def loss(self, attempt: AttemptPaths, finding: LossFinding) -> None:
        """Send the notices of a loss spike, or of a loss that is not finite."""
        self._send(
            Notice(
                occasions=finding.occasions,
                run_id=self._plan.run_id,
                job=self._plan.job_name,
                run_dir=str(self._run.root),
                time=round(time.time(), 3),
                attempt=attempt.number,
                state=State.RUNNING,
                reason=finding.text,
                step=finding.step,
            )
        )

    def resend(self) -> None:
        """Send again what a process was sending when it was killed, as with the nodes of an earlier attempt."""
        with suppress(OSError):  # of the directory
            for pending in self._run.pending_notices():
                with suppress(OSError):
                    self._resend(pending)

    def _resend(self, pending: Path) -> None:
        notice = find_json(Notice, pending)
        if notice is None or time.time() - notice.time > RESEND_WITHIN_S:
            pending.unlink(missing_ok=True)
        else:
            self._senders.append(start_sender(self._run, notice, pending))

    def wait(self, limit_s: float) -> None:
        """Wait until what was started has ended: for a supervisor whose processes end with it."""
        deadline = time.monotonic() + limit_s
        while any(sender.poll() is None for sender in self._senders) and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _send(self, notice: Notice) -> None:
        self._senders = [sender for sender in self._senders if sender.poll() is None]
        if not self.wants(*notice.occasions):
            return
        pending = self._run.pending_notice(time.time_ns())
        try:
            with suppress(OSError):  # a full disk must not prevent a notice of it
                write_json(pending, notice)
            self._senders.append(start_sender(self._run, notice, pending))
        except OSError as error:
            text = f"notice of {' and '.join(notice.occasions)} not sent: {error.strerror}"
            add_event(self._run.attempt(notice.attempt), text, EventKind.NOTICE_FAILED)


def record_and_notify(notifier: Notifier, attempt: AttemptPaths, verdict: Verdict, *, has_failed: bool = False) -> None:
    """Write the final verdict on an attempt, then send its notices. Raise OSError as `record_verdict` does."""
    record_verdict(attempt, verdict)
    notifier.verdict(attempt, verdict, has_failed=has_failed)


def start_sender(run: RunPaths, notice: Notice, pending: Path) -> subprocess.Popen[bytes]:
    """Start the process that sends a notice, and then deletes the file `pending`. Raise OSError."""
    sender = start_in_own_session("fsdpctl.notify", str(run.root), str(pending), cwd=run.root)
    assert sender.stdin is not None
    with suppress(BrokenPipeError), sender.stdin:
        sender.stdin.write(json.dumps(encode(notice)).encode())
    return sender
