"""The run: load the newest checkpoint, train, save, and stop or finish. All ranks do the same at the same step."""

from __future__ import annotations

import gc
import logging
import time

import torch
from torch import Tensor

from fsdpctl.contract import StopWord
from fsdpctl.contract.checkpoint import MANIFEST_FORMAT, Manifest
from fsdpctl.contract.codec import encode
from fsdpctl.contract.paths import NodePaths, RunPaths, checkpoint_name
from fsdpctl.contract.pulse import PulseWriter, Section
from fsdpctl.contract.records import Outcome
from fsdpctl.contract.trainer import TrainerConfig

from .checkpoint import Checkpoints
from .data import SampleIds, SampleOrder, hash_samples, rank_share
from .distributed import World
from .errors import ConfigError, TrainError
from .evaluate import held_out_loss
from .launch import Launch
from .layout import Layout
from .optim import build_optimizer, clip_gradients, learning_rate, set_learning_rate
from .parallelize import build_model, set_gradient_sync
from .preempt import Stopper
from .progress import announce
from .saver import Saver
from .source import open_source
from .staging import Staging
from .state import check_resumable, seed_dropout, state_tensors
from .telemetry import Telemetry

log = logging.getLogger(__name__)

COLLECT_EVERY = 100  # steps between garbage collections, on all ranks at once


