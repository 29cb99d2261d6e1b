"""watch: the states of a run, one after the other, until it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fsdpctl.contract.paths import RunPaths
from fsdpctl.verbs.status import RunStatus, read_status

POLL_S = 0.25


def watch(run: RunPaths) -> Iterator[RunStatus]:
    """Look at the run again and again; the last status is that of its end."""
    while (status := read_status(run)).state.is_alive:
        yield status
        time.sleep(POLL_S)
    yield status
