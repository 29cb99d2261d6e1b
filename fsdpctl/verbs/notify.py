"""notify test: send a test notice to every target of a profile and of the user's settings."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from fsdpctl.contract.notify import Notice, NotifyTarget
from fsdpctl.contract.user import user_name
from fsdpctl.notify.deliver import Delivery, deliver
from fsdpctl.specs.notify import plan_targets
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.specs.settings import load_settings


def find_targets(profile: ClusterProfile) -> tuple[NotifyTarget, ...]:
    """Return the targets of runs on this cluster. Raise SpecError and UsageError for wrong settings."""
    return tuple(dict.fromkeys((*plan_targets(profile.notify), *plan_targets(load_settings().notify))))


def name_apart(targets: Sequence[NotifyTarget]) -> list[str]:
    """Return a name for each target; those with the same one are numbered, because the words of a command, which
    differ, may be secret."""
    names = [target.name for target in targets]
    numbers: Counter[str] = Counter()
    apart = []
    for name in names:
        numbers[name] += 1
        apart.append(f"{name}, {numbers[name]} of {names.count(name)}" if names.count(name) > 1 else name)
    return apart


def send_test(targets: Sequence[NotifyTarget]) -> Iterator[Delivery]:
    """Send a test notice to each target from this host, once, and yield what became of it."""
    who = f"{user_name()} on {socket.gethostname()}"
    reason = f"sent by `fsdpctl notify test` of {who}; notices of runs come here"
    test = Notice((), run_id="test", job="test", run_dir="", time=round(time.time(), 3), reason=reason)
    return deliver(targets, test, pauses_s=())
