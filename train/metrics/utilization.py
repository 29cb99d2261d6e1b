"""Model FLOPs utilization (MFU): the operations that a model needs, of those that its GPUs could do in the same time.

The count is that of PaLM (arXiv:2204.02311, appendix B): 6 for each weight that a token is multiplied with, and the
operations of attention, here of the half that a causal mask needs. What is computed again does not count.
"""

from __future__ import annotations

import torch

from fsdpctl.contract.cards import find_card
from fsdpctl.contract.trainer.model_config import ModelConfig
from train.parallel.world import World


def utilization_per_rate(model: ModelConfig, world: World) -> float | None:
    """Return the MFU of one token a second on all GPUs of the run; None without GPUs, or for cards not in the table."""
    card = find_card(torch.cuda.get_device_name(world.device)) if world.device.type == "cuda" else None
    if card is None:
        return None
    return (model.matrix_flops + model.attention_flops) / (card.flops * world.size)
