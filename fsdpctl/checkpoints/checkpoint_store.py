"""Where a run's checkpoints lie: on the disk that its nodes share with this machine, or a copy on each of its hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from fsdpctl.checkpoints.listing import Stored, choose_whole, examine, list_checkpoints, own_script_error
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.formats.manifest import remove_checkpoint
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import read_plan


class CheckpointStore(Protocol):
    """What can be done to checkpoints, wherever they lie."""

    def read(self) -> list[Stored]:
        """All of them, the newest first; their files are not read."""

    def examine(self, stored: Stored) -> Stored:
        """Read every byte."""

    def remove(self, stored: Stored) -> None: ...

    def take(self, step: int | None, near: Path) -> AbstractContextManager[Stored]:
        """The checkpoint of `step`, or the newest whole one, verified, on this machine; what is copied goes `near`."""

    def errors(self) -> list[str]:
        """What could not be asked or done so far, one line each."""


def open_shelf(run: RunPaths) -> CheckpointStore:
    """Raises UsageError for a run of the user's own script."""
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
    """All files lie in the run directory."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run

    def read(self) -> list[Stored]:
        return list_checkpoints(self._run)

    def examine(self, stored: Stored) -> Stored:
        return examine(stored)

    def remove(self, stored: Stored) -> None:
        remove_checkpoint(stored.path)

    @contextmanager
    def take(self, step: int | None, near: Path) -> Iterator[Stored]:
        yield choose_whole(self._run, step)

    def errors(self) -> list[str]:
        return []
