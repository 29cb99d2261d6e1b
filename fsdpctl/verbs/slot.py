"""Start a run, and wait for a slot first where the scheduler limits the jobs that a user may have."""

from __future__ import annotations

import time
from collections.abc import Callable

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import NoSlotError, UsageError

SLOT_POLL_S = 10.0


class WaitInterrupted(KeyboardInterrupt):
    """Ctrl-C while nothing was started yet."""


def check_waiting(plan: LaunchPlan, report: Callable[[str], None] | None) -> None:
    """Raise UsageError for a wait that the backend never needs."""
    if report is not None and not get_backend(plan.backend).has_scheduler:
        raise UsageError(f"backend {plan.backend} has no scheduler with a limit of jobs: there is no slot to wait for")


def start_run(run: RunPaths, plan: LaunchPlan, report: Callable[[str], None] | None) -> None:
    """Start the newest submission. At the scheduler's limit of jobs raise NoSlotError; with `report`, which gets one
    line then, wait instead.
    """
    is_waiting = False
    while True:
        try:
            get_backend(plan.backend).launcher.start(run, plan)
            if plan.notify:
                from fsdpctl.verbs.no_start import start_no_start_watch

                start_no_start_watch(run, plan)
            return
        except NoSlotError as error:
            if report is None:
                raise
            if not is_waiting:
                report(f"{error.message}; {run.root.name} waits for a slot, Ctrl-C ends that")
            is_waiting = True
        try:
            time.sleep(SLOT_POLL_S)
        except KeyboardInterrupt:
            raise WaitInterrupted from None
