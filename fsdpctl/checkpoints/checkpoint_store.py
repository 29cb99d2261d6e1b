"""Access to a run's checkpoints: on a disk shared with this machine, or as copies on each of its hosts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from fsdpctl.checkpoints.listing import Stored, Taken, examine, list_checkpoints, own_script_error, take_whole
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.formats.lease import leased
from fsdpctl.contract.formats.removal import remove_checkpoint
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import read_plan


class CheckpointStore(Protocol):
    """The operations on a run's checkpoints, wherever they are stored."""

    def read(self) -> list[Stored]:
        """Return all checkpoints, the newest first, without reading their files."""

    def examine(self, stored: Stored) -> Stored:
        """Read every byte; return the checkpoint with what is wrong with it, or as gone."""

    def remove(self, stored: Stored) -> list[str]:
        """Remove a checkpoint; return the directories that are left where it was a link."""

    def take(self, step: int | None, near: Path) -> AbstractContextManager[Taken]:
        """Yield the checkpoint of `step`, or the newest whole one, verified, on this machine, and safe from retention.

        A copy from a host is stored in the directory `near` for the time of the context.
        """

    def errors(self) -> list[str]:
        """Return what has failed so far, like unreachable hosts, one line each."""


def open_store(run: RunPaths) -> CheckpointStore:
    """Return the store of a run. Raise UsageError for a run of a user's own script."""
    try:
        plan = read_plan(run)
    except (OSError, CodecError):
        return SharedStore(run)  # a damaged run may have whole checkpoints
    if not plan.entry.is_bundled_trainer:
        raise own_script_error(run)
    if plan.shared_disk:
        return SharedStore(run)
    from fsdpctl.checkpoints.per_host_store import PerHostStore

    return PerHostStore(run, plan)


class SharedStore:
    """A `CheckpointStore` in the run directory."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run

    def read(self) -> list[Stored]:
        return list_checkpoints(self._run)

    def examine(self, stored: Stored) -> Stored:
        with leased(stored.path):
            return examine(stored)

    def remove(self, stored: Stored) -> list[str]:
        left = remove_checkpoint(stored.path)
        return [str(left)] if left is not None else []

    def take(self, step: int | None, near: Path) -> AbstractContextManager[Taken]:
        return take_whole(self._run, step)

    def errors(self) -> list[str]:
        return []
