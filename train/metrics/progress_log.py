"""The trainer's own lines in the log: one every `log_every` steps."""

from __future__ import annotations

import logging
from datetime import timedelta

import torch

from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from train.data.tokens import Dataset
from train.metrics.jsonl import StepMetrics
from train.parallel.layout import Layout
from train.parallel.parallelize import compute_dtype
from train.parallel.world import World

log = logging.getLogger(__name__)


class ProgressLog:
    """Shows step, loss, rate and the time left; knows the mean rate of this attempt."""

    def __init__(self, start_step: int, steps: int, log_every: int, tokens_per_step: int) -> None:
        self.first_shown = start_step + 1
        self.steps = steps
        self.log_every = log_every
        self.tokens_per_step = tokens_per_step
        self.seconds = 0.0
        self.timed_steps = 0

    def show(self, metrics: StepMetrics) -> None:
        if metrics.step > self.first_shown:  # the first step also compiles and allocates
            self.seconds += self.tokens_per_step / metrics.tokens_per_s
            self.timed_steps += 1
        if metrics.step % self.log_every and metrics.step not in (self.first_shown, self.steps):
            return
        if metrics.loss is None or metrics.grad_norm is None:
            return  # the guard has said so
        log.info(
            "step %d/%d  loss %.4f  lr %.2e  grad norm %.3f  %s tokens/s  ETA %s",
            *(metrics.step, self.steps, metrics.loss, metrics.lr, metrics.grad_norm),
            f"{metrics.tokens_per_s:,.0f}",
            self._time_left(metrics.step),
        )

    @property
    def tokens_per_s(self) -> float:
        """Mean over the steps of this attempt but the first; 0 when there were none."""
        return self.timed_steps * self.tokens_per_step / self.seconds if self.seconds else 0.0

    def _time_left(self, step: int) -> str:
        if not self.timed_steps:
            return "?"
        return str(timedelta(seconds=round((self.steps - step) * self.seconds / self.timed_steps)))


def announce(config: TrainerConfig, layout: Layout, world: World, data: Dataset) -> None:
    """Say what is about to be trained, where and how it is spread."""
    replicate, shard = layout.mesh
    backend, device = "gloo", "cpu"
    if world.device.type == "cuda":
        backend = "nccl " + ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
        device = torch.cuda.get_device_name(world.device)
    log.info(
        "mesh: %d x %d (replicate x shard), %s, world %d, %s",
        *(replicate, shard, config.mesh.strategy, world.size, backend),
    )
    dtype = str(compute_dtype(config.precision, world.device)).removeprefix("torch.")
    log.info("device: %s, %s, torch %s", device, dtype, torch.__version__)
    log.info("model: %s parameters, sequences of %d", f"{config.model.num_parameters:,}", config.model.seq_len)
    log.info(
        "batch: %s tokens a step = %d ranks x micro-batch %d x accumulation %d x %d",
        f"{layout.tokens_per_step:,}",
        *(world.size, layout.micro_batch, layout.accumulation, config.model.seq_len),
    )
    index = data.index
    log.info("data: %s; %s tokens, %s held out", index.source, f"{index.train_tokens:,}", f"{index.val_tokens:,}")
