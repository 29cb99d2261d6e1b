"""Remove runs that have ended, so that one killed at any moment leaves a run, or what the next one removes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fsdpctl.contract.files import take_lock
from fsdpctl.contract.formats.removal import delete
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import BusyError
from fsdpctl.runs.registry import default_runs_root, find_target, home, make_private, pointer_of, pointers

_REMOVED = ".removed-"


@contextmanager
def removing() -> Iterator[None]:
    """Hold the lock of removals: one command removes runs at a time. Raise BusyError."""
    make_private(home())
    if (descriptor := take_lock(home() / "remove.lock")) is None:
        raise BusyError("another command is removing runs; try again in a moment")
    try:
        yield
    finally:
        os.close(descriptor)


def remove(run: RunPaths) -> None:
    """Delete a run that has ended; its lock and `removing` are held. Raise OSError.

    Killed at any moment, it leaves the run, or what `sweep_removed` deletes.
    """
    doomed = run.root.with_name(f"{_REMOVED}{run.root.name}")
    run.root.rename(doomed)
    _finish_removal(doomed)


def sweep_removed() -> None:
    """Delete what removals that were killed have left in the directories of runs; `removing` is held."""
    roots = {default_runs_root(), *(target.parent for pointer in pointers() if (target := find_target(pointer)))}
    for root in roots:
        for doomed in root.glob(f"{_REMOVED}*"):
            with suppress(OSError):  # of another user
                _finish_removal(doomed)


def _finish_removal(doomed: Path) -> None:
    """Delete a directory that was renamed, then the pointer of its run."""
    delete(doomed)
    run_id = doomed.name.removeprefix(_REMOVED)
    if not doomed.with_name(run_id).exists():
        pointer_of(run_id).unlink(missing_ok=True)
