"""What takes the memory of a GPU, and when in a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MARGIN = 0.015  # above what the formulas give, so that no measured peak is above it
SURE = 0.96  # of an estimated peak: no measured one is further below it

Items = dict["Item", float]


class Item(StrEnum):
    """What takes the memory."""

    WEIGHTS = "weights, fp32"
    GRADIENTS = "gradients"
    MOMENTS = "AdamW's moments, fp32"
    GATHERED = "weights in compute precision"
    ACTIVATIONS = "activations"
    LOGITS = "logits and loss"
    BUFFERS = "communication buffers"
    SLACK = "compiler and allocator slack"
    CONTEXT = "CUDA context and NCCL"


class Moment(StrEnum):
    """When the peak is."""

    FORWARD = "at the end of the forward pass"
    LOSS = "at the loss"
    BACKWARD = "early in the backward pass"
    REDUCING = "while the first gradients are reduced"
    END = "at the end of the backward pass"


@dataclass(frozen=True)
class Memory:
    """Bytes of one GPU at its peak."""

    moment: Moment
    items: Mapping[Item, float]

    @property
    def allocated(self) -> float:
        """What torch reports as `max_memory_allocated`."""
        return self.total - self.items[Item.CONTEXT] - self.items[Item.SLACK]

    @property
    def total(self) -> float:
        """What should be there, so that it does not run out."""
        return sum(self.items.values())

    @property
    def least(self) -> float:
        """What it cannot do with less than, without slack."""
        return SURE * self.allocated + self.items[Item.CONTEXT]
