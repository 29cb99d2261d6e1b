"""Record in the run what became of a notice."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fsdpctl.contract.events import Actor, Event, EventKind, write_event
from fsdpctl.contract.notify import Notice, NotifyTarget
from fsdpctl.contract.paths import RunPaths
from fsdpctl.notify.deliver import Delivery, deliver


def deliver_and_record(run: RunPaths, targets: Sequence[NotifyTarget], notice: Notice) -> None:
    """Send a notice and add an event for each target. Errors of the disk are ignored."""
    for delivery in deliver(targets, notice):
        write_event(run.notices, describe(delivery, notice, round(time.time(), 3)))


def describe(delivery: Delivery, notice: Notice, now: float) -> Event:
    """Return the event of a delivery. Pure."""
    what = f"notice of {' and '.join(notice.occasions)} to {delivery.target.name}"
    tries = f" after {delivery.tries} tries" if delivery.tries > 1 else ""
    if delivery.problem:
        text, kind = f"{what} not sent{tries}: {delivery.problem}", EventKind.NOTICE_FAILED
    else:
        text, kind = f"{what} sent{tries}", EventKind.NOTICE_SENT
    return Event(kind, now, Actor.SUPERVISOR, text, notice.attempt)
