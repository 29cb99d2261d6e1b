"""The run: one step after another, what is due between two, and the end. All ranks do the same at the same step."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

from fsdpctl.contract.paths import checkpoint_name
from fsdpctl.contract.rank_progress import Section
from fsdpctl.contract.records import Outcome
from fsdpctl.contract.work_log import Work
from train.checkpoint.manager import CheckpointManager
from train.checkpoint.train_state import TrainState, seed_dropout
from train.compile_cache.cache import CompileCache
from train.context import RankContext
from train.data.batch import Batch, blank_batch, read_batch, split_targets
from train.data.sample_order import SampleIds, SampleOrder, hash_samples, rank_share
from train.data.source import open_source
from train.errors import TrainError
from train.evaluate import held_out_loss
from train.metrics import memory
from train.metrics.compile_times import record_compiling
from train.metrics.profiling import Profiler, memory_advice
from train.metrics.recorder import StepTensors
from train.metrics.run_header import log_run_header
from train.metrics.stragglers import StragglerDetector
from train.metrics.telemetry import Telemetry
from train.metrics.utilization import attended_share
from train.metrics.writer import HeldOutLoss
from train.model.language_model import IGNORED
from train.nonfinite import NonFiniteError, NonFiniteGuard
from train.optim import build_optimizer, clip_gradients, learning_rate, take_step
from train.parallel.float8 import compute_scales
from train.parallel.parallelize import build_model, compute_dtype, set_gradient_sync, uses_compiler
from train.preempt import Stop

log = logging.getLogger(__name__)

COLLECT_EVERY = 100  # steps between garbage collections, on all ranks at once


class Trainer:
    """One attempt of a run, on one rank."""

    def __init__(self, context: RankContext) -> None:
        self.context = context
        self.config, self.layout, self.world = context.config, context.layout, context.world
        self.stopper, self.progress = context.stopper, context.progress
        config, world = self.config, self.world
        self.progress.mark(Section.START, 0, "data")
        self.data = open_source(config, world, self.progress.sign)
        self.order = SampleOrder(self.data.train.num_sequences, config.batch.sequences, config.seed)
        stragglers = StragglerDetector(world, config.log_every, context.launch.record_event)
        self.compile_cache = CompileCache(context)
        self.progress.mark(Section.START, 0, "model")
        graphs_dir = self.compile_cache.directory
        self.model = build_model(config, world, self.layout.mesh, stragglers.local_compute.timed, graphs_dir)
        record_compiling(self.progress.work_log)
        self.optimizer = build_optimizer(self.model, config.optim)
        self.guard = NonFiniteGuard(world, compute_dtype(config.precision, world.device), config.max_skipped_steps)
        state = TrainState(self.model, self.optimizer, self.guard)
        self.checkpoints = CheckpointManager(context, state, self.data.index.fingerprint)
        self.saver = self.checkpoints.saver
        log_run_header(context, self.data)
        for line in memory.describe(config, self.model, self.optimizer):
            log.info("%s", line)
        self.profiler = Profiler(context)
        self.local_compute = stragglers.local_compute
        self.progress.mark(Section.START, 0, "checkpoint", Work.RESTORE)
        compiles = uses_compiler(config, world.device)
        with self._memory_advice():
            self.step = self.checkpoints.resume(self._compile_ahead if compiles else None)
        self._weights_changed()
        self.progress.work_log.begin(Work.START)
        if self.step >= config.steps:
            log.info("all %d steps are done already: evaluating only", config.steps)
        self.telemetry = Telemetry(context, self.step, self.guard, stragglers)
        context.cleanup.callback(self.close)

    def run(self) -> Outcome:
        """Train until the last step or until asked to stop. Raises TrainError for an expected failure."""
        try:
            with self._memory_advice():
                outcome = self._run()
        except NonFiniteError:
            self._finish_save_in_flight()
            raise
        self.end()
        return outcome

    @contextmanager
    def _memory_advice(self) -> Iterator[None]:
        """Raise TrainError, with what would need less memory, where a GPU has too little."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise TrainError(memory_advice(error, self.profiler.out_of_memory())) from error

    def end(self) -> None:
        """Write what is still to be written at a good end."""
        self.progress.mark(Section.END, self.step)
        self.profiler.close(self.step)
        self.telemetry.recorder.drain()

    def close(self) -> None:
        """Let a save in flight end, on every way out, before the metrics writers are closed."""
        self.telemetry.recorder.close()
        self.saver.close()

    def _run(self) -> Outcome:
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection on one rank at a time would make all ranks wait, one after the other
        self.telemetry.recorder.restart_clock()
        if self._misses_evaluation():
            self._evaluate()
        while self.step < self.config.steps:
            self.progress.mark(Section.STEP, self.step)
            if stop := self.stopper.agree(self.world):
                return self._stop(stop)
            self.compile_cache.settle()
            if self.profiler.before_step(self.step + 1):
                self.telemetry.recorder.restart_clock()
            self._train_step()
            if self.profiler.after_step(self.step):
                self.telemetry.recorder.restart_clock()
            self._between_steps()
        return self._finish()

    def _train_step(self) -> None:
        self.progress.step_begins()
        ids = self.order.step_ids(self.step)
        own_loss, (loss_sum, valid_tokens, position_sum) = self._backward(ids)
        divisor = valid_tokens.clamp(min=1)
        loss, scale = loss_sum / divisor, self.guard.scale.clone()
        factor = (self.layout.tokens_per_step / divisor).float() / scale
        grad_norm = clip_gradients(self.model, self.config.optim.clip_norm, factor)
        rate = learning_rate(self.config.optim, self.step, self.config.steps)
        self.saver.hold()
        skip = self.guard.judge(loss, grad_norm)
        take_step(self.optimizer, rate, skip)
        self._weights_changed()
        self.step += 1
        guard = self.guard
        attended = attended_share(position_sum, self.layout.tokens_per_step, self.config.model.seq_len)
        tensors = StepTensors(loss, grad_norm, own_loss, valid_tokens, guard.skipped, guard.in_a_row, scale, attended)
        self.telemetry.recorder.record(self.step, tensors, rate, hash_samples(ids))

    def _backward(self, ids: SampleIds) -> tuple[Tensor, Tensor]:
        """Compute the gradient of the step's token losses, summed, times the loss scale, over its number of tokens.

        Returns this rank's sum of token losses, and of all ranks that sum, how many tokens counted in it, and the sum
        of the positions of all tokens: on the device.
        """
        world, device = self.world, self.world.device
        sums = torch.zeros(3, dtype=torch.float64, device=device)
        for micro_step, chosen in enumerate(rank_share(ids, world.rank, world.size, self.layout.micro_batch)):
            seed_dropout(device, self.config.seed, self.step, micro_step, world.rank)
            self.progress.mark(Section.DATA, self.step)
            batch = read_batch(self.data.train, chosen, self.config.data)
            self.progress.mark(Section.STEP, self.step)
            sums += self._add_gradient(batch.to(device), is_last=micro_step == self.layout.accumulation - 1)
        return sums[0], world.all_reduce_sum(sums.clone())

    def _add_gradient(self, batch: Batch, *, is_last: bool) -> Tensor:
        """Compute the gradient of one micro-batch on top of those before it.

        Returns this rank's sum of token losses, how many tokens counted in it, and the sum of the positions: (3,).
        """
        set_gradient_sync(self.model, is_last)
        inputs, targets = split_targets(batch, self.config.data.ignore_token)
        loss = self.model(inputs, targets, batch.positions_BT)
        # FSDP takes the mean over ranks; times the world that is the sum, divided by the step's own tokens.
        (loss * (self.world.size / self.layout.tokens_per_step) * self.guard.scale).backward()
        parts = (loss.detach(), (targets != IGNORED).sum(), batch.position_sum())
        return torch.stack([part.double() for part in parts])

    def _compile_ahead(self) -> None:
        """Let the compiler work while the weights are loaded: it needs their shapes, not their values.

        The model is called on zeros, with whatever its memory holds at that moment, and nothing of it remains.
        """
        self._weights_changed()
        batch = blank_batch(self.layout.micro_batch, self.config.model.seq_len, self.config.data)
        self._add_gradient(batch.to(self.world.device), is_last=True)
        self.optimizer.zero_grad()
        self.local_compute.take()

    def _weights_changed(self) -> None:
        if self.config.precision == "float8":
            compute_scales(self.model)

    def _between_steps(self) -> None:
        checkpoint = self.config.checkpoint
        if self.step % COLLECT_EVERY == 0:
            gc.collect()
        self.saver.settle()
        if self.checkpoints.saves and self.step % checkpoint.every_steps == 0:
            self.checkpoints.save_on_schedule(self.step, self.telemetry)
        if self._is_evaluation_due():
            self._evaluate()

    def _is_evaluation_due(self) -> bool:
        every = self.config.eval.every_steps
        return every is not None and self.step % every == 0 and 0 < self.step < self.config.steps

    def _misses_evaluation(self) -> bool:
        """Return whether the attempt before ended between the save of this step and its evaluation. Collective."""
        if not self._is_evaluation_due():
            return False
        return bool(self.world.maximum(int(self.world.is_main and not self.telemetry.has_held_out(self.step))))

    def _evaluate(self) -> HeldOutLoss | None:
        """Write and return the loss on held-out text.

        None where a stop came in between, which the next step boundary obeys.
        """
        self.progress.mark(Section.EVALUATE, self.step)
        self.telemetry.recorder.drain()
        loss = held_out_loss(self.context, self.model, self.data.val)
        found = HeldOutLoss(self.step, loss, self.data.index.unigram_entropy) if loss is not None else None
        if found is not None:
            self.telemetry.held_out(found)
        self.telemetry.recorder.restart_clock()
        return found

    def _stop(self, stop: Stop) -> Outcome:
        log.info("asked to stop (%s) after step %d", stop.reason.value, self.step)
        self.progress.mark(Section.SAVE, self.step)
        self.checkpoints.drain(self.telemetry)  # only then the time that is left is known
        problem = self.checkpoints.why_not_saved(self.step, stop)
        if not problem and not self.checkpoints.save_now(self.step, self.telemetry):
            problem = "the save failed"
        self.telemetry.recorder.drain()
        if not problem:
            return Outcome("stopped", self.step, checkpoint_name(self.step), stop.reason.value, self._summary())
        reason = f"not saved: {problem}; a resume {self.saver.describe_newest(self.step)}"
        log.warning("step %d %s", self.step, reason)
        return Outcome("stopped", self.step, None, reason, self._summary())

    def _finish_save_in_flight(self) -> None:
        """Let a save in flight finish, when all ranks give up at the same step: it is a good one."""
        while self.saver.in_flight:
            with suppress(NonFiniteError):  # of the steps that were on their way
                self.checkpoints.drain(self.telemetry)

    def _finish(self) -> Outcome:
        if self.checkpoints.saves and not self.checkpoints.save_now(self.step, self.telemetry):
            raise TrainError(f"all {self.step} steps are done, but the last checkpoint could not be saved")
        numbers: dict[str, float] = {}
        if self.config.eval.sequences:
            while (held_out := self._evaluate()) is None:
                if stop := self.stopper.agree(self.world):
                    return self._stop(stop)  # all is saved: a resume has only to evaluate
            numbers = held_out.summary()
        self.telemetry.recorder.drain()  # the summary is of all steps
        self.checkpoints.finish_removals()
        checkpoint = checkpoint_name(self.step) if self.checkpoints.saves else None
        return Outcome("finished", self.step, checkpoint, "", {**self._summary(), **numbers})

    def _summary(self) -> dict[str, float]:
        peak = round(memory.peak_memory_gib(self.world, self.telemetry.recorder.gpu_peaks), 3)
        log.info("peak memory %.2f GiB", peak)
        return {**self.telemetry.summary(), **self.profiler.summary(), "peak_memory_gib": peak}
