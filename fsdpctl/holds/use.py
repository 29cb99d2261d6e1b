"""Read what the nodes of a hold are used for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import HoldPaths, RunPaths
from fsdpctl.holds.decide import Use


def read_use(hold: HoldPaths) -> Use:
    """Return the run on the nodes of a hold, or when the last one had ended. Raise OSError, but not for a run that
    was deleted.
    """
    try:
        run = RunPaths(Path(os.fsdecode(read_bytes(hold.newest_run)).strip()))
        started = hold.newest_run.stat().st_mtime
    except FileNotFoundError:
        return Use()
    from fsdpctl.runs.evidence import RunFacts  # most holds are looked at without a run

    facts = RunFacts(run)
    with suppress(CodecError, OSError):
        if facts.is_running or facts.has_living_supervisor:
            return Use(facts.run_id, is_ending=facts.has_ended)
    return Use(last_end=max([started, *_last_signs(run)]))


def _last_signs(run: RunPaths) -> Iterator[float]:
    """Yield when the last files of a run's newest attempt were written, seconds since the epoch."""
    for attempt in run.attempts()[-1:]:
        for path in (attempt.verdict, *(node.heartbeat for node in attempt.nodes())):
            with suppress(OSError):
                yield path.stat().st_mtime
