"""stop and cancel: end a run with a save, or at once."""

from __future__ import annotations

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.store import open_record


def stop(run: RunPaths) -> bool:
    """Ask the run to save and exit, without waiting for it; return False if nothing runs."""
    return get_backend(open_record(run).backend).launcher.stop(run)


def cancel(run: RunPaths) -> bool:
    """End the run now, unsaved; return False if nothing ran. Raise FsdpctlError naming what is still alive."""
    return get_backend(open_record(run).backend).launcher.cancel(run)
