"""The ledger of a run whose status is known, for `status` and `events`."""

from __future__ import annotations

import time

from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.paths import RunPaths
from fsdpctl.ledger.account import Ledger
from fsdpctl.ledger.read import read_ledger
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.verbs.status import RunStatus


def find_ledger(run: RunPaths, status: RunStatus) -> Ledger | None:
    """Return the ledger of a run, up to now while it is alive; None if it cannot be read, or has used no time."""
    now = time.time() if status.state.is_alive else None
    try:
        return read_ledger(RunFacts(run), now, is_queued=status.state is State.QUEUED)
    except (CodecError, OSError):
        return None
