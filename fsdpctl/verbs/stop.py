"""stop and cancel: two ways to end a run, one that saves and one that does not wait."""

from __future__ import annotations

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.store import open_record


def stop(run: RunPaths) -> bool:
    """Ask the run to save and leave, without waiting for it; False if nothing of it runs."""
    return get_backend(open_record(run).backend).launcher.stop(run)


def cancel(run: RunPaths) -> bool:
    """End the run now, unsaved; False if nothing of it ran. Raises FsdpctlError naming what would not die."""
    return get_backend(open_record(run).backend).launcher.cancel(run)
