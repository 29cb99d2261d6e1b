"""The local launcher: every node is a detached agent on this machine, watched by a supervisor."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from fsdpctl.backends.base import View
from fsdpctl.backends.detached import control
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError
from fsdpctl.node.os import processes
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.store import claim_attempt

CANCEL_WAIT_S = 8.0
"""How long agents may take to end their ranks before `cancel` does: TERM, five seconds, KILL, and a margin."""


def start(run: RunPaths, plan: LaunchPlan) -> None:
    """Claim the next attempt and let the supervisor run it."""
    claim_attempt(run)
    control.start_supervisor(run)


def observe(runs: Sequence[RunFacts]) -> Mapping[str, View]:
    return control.observe(runs)


def stop(run: RunPaths, report: Callable[[str], None]) -> bool:
    return control.stop(run)


def cancel(run: RunPaths, report: Callable[[str], None]) -> bool:
    tag = processes.Tag(run.root.name)
    facts = RunFacts(run)
    submissions = len(facts.record.submissions)
    # Of a run that has ended only its supervisor may be left, about to exit.
    supervisor = facts.supervisor if facts.has_living_supervisor else None
    others = [pid for pid in processes.find(tag) if supervisor is None or pid != supervisor.pid]
    if not facts.is_running and not others:
        return False
    _wait_until(lambda: _ask_to_end(run, submissions), CANCEL_WAIT_S)
    if control.was_resumed(run, submissions):
        return True
    control.kill_supervisor(run)
    if left := processes.sweep(tag):
        control.start_supervisor(run)  # until they are gone, it keeps the run from being resumed
        raise FsdpctlError(f"still alive after KILL: {', '.join(map(str, left))}", hint="ps shows what they are")
    return True


def _ask_to_end(run: RunPaths, submissions: int) -> bool:
    """Request a cancel of the newest attempt, which may change between calls; return True once nothing of it runs."""
    if control.was_resumed(run, submissions):
        return True
    with suppress(OSError):  # on a full disk too: the sweep needs no file
        control.ask_to_end(run)
    return not RunFacts(run).is_running


def _wait_until(condition: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
