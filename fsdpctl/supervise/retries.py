"""Decide whether a run restarts after a failure. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fsdpctl.contract import Cause, State
from fsdpctl.contract.causes import FAILURES
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.history import History


def decide_next(verdict: Verdict, stop: ControlFile | None, history: History, restart_on: Collection[Cause]) -> Verdict:
    """Return the verdict with its restart: a failure restarts while restarts remain and attempts make progress; a stop
    or a cancel never does, nor a failure while a user's stop was obeyed."""
    is_failure = verdict.state in (State.FAILED, State.LOST)
    if not is_failure or history.restarts_allowed == 0 or (stop is not None and stop.is_users_stop):
        return verdict
    if why := _find_hindrance(verdict.cause, history, restart_on):
        return replace(verdict, reason=f"{verdict.reason}; {why}")
    return replace(verdict, restart=True)


def _find_hindrance(cause: Cause, history: History, restart_on: Collection[Cause]) -> str:
    """Return why a failed run does not restart; empty if it does."""
    if cause in FAILURES and cause not in restart_on:
        return f"the cause {cause} is not in restart_on, so it does not try again"
    if history.restarts_used >= history.restarts_allowed:
        return f"all {history.restarts_allowed} restarts are used up"
    if history.is_repeated:
        return "the same exception at the same place ended two attempts without a step, so it does not try again"
    return history.describe_stuck() if history.is_stuck else ""
