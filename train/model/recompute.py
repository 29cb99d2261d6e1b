"""Activation checkpointing: what a block drops after its forward pass and computes again in the backward pass.

It happens inside of the block, so that a compiled block holds it in its graph: the other way round torch keeps far
more (pytorch #161889).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from fsdpctl.contract.trainer.trainer_config import Recompute

KEPT = [
    torch.ops.aten.mm.default,
    torch.ops.aten._scaled_mm.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.higher_order.flex_attention,
]
"""What `selective` keeps: the products of matrices and attention. All else is cheap to compute again."""


class Block(nn.Module):
    """A block of a model, of any architecture. A subclass defines `compute`, its forward pass."""

    compute: Callable[..., Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.recompute: Recompute = "none"

    def forward(self, *inputs: Any) -> Tensor:
        return call(self.compute, self.recompute, *inputs)


def call(function: Callable[..., Tensor], recompute: Recompute, *inputs: Any) -> Tensor:
    """Call `function`, keeping of its intermediate values what `recompute` leaves."""
    if recompute == "none" or not torch.is_grad_enabled():
        return function(*inputs)
    # The compiler wants to see the context function in the call itself, a plain one.
    out: Tensor
    if recompute == "selective":
        out = checkpoint(function, *inputs, use_reentrant=False, context_fn=_keep_products)
    else:
        out = checkpoint(function, *inputs, use_reentrant=False)
    return out


def _keep_products() -> Any:
    return create_selective_checkpoint_contexts(_policy)  # type: ignore[no-untyped-call]


def _policy(context: SelectiveCheckpointContext, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    """Choose by a function: not every torch takes a list with flex attention, which is a higher-order operator."""
    return CheckpointPolicy.MUST_SAVE if operator in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


_keep_products.cache_hash = str(KEPT)  # type: ignore[attr-defined]  # without it the compiler's cache takes no such graph
