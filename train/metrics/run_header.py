"""The lines at the start of the log: what is trained, on which devices, and how it is divided."""

from __future__ import annotations

import logging

import torch

from train.context import RankContext
from train.data.tokens import Dataset
from train.parallel.parallelize import compute_dtype

log = logging.getLogger(__name__)


def log_run_header(context: RankContext, data: Dataset) -> None:
    """Log mesh, device, model, batch and data."""
    config, layout, world = context.config, context.layout, context.world
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
    if config.precision == "auto" and dtype == "float16":
        log.warning("%s has no bf16: precision `auto` takes fp16 with a loss scale", device)
    log.info("device: %s, %s, torch %s", device, dtype, torch.__version__)
    log.info("model: %s parameters, sequences of %d", f"{config.model.num_parameters:,}", config.model.seq_len)
    log.info(
        "batch: %s tokens a step = %d ranks x micro-batch %d x accumulation %d x %d",
        f"{layout.tokens_per_step:,}",
        *(world.size, layout.micro_batch, layout.accumulation, config.model.seq_len),
    )
    index = data.index
    log.info("data: %s; %s tokens, %s held out", index.source, f"{index.train_tokens:,}", f"{index.val_tokens:,}")
