"""Check what the targets of `notify` need on the host that sends notices."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from fsdpctl.contract.findings import Check, Finding, ok, warn
from fsdpctl.contract.notify import NotifyTarget
from fsdpctl.notify.check import find_missing


def check_targets(targets: Sequence[NotifyTarget]) -> list[Finding]:
    """Return a finding about the targets on this host; none where there are no targets. Nothing is sent."""
    if not targets:
        return []
    if missing := find_missing(targets):
        fix = "set it in the shell that submits, or create it; `fsdpctl notify test` then sends a test"
        return [warn(Check.NOTIFY, f"on {socket.gethostname()}: {'; '.join(missing)}", fix)]
    return [ok(Check.NOTIFY, ", ".join(target.name for target in targets))]
