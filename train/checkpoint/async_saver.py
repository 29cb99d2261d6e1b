"""Saving beside training: staged at a step boundary, written by a thread, and what came of it told at a later one.

At most one save is in flight; a save that is due earlier waits for the one before it. All ranks take the end of a save
in at the same step, so that they go on, or give up, alike.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fsdpctl.contract.formats.manifest import Manifest
from fsdpctl.contract.paths import checkpoint_name
from train.checkpoint.checkpoints import Checkpoints
from train.checkpoint.staging import Piece, Staging
from train.errors import TrainError
from train.parallel.world import World

log = logging.getLogger(__name__)

MAX_FAILED_SAVES = 3  # in a row; a run that cannot save is not worth its hours
PATIENCE_S = 10.0  # for this rank's own word on a save that failed elsewhere

_ENDED, _GOING_ON, _BROKEN = range(3)


@dataclass(frozen=True)
class Checks:
    """What must hold of a save, asked in its thread."""

    copied: Callable[[], None]  # once the copy is there, on every rank; what it raises ends the run
    written: Callable[[], None]  # before it gets its name, on rank 0; an OSError fails this save alone


class Saver:
    """The saves of one attempt, on one rank."""

    def __init__(self, checkpoints: Checkpoints, staging: Staging, world: World) -> None:
        self.checkpoints, self.staging, self.world = checkpoints, staging, world
        self.saved_step: int | None = None
        self.save_s = 0.0  # what the last one took, from staging to disk; 0: not known
        self.failed_saves = 0
        self.in_flight: _Save | None = None

    def save(self, manifest: Manifest, tensors: Mapping[str, Tensor], checks: Checks) -> None:
        """Save the tensors as they are now. `hold` must be called before they change."""
        self._wait_for_the_last(manifest.step)
        began = time.perf_counter()
        pieces = self.staging.copy(tensors)
        self.in_flight = _Save(manifest.step, began, lambda: self._write(manifest, pieces, checks))

    def hold(self) -> None:
        """Call before the tensors change: they may still be on their way into the copy."""
        if self.in_flight:
            self.staging.hold()

    def settle(self) -> None:
        """At a step boundary, on all ranks: take in the end of a save that has ended everywhere.

        Raises what makes the run end: a stale attempt, too many failures in a row, a bug.
        """
        save = self.in_flight
        if save is None:
            return
        stage = self.world.maximum(save.stage)
        if stage == _GOING_ON:
            return
        self.in_flight = None
        if stage == _BROKEN:
            save.thread.join(PATIENCE_S)
            raise save.error or TrainError(f"the save of step {save.step} broke on another rank")
        self._take_in(save)

    def drain(self) -> None:
        """Wait for the save in flight, if there is one."""
        while self.in_flight:
            self.in_flight.thread.join(1.0)
            self.settle()

    def describe_newest(self, step: int) -> str:
        """Where a run goes on that ends after `step` without another save."""
        if self.saved_step is None:
            return "begins at step 0"
        lost = step - self.saved_step
        return f"goes on from {checkpoint_name(self.saved_step)}, {lost} step{'s' if lost > 1 else ''} back"

    def _wait_for_the_last(self, step: int) -> None:
        if self.in_flight:
            last, began = self.in_flight.step, time.perf_counter()
            self.drain()
            waited = time.perf_counter() - began
            if self.world.is_main:
                log.warning("the save of step %d waited %.2f s for that of step %d", step, waited, last)

    def _write(self, manifest: Manifest, pieces: Mapping[str, Piece], checks: Checks) -> str | None:
        if self.world.device.type == "cuda":
            torch.cuda.set_device(self.world.device)  # a thread begins on GPU 0
        self.staging.wait()
        checks.copied()
        return self.checkpoints.save(manifest, pieces, checks.written)

    def _take_in(self, save: _Save) -> None:
        gc.collect()  # on all ranks at once: torch's planning leaves a third of a megabyte in circles
        # Where nodes have disks of their own, one whole copy is enough: the others can get it from there.
        if self.world.maximum(save.name is not None):
            log.info("saved %s in %.2f s (staged in %.3f s)", checkpoint_name(save.step), save.seconds, save.staging_s)
            self.saved_step, self.save_s, self.failed_saves = save.step, save.seconds, 0
            return
        self.failed_saves += 1
        if self.failed_saves == MAX_FAILED_SAVES:
            raise TrainError(f"{MAX_FAILED_SAVES} checkpoints in a row could not be saved")


class _Save:
    """One save in its thread. The thread is a daemon: a rank that ends with an error must not wait for a disk."""

    def __init__(self, step: int, began: float, write: Callable[[], str | None]) -> None:
        self.step = step
        self.name: str | None = None
        self.error: BaseException | None = None
        self.began = self.ended = began
        self.thread = threading.Thread(target=self._run, args=(write,), name=f"save-{step}", daemon=True)
        self.thread.start()
        self.staging_s = time.perf_counter() - began

    @property
    def stage(self) -> int:
        if self.thread.is_alive():
            return _GOING_ON
        return _BROKEN if self.error else _ENDED

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def _run(self, write: Callable[[], str | None]) -> None:
        try:
            self.name = write()
        except BaseException as error:  # told by `settle`, in the main thread
            self.error = error
        self.ended = time.perf_counter()
