"""AdamW, its schedule and the gradient norm."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from fsdpctl.contract.trainer.trainer_config import OptimConfig


def build_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """Return an AdamW that decays matrices only. Its state exists already, so a checkpoint can be loaded into it."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim >= 2]
    vectors = [p for p in trained if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )
    for parameter in trained:
        optimizer.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter, requires_grad=False),
            "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
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
    norm = torch.nn.utils.get_total_norm(gradients)
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()  # of a sharded model each rank knows only its part (pytorch #170862)
    norm = norm.to(factor.device) * factor
    coefficient = factor * (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, coefficient.to(gradients[0].device))
    return norm


def take_step(optimizer: torch.optim.Optimizer, rate: float, skip: Tensor) -> None:
    """Update the weights at this learning rate; where `skip` is 1 the kernel leaves weights and state as they are."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    # With offload the weights are on the CPU, and torch itself would bring `skip` there without waiting for it.
    optimizer.found_inf = skip.to(optimizer.param_groups[0]["params"][0].device)  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad()
