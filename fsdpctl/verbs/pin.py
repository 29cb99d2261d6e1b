"""runs pin: keep a run from gc."""

from __future__ import annotations

from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.store import locked, open_record


def pin(run: RunPaths, *, pinned: bool = True) -> bool:
    """Pin a run, or end that; return False if there was nothing to do. Raise BusyError and FsdpctlError."""
    open_record(run)
    with locked(run):
        if run.pinned.exists() is pinned:
            return False
        if pinned:
            run.pinned.touch(mode=0o600)
        else:
            run.pinned.unlink()
        return True
