"""Saving beside training: staged at a step boundary, written by a thread, and its result handled at a later step.

At most one save is in flight; a save that is due earlier waits for the one before it. All ranks handle the end of a
save at the same step, so that they continue, or give up, alike.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from fsdpctl.contract.formats.manifest import EXIT_S, Manifest
from fsdpctl.contract.paths import checkpoint_name
from train.checkpoint.staging import StagedTensor, Staging
from train.checkpoint.verified_checkpoints import VerifiedCheckpoints
from train.errors import TrainError
from train.parallel.world import World

log = logging.getLogger(__name__)

MAX_FAILED_SAVES = 3  # in a row; a run that cannot save is not worth its hours
ERROR_WAIT_S = 10.0  # for this rank's own error of a save that failed on another rank
CLOSE_WAIT_S = 10.0  # for a save in flight, when a rank ends with an error
REMOVALS_WAIT_S = EXIT_S / 2  # at every end; a stop may have no more time


class _Stage(IntEnum):
    """Of a save; the largest one of all ranks decides."""

    ENDED = 0
    WRITING = 1
    BROKEN = 2


@dataclass(frozen=True)
class SaveChecks:
    """What must hold of a save, asked in its thread."""

    copied: Callable[[], None]  # once the copy is complete, on every rank; what it raises ends the run
    written: Callable[[], None]  # before it gets its name, on rank 0; an OSError fails this save alone


class AsyncSaver:
    """The saves of one attempt, on one rank."""

    def __init__(
        self, checkpoints: VerifiedCheckpoints, staging: Staging, world: World, on_saved: Callable[[int, str], None]
    ) -> None:
        self.checkpoints, self.staging, self.world, self.on_saved = checkpoints, staging, world, on_saved
        self.saved_step: int | None = None
        self.save_s = 0.0  # duration of the last one, from staging to disk, on the slowest rank; 0: not known
        self.failed_saves = 0
        self.in_flight: _Save | None = None

    def save(self, manifest: Manifest, tensors: Mapping[str, Tensor], checks: SaveChecks) -> None:
        """Save the tensors as they are now. `hold` must be called before they change."""
        self._wait_for_the_last(manifest.step)
        began = time.perf_counter()
        staged = self.staging.copy(tensors)
        self.in_flight = _Save(manifest.step, began, lambda: self._write(manifest, staged, checks))

    def hold(self) -> None:
        """Protect a copy that is not complete yet. Call it before the tensors change."""
        if self.in_flight:
            self.staging.hold()

    def settle(self) -> None:
        """Handle the result of a save that has ended on all ranks. Collective, at a step boundary.

        Raises what makes the run end: a stale attempt, too many failures in a row, a bug.
        """
        save = self.in_flight
        if save is None:
            return
        stage = self.world.maximum(save.stage)
        if stage == _Stage.WRITING:
            return
        self.in_flight = None
        if stage == _Stage.BROKEN:
            save.thread.join(ERROR_WAIT_S)
            raise save.error or TrainError(f"the save of step {save.step} broke on another rank")
        self._handle_result(save)

    def drain(self) -> None:
        """Wait for the save in flight, if there is one."""
        while self.in_flight:
            self.in_flight.thread.join(1.0)
            self.settle()

    def close(self) -> None:
        """Let a save in flight end, on a way out that does not handle its result; but do not wait long for a disk."""
        if self.in_flight:
            self.in_flight.thread.join(CLOSE_WAIT_S)
        self.checkpoints.removals.wait(REMOVALS_WAIT_S)

    def describe_newest(self, step: int) -> str:
        """Describe where a resume continues if the run ends after `step` without another save."""
        if self.saved_step is None:
            return "begins at step 0"
        lost = step - self.saved_step
        return f"continues from {checkpoint_name(self.saved_step)}, {lost} step{'s' if lost > 1 else ''} back"

    def _wait_for_the_last(self, step: int) -> None:
        if self.in_flight:
            last, began = self.in_flight.step, time.perf_counter()
            self.drain()
            waited = time.perf_counter() - began
            if self.world.is_main:
                log.warning("the save of step %d waited %.2f s for that of step %d", step, waited, last)

    def _write(self, manifest: Manifest, staged: Mapping[str, StagedTensor], checks: SaveChecks) -> str | None:
        if self.world.device.type == "cuda":
            torch.cuda.set_device(self.world.device)  # a thread begins on GPU 0
        self.staging.wait()
        checks.copied()
        return self.checkpoints.save(manifest, staged, checks.written)

    def _handle_result(self, save: _Save) -> None:
        gc.collect()  # on all ranks at once: torch's planning leaves a third of a megabyte in circles
        # Where nodes have disks of their own, one whole copy is enough: the others can get it from there.
        if self.world.maximum(save.name is not None):
            log.info("saved %s in %.2f s (staged in %.3f s)", checkpoint_name(save.step), save.seconds, save.staging_s)
            if self.world.is_main:
                self.on_saved(save.step, f"{checkpoint_name(save.step)} in {save.seconds:.2f} s")
            self.saved_step, self.failed_saves = save.step, 0
            self.save_s = self.world.maximum(int(1000 * save.seconds)) / 1000
            return
        self.failed_saves += 1
        if self.failed_saves == MAX_FAILED_SAVES:
            raise TrainError(f"{MAX_FAILED_SAVES} checkpoints in a row could not be saved")


class _Save:
    """One save in its thread. A daemon: a rank that ends with an error must not wait for a disk without a limit."""

    def __init__(self, step: int, began: float, write: Callable[[], str | None]) -> None:
        self.step = step
        self.name: str | None = None
        self.error: BaseException | None = None
        self.began = self.ended = began
        self.thread = threading.Thread(target=self._run, args=(write,), name=f"save-{step}", daemon=True)
        self.thread.start()
        self.staging_s = time.perf_counter() - began

    @property
    def stage(self) -> _Stage:
        if self.thread.is_alive():
            return _Stage.WRITING
        return _Stage.BROKEN if self.error else _Stage.ENDED

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def _run(self, write: Callable[[], str | None]) -> None:
        try:
            self.name = write()
        except BaseException as error:  # raised by `settle`, in the main thread
            self.error = error
        self.ended = time.perf_counter()
