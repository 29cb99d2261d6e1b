"""When an attempt saves, the manifest of what it saves, and the state from which it begins."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from fsdpctl.contract.codec import encode
from fsdpctl.contract.events import EventKind
from fsdpctl.contract.formats.manifest import MANIFEST_FORMAT, Manifest
from fsdpctl.contract.paths import checkpoint_name
from fsdpctl.contract.rank_progress import Section
from train.checkpoint import peer_copy
from train.checkpoint.async_saver import AsyncSaver, SaveChecks
from train.checkpoint.staging import Staging
from train.checkpoint.threads import run_in_threads
from train.checkpoint.train_state import TrainState, check_resumable
from train.checkpoint.verified_checkpoints import VerifiedCheckpoints
from train.context import RankContext
from train.errors import ConfigError, TrainError
from train.metrics.telemetry import Telemetry
from train.model.pretrained.load import load_pretrained
from train.model.values import init_weights
from train.nonfinite import LargestValues, require_finite
from train.preempt import Stop

log = logging.getLogger(__name__)

SLOW_REMOVAL_S = 1.0  # above this, a save that waits for one is logged
FINISH_WAIT_S = 60.0  # no other attempt follows; `checkpoints prune` removes what is left even then


class CheckpointManager:
    """Saves and loads the state of one rank."""

    def __init__(self, context: RankContext, state: TrainState, data_fingerprint: str) -> None:
        self.context, self.state, self.data_fingerprint = context, state, data_fingerprint
        self.config, self.world = context.config, context.world
        self.saves = self.config.checkpoint.mode != "none"
        group, keep = self.world.new_control_group(), self.config.checkpoint.keep
        self.checkpoints = VerifiedCheckpoints(context.paths, group, context.attempt, keep, context.progress.add_saved)
        staging = Staging(state.tensors() if self.saves else {}, self.world.rank, group.members, self.world.device)
        self.saver = AsyncSaver(self.checkpoints, staging, self.world, self._record_saved)

    def resume(self, meanwhile: Callable[[], None] | None = None) -> int:
        """Fill the state from the newest intact checkpoint, or for a first step; return the steps done so far.

        `meanwhile` is called in this thread while another one reads a checkpoint's tensors, if there is a step to do.
        Raises ConfigError where the configuration, the data or the checkpoints do not allow it, and TrainError where
        the disk may be at fault.
        """
        if self.world.is_writer:
            self.checkpoints.remove_leftovers()
        found = self.checkpoints.find_newest()
        if not self.world.shared_disk:
            found = peer_copy.share_newest(self.checkpoints, found, self.world, self.context.progress.sign)
        if found is None:
            self._refuse_to_begin_again()
            self._begin()
            return 0
        for change in check_resumable(found.config, encode(self.config)):
            log.info("changed since the checkpoint: %s", change)
        if found.data_fingerprint != self.data_fingerprint:
            raise ConfigError(
                f"the data has fingerprint {self.data_fingerprint}, but {checkpoint_name(found.step)} "
                f"was trained on {found.data_fingerprint}: that would be another run"
            )
        load = partial(self.checkpoints.load, found, self.state.tensors(), self.context.progress.sign)
        run_in_threads([meanwhile, load] if meanwhile and found.step < self.config.steps else [load])
        self.saver.saved_step, self.saver.save_s = found.step, found.save_s
        files = f"{len(found.files)} files, {found.num_bytes / 1e6:.1f} MB, written by {found.world} ranks"
        log.info("resuming at step %d from %s (%s, verified)", found.step, checkpoint_name(found.step), files)
        return found.step

    def save(self, step: int, telemetry: Telemetry) -> None:
        """Save the state as it is after `step` steps; beside training, unless the configuration asks to wait."""
        self.context.progress.mark(Section.SAVE, step)
        if self.saver.in_flight:
            telemetry.recorder.drain()  # that save waits for what this thread delivers
        tensors = self.state.tensors()
        largest = LargestValues.of(tensors, self.world.device)
        checks = SaveChecks(
            copied=lambda: require_finite(largest, step, self.checkpoints.group),
            written=lambda: telemetry.sync(step),  # a checkpoint must not know more steps than the metrics
        )
        self.saver.save(self._describe(step), tensors, checks)
        if self.config.checkpoint.mode == "sync":
            self.drain(telemetry)
        telemetry.recorder.restart_clock()

    def save_on_schedule(self, step: int, telemetry: Telemetry) -> None:
        """Save between two steps. A disk that removes more slowly than saves come is waited for, or it would fill."""
        self.context.progress.mark(Section.SAVE, step)
        removals, keep, began = self.checkpoints.removals, self.config.checkpoint.keep, time.monotonic()
        num_files = removals.num_files
        while self.world.maximum(removals.outstanding > keep) and not self.context.stopper.agree(self.world):
            removals.wait(1.0, at_most=keep)
            if removals.num_files > num_files:
                num_files = removals.num_files
                self.context.progress.sign()
        if (waited_s := time.monotonic() - began) > SLOW_REMOVAL_S and self.world.is_main:
            log.warning("the save of step %d waited %.1f s for older checkpoints to be removed", step, waited_s)
        self.save(step, telemetry)

    def drain(self, telemetry: Telemetry) -> None:
        """Wait for the save in flight. It waits for the numbers of its steps, which this thread has to deliver."""
        telemetry.recorder.drain()
        self.saver.drain()

    def save_now(self, step: int, telemetry: Telemetry) -> bool:
        """Save and wait, unless this step is saved already; return False when that failed."""
        self.context.progress.mark(Section.SAVE, step)
        self.drain(telemetry)
        if self.saver.saved_step != step:
            self.save(step, telemetry)
            self.drain(telemetry)
        return self.saver.saved_step == step

    def finish_removals(self) -> None:
        """Leave a finished run no more checkpoints than `keep` allows, if the disk is not very slow."""
        self.checkpoints.removals.wait(FINISH_WAIT_S)

    def why_not_saved(self, step: int, stop: Stop) -> str:
        """Return why a stop begins no save; nothing where there is time for it, or nothing to save."""
        if not self.saves:
            return "checkpoint.mode is none"
        save_s = self.saver.save_s
        if self.saver.saved_step == step or not self.world.maximum(not stop.has_time_for(save_s)):
            return ""
        return f"a save took {save_s:.1f} s, and {stop.left_s():.1f} s were left of the grace of {stop.grace_s:g} s"

    def _refuse_to_begin_again(self) -> None:
        """Raise ConfigError rather than train again what was saved: new saves would replace what may be repaired.

        Raise TrainError where the disk did not return one: the next attempt may be able to read it.
        """
        damaged = sorted(set().union(*self.world.gather(self.checkpoints.invalid)))
        of_disk = any(self.world.gather(bool(self.checkpoints.unreadable)))
        if damaged:
            raise (TrainError if of_disk else ConfigError)(
                f"no checkpoint of this run is whole, neither {' nor '.join(damaged)}: fsdpctl checkpoints verify"
                f" reports why; to begin at step 0 again, move {self.checkpoints.root} away"
            )

    def _begin(self) -> None:
        log.info("no checkpoint: starting at step 0")
        if self.config.init_from:
            tensors = self.state.tensors_to_start_from(self.config.init_optimizer)
            load_pretrained(tensors, self.config.model, Path(self.config.init_from), self.context.progress.sign)
            log.info("weights%s of %s", " and optimizer" if self.config.init_optimizer else "", self.config.init_from)
        else:
            init_weights(self.state.model, self.config.seed)

    def _record_saved(self, step: int, text: str) -> None:
        self.context.launch.record_event(EventKind.SAVED, text, rank=0, step=step)

    def _describe(self, step: int) -> Manifest:
        return Manifest(
            format=MANIFEST_FORMAT,
            step=step,
            attempt=self.context.attempt,
            world=self.world.size,
            mesh=self.context.layout.mesh,
            config=encode(self.config),
            data_fingerprint=self.data_fingerprint,
            torch_version=torch.__version__,
            time=time.time(),
            files={},  # known once they are written
        )
