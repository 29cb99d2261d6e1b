"""Wait until another run has succeeded: `submit --after RUN` where no scheduler does it."""

from __future__ import annotations

import time

from fsdpctl.backends.table import get_backend
from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import AfterRun
from fsdpctl.runs.evidence import RunFacts, read_plan
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.notify import Notifier, record_and_notify
from fsdpctl.supervise.waiting import Waiting

POLL_S = 1.0
GONE_S = 30.0
"""How long nothing of a run may exist, without a verdict, until it counts as lost: its files may come late."""


def wait_for_run(run: RunPaths, after: AfterRun) -> None:
    """Return when the run may start, or is asked to end; else record that it does not start."""
    attempt = run.attempts()[-1]
    waiting, gone_since = Waiting(run), None
    while not (attempt.stop.exists() or attempt.abort.exists()):
        state, exists = _look(RunPaths.of(after.run_dir))
        if state is None and not exists:
            gone_since = gone_since or time.monotonic()
            state = State.LOST if time.monotonic() - gone_since > GONE_S else None
        else:
            gone_since = None
        if state is State.SUCCEEDED:
            break
        if state is not None:
            _refuse(attempt, after, state)
            break
        waiting.set(attempt, f"waits for run {after.run_id} to succeed")
        time.sleep(POLL_S)
    waiting.clear()


def is_due(run: RunPaths) -> bool:
    """Return whether the newest attempt has not begun: only then a new supervisor waits again."""
    attempt = run.attempts()[-1]
    return not attempt.verdict.exists() and not attempt.nodes()


def _look(run: RunPaths) -> tuple[State | None, bool]:
    """Return the state in which the run has ended, if it has, and whether anything of it still exists."""
    facts = RunFacts(run)
    try:
        if (state := facts.final_state) is not None:
            return state, True
        view = get_backend(facts.record.backend).launcher.observe([facts])[facts.run_id]
    except (OSError, CodecError):  # deleted, or on a disk that is not there now
        return None, False
    return view.final, view.state != "none"


def _refuse(attempt: AttemptPaths, after: AfterRun, state: State) -> None:
    reason = f"not started: run {after.run_id}, for which it waited, is {state}"
    run = RunPaths(attempt.run_dir)
    notifier = Notifier(run, read_plan(run))
    record_and_notify(notifier, attempt, Verdict(State.CANCELLED, reason, cause=Cause.START))
