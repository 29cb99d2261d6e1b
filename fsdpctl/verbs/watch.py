"""watch: observe a run until it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import FsdpctlError
from fsdpctl.verbs.status import RunStatus, read_status

POLL_S = 0.25
PATIENCE_S = 300.0
"""For a run that cannot be read: the file server may return, and the run continues in the meantime."""


@dataclass(frozen=True)
class Observation:
    """The status of a run at one time; if it cannot be read, `problem` is why, and the status is the last known one."""

    status: RunStatus
    problem: str = ""


def watch(run: RunPaths) -> Iterator[Observation]:
    """Yield the status of a run until it has ended; the last one is that of its end. Raise as `read_status` does: at
    once the first time, later after PATIENCE_S of failures."""
    observed, deadline = Observation(read_status(run)), 0.0
    while observed.status.state.is_alive:
        yield observed
        time.sleep(POLL_S)
        try:
            observed = Observation(read_status(run))
        except (FsdpctlError, CodecError, OSError) as error:
            if not observed.problem:
                deadline = time.monotonic() + PATIENCE_S
            elif time.monotonic() > deadline:
                raise
            observed = replace(observed, problem=str(error))
    yield observed
