"""Model FLOPs utilization (MFU): the operations that a model needs, of those that its GPUs could do in the same time.

The count is that of PaLM (arXiv:2204.02311, appendix B): 6 for each weight that a token is multiplied with, and the
operations of attention, here of the pairs of tokens that a causal mask leaves: half of a sequence's square, or of each
document's where attention is within documents. What is computed again does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fsdpctl.contract.cards import find_card
from fsdpctl.contract.trainer.model_config import ModelConfig
from train.parallel.world import World


@dataclass(frozen=True)
class Utilization:
    """Computes the MFU of a model on all GPUs of a run."""

    model: ModelConfig
    flops: float | None  # that the GPUs can do in a second; None without GPUs, or for cards not in the table

    @classmethod
    def of(cls, model: ModelConfig, world: World) -> Utilization:
        card = find_card(torch.cuda.get_device_name(world.device)) if world.device.type == "cuda" else None
        return cls(model, None if card is None else card.flops * world.size)

    def at(self, tokens_per_s: float, attended: float) -> float | None:
        """Return the MFU. `attended`: see `attended_share`."""
        if self.flops is None:
            return None
        return tokens_per_s * (self.model.matrix_flops + attended * self.model.attention_flops) / self.flops


def attended_share(position_sum: Tensor, tokens: int, seq_len: int) -> Tensor:
    """Return the pairs of tokens that attention connects, as a share of those in causal attention of whole sequences.

    A token at position p, counted from 0, sees p others and half of itself, as the half of a square has it.
    """
    return (2 * position_sum / tokens + 1) / seq_len
