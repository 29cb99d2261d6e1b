"""AdamW, its schedule and the gradient norm."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from fsdpctl.contract.trainer.trainer_config import OptimConfig
from train.shards import local_part, sharded_as, sum_over_shards


class ShardedAdamW(torch.optim.AdamW):
    """AdamW whose kernels get this rank's parts of the weights, gradients and moments."""

    def _init_group(self, group: dict[str, Any], *chosen: list[Tensor]) -> bool:
        """Fill the lists that a kernel gets."""
        has_complex: bool = super()._init_group(group, *chosen)  # type: ignore[no-untyped-call]
        for tensors in chosen:
            tensors[:] = [local_part(tensor) for tensor in tensors]
        return has_complex


def build_optimizer(model: nn.Module, config: OptimConfig) -> ShardedAdamW:
    """Return an AdamW that decays matrices only. Its state exists already, so a checkpoint can be loaded into it."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim >= 2]
    vectors = [p for p in trained if p.ndim < 2]
    optimizer = ShardedAdamW(
        [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )
    for parameter in trained:
        optimizer.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": sharded_as(parameter, torch.zeros_like(local_part(parameter))),
            "exp_avg_sq": sharded_as(parameter, torch.zeros_like(local_part(parameter))),
        }
    return optimizer


def learning_rate(config: OptimConfig, step: int, steps: int) -> float:
    """Return the rate of the step after `step` steps: linear warm-up, then the schedule down to `min_lr_ratio`."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    progress = min(1.0, (step - config.warmup_steps) / max(1, steps - config.warmup_steps))
    shape = {
        "cosine": 0.5 * (1 + math.cos(math.pi * progress)),
        "linear": 1 - progress,
        "wsd": min(1.0, (1 - step / steps) / config.decay_ratio),
        "constant": 1.0,
    }[config.schedule]
    return config.lr * (config.min_lr_ratio + (1 - config.min_lr_ratio) * shape)


def clip_gradients(model: nn.Module, max_norm: float, factor: Tensor) -> Tensor:
    """Multiply all gradients by `factor`, and scale them down where their norm over all ranks then exceeds `max_norm`.

    Returns the norm before scaling down, a scalar on the device.
    """
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    parts = [local_part(gradient) for gradient in gradients]
    norm = sum_over_shards(torch.nn.utils.get_total_norm(parts) ** 2, gradients[0]).sqrt().to(factor.device) * factor
    coefficient = factor * (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(parts, coefficient.to(parts[0].device))
    return norm


def take_step(optimizer: torch.optim.Optimizer, rate: float, skip: Tensor) -> None:
    """Update the weights at this learning rate; where `skip` is 1 the kernel leaves weights and state as they are."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    # With offload the weights are on the CPU, and torch itself would bring `skip` there without waiting for it.
    trained = next(parameter for group in optimizer.param_groups for parameter in group["params"])
    optimizer.found_inf = skip.to(trained.device)  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad()
