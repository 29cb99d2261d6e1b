"""The clean processes that wait on this host for the next attempt of a run."""

from __future__ import annotations

from collections.abc import Iterable

from fsdpctl.contract.codec import CodecError, find_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import CleanProcessRecord
from fsdpctl.node.os import processes


def find_living(run: RunPaths, node_ranks: Iterable[int]) -> list[int]:
    """Return their pids."""
    found = []
    for rank in node_ranks:
        try:
            record = find_json(CleanProcessRecord, run.clean_process(rank))
        except (CodecError, OSError):
            continue
        if record is not None and processes.is_alive(record.process):
            found.append(record.process.pid)
    return found
