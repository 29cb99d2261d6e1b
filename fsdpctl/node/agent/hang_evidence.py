"""What the ranks of this node can still report before an attempt that hangs is ended: stacks and flight records."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from fsdpctl.contract.codec import find_json
from fsdpctl.contract.flight_record import FlightRecord
from fsdpctl.contract.paths import NodePaths
from fsdpctl.node.agent.flight import FLIGHT_S
from fsdpctl.node.agent.stacks import refresh_stacks
from fsdpctl.node.os.signals import FLIGHT_SIGNAL
from fsdpctl.node.os.usage import catches, find_wait

LEAST_S = 2.0
"""What ranks get at least: agents of other nodes learn of the end later, and their ranks fail once these have ended."""
_POLL_S = 0.1


def collect_evidence(paths: NodePaths, pids: Mapping[int, int], meanwhile: Callable[[], None]) -> None:
    """Make the ranks (rank -> pid) write what they know, and wait for it; a stopped process writes nothing."""
    refresh_stacks(pids)
    asked = {rank: pid for rank, pid in pids.items() if _request_record(paths, rank, pid)}
    began = time.monotonic()
    while (waited_s := time.monotonic() - began) < FLIGHT_S:
        left = [rank for rank, pid in asked.items() if not _has_answered(paths, rank) and find_wait(pid).state]
        if waited_s >= LEAST_S and not left:
            return
        meanwhile()
        time.sleep(_POLL_S)


def _request_record(paths: NodePaths, rank: int, pid: int) -> bool:
    """Return whether the rank will answer."""
    if find_wait(pid).state in ("", "T", "t") or not catches(pid, FLIGHT_SIGNAL):
        return False
    paths.rank_flight(rank).unlink(missing_ok=True)
    with suppress(ProcessLookupError):
        os.kill(pid, FLIGHT_SIGNAL)
    return True


def _has_answered(paths: NodePaths, rank: int) -> bool:
    record = find_json(FlightRecord, paths.rank_flight(rank))
    return record is not None and (record.has_stacks or bool(record.problem))