class Trainer:
    """One attempt of a run, on one rank."""

    def __init__(
        self,
        config: TrainerConfig,
        layout: Layout,
        paths: RunPaths,
        launch: Launch,
        world: World,
        stopper: Stopper,
    ) -> None:
        self.config, self.layout, self.launch, self.world = config, layout, launch, world
        self.stopper = stopper
        self.pulse = PulseWriter(NodePaths(launch.node_dir).pulse(world.place.rank) if launch.node_dir else None)
        self.pulse.mark(Section.START, 0)
        self.data = open_source(config, world)
        self.order = SampleOrder(self.data.train.num_sequences, config.batch.sequences, config.seed)
        self.model = build_model(config, world, layout.mesh)
        self.optimizer = build_optimizer(self.model, config.optim)
        self.checkpoints = Checkpoints(paths, world.new_council(), launch.attempt, config.checkpoint.keep)
        tensors = state_tensors(self.model, self.optimizer)
        self.saver = Saver(
            self.checkpoints, Staging(tensors, world.place, world.device), world, wait=config.checkpoint.mode == "sync"
        )
        announce(config, layout, world, self.data)
        self.step = 0
        self._resume()
        self.telemetry = Telemetry(config, layout, paths, world, launch.attempt, self.step)

    def run(self) -> Outcome:
        """Train until the last step or until asked to stop."""
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection on one rank at a time would make all ranks wait, one after the other
        self.telemetry.recorder.restart_clock()
        while self.step < self.config.steps:
            self.pulse.mark(Section.STEP, self.step)
            if word := self.stopper.agree(self.world):
                return self._stop(word)
            self._train_step()
            self._between_steps()
        return self._finish()

    def close(self) -> None:
        self.pulse.mark(Section.END, self.step)
        self.telemetry.close()

    def _train_step(self) -> None:
        self.pulse.step_begins()
        ids = self.order.step_ids(self.step)
        loss = self._backward(ids) / self.layout.tokens_per_step
        grad_norm = clip_gradients(self.model, self.config.optim.clip_norm)
        rate = learning_rate(self.config.optim, self.step, self.config.steps)
        set_learning_rate(self.optimizer, rate)
        self.saver.hold()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        self.telemetry.recorder.record(self.step, loss, grad_norm, rate, hash_samples(ids))

    def _backward(self, ids: SampleIds) -> Tensor:
        """Leave the gradient of the mean token loss of the step; return the sum of its token losses."""
        place, device = self.world.place, self.world.device
        loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        for micro_step, chosen in enumerate(rank_share(ids, place.rank, place.world, self.layout.micro_batch)):
            seed_dropout(self.config.seed, self.step, micro_step, place.rank)
            set_gradient_sync(self.model, micro_step == self.layout.accumulation - 1)
            self.pulse.mark(Section.DATA, self.step)
            batch = self.data.train.sequences(chosen)
            self.pulse.mark(Section.STEP, self.step)
            if device.type == "cuda":
                batch = batch.pin_memory().to(device, non_blocking=True)
            loss = self.model(batch[:, :-1], batch[:, 1:])
            # FSDP takes the mean over ranks; times the world that is the sum, divided by the step's own tokens.
            (loss * (place.world / self.layout.tokens_per_step)).backward()
            loss_sum += loss.detach()
        return self.world.add_up(loss_sum)

    def _between_steps(self) -> None:
        evaluation, checkpoint = self.config.eval, self.config.checkpoint
        if self.step % COLLECT_EVERY == 0:
            gc.collect()
        self.saver.settle()
        if self.step % checkpoint.every_steps == 0:
            self._save()
        if evaluation.every_steps and self.step % evaluation.every_steps == 0 and self.step < self.config.steps:
            self._evaluate()

    def _evaluate(self) -> float:
        self.pulse.mark(Section.EVALUATE, self.step)
        self.telemetry.recorder.drain()
        loss = held_out_loss(self.model, self.data.val, self.config.eval.sequences, self.layout.micro_batch, self.world)
        self.telemetry.held_out(self.step, loss, self.data.index.unigram_entropy)
        self.telemetry.recorder.restart_clock()
        return loss

    def _stop(self, word: StopWord) -> Outcome:
        log.info("asked to stop (%s) after step %d", word.value, self.step)
        saved = checkpoint_name(self.step) if self._save_now() else None
        self.telemetry.recorder.drain()
        return Outcome("stopped", self.step, saved, word.value, self.telemetry.summary())

    def _finish(self) -> Outcome:
        if not self._save_now():
            raise TrainError(f"all {self.step} steps are done, but the last checkpoint could not be saved")
        held_out = self._evaluate()
        numbers = {"held_out_loss": held_out, "unigram_entropy": self.data.index.unigram_entropy}
        summary = {**self.telemetry.summary(), **numbers}
        return Outcome("finished", self.step, checkpoint_name(self.step), "", summary)

    def _save_now(self) -> bool:
        """Have a checkpoint of this step before going on; False when that failed."""
        self.pulse.mark(Section.SAVE, self.step)
        self.saver.drain()
        if self.saver.saved_step != self.step:
            self._save()
            self.saver.drain()
        return self.saver.saved_step == self.step

    def _save(self) -> None:
        self.pulse.mark(Section.SAVE, self.step)
        self.telemetry.recorder.drain()  # a checkpoint must not know more steps than the metrics
        tensors = state_tensors(self.model, self.optimizer)
        self.saver.save(self._describe(), tensors, beforehand=self.telemetry.sync)
        self.telemetry.recorder.restart_clock()

    def _describe(self) -> Manifest:
        return Manifest(
            format=MANIFEST_FORMAT,
            step=self.step,
            attempt=self.launch.attempt,
            world=self.world.place.world,
            mesh=self.layout.mesh,
            config=encode(self.config),
            data_fingerprint=self.data.index.fingerprint,
            torch_version=torch.__version__,
            time=time.time(),
            files={},  # known once they are written
        )

    def _resume(self) -> None:
        """Continue from the newest intact checkpoint, if there is one."""
        if self.world.is_main:
            self.checkpoints.remove_leftovers()
        found = self.checkpoints.find_newest()
        if found is None:
            log.info("no checkpoint: starting at step 0")
            return
        for change in check_resumable(found.config, encode(self.config)):
            log.info("changed since the checkpoint: %s", change)
        if found.data_fingerprint != self.data.index.fingerprint:
            raise ConfigError(
                f"the data has fingerprint {self.data.index.fingerprint}, but {checkpoint_name(found.step)} "
                f"was trained on {found.data_fingerprint}: that would be another run"
            )
        self.checkpoints.load(found, state_tensors(self.model, self.optimizer))
        self.step = self.saver.saved_step = found.step
        files = f"{len(found.files)} files, {found.num_bytes / 1e6:.1f} MB, written by {found.world} ranks"
        log.info("resuming at step %d from %s (%s, verified)", self.step, checkpoint_name(found.step), files)
        if self.step >= self.config.steps:
            log.info("all %d steps are done already: evaluating only", self.config.steps)
