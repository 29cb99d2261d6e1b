"""watch: the states of a run, one after the other, until it has ended."""

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
"""For a run that cannot be read any more: a file server that is away comes back, and the run goes on meanwhile."""


@dataclass(frozen=True)
class Look:
    """One look at a run; where `problem` says why it cannot be read now, the status is the last one known."""

    status: RunStatus
    problem: str = ""


def watch(run: RunPaths) -> Iterator[Look]:
    """Look at the run again and again; the last status is that of its end. Raises as `read_status` does, at the first
    look at once, later once it has failed for long."""
    look, deadline = Look(read_status(run)), 0.0
    while look.status.state.is_alive:
        yield look
        time.sleep(POLL_S)
        try:
            look = Look(read_status(run))
        except (FsdpctlError, CodecError, OSError) as error:
            if not look.problem:
                deadline = time.monotonic() + PATIENCE_S
            elif time.monotonic() > deadline:
                raise
            look = replace(look, problem=str(error))
    yield look
