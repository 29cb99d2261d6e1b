"""The textbook's view: weights, gradients and AdamW's moments in fp32, 4 + 4 + 8 bytes of a parameter, and how many
ranks share each (Rajbhandari et al., 2020, ZeRO stages 0 to 3). Nothing else of a step is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

GRADIENT = 4
Stage = Literal["replicated", "moments sharded", "gradients and moments sharded", "all sharded"]


def simple_view(parameters: int, ranks: int) -> Mapping[Stage, float]:
    """Return the bytes of each GPU: DDP, ZeRO-1, ZeRO-2 (SHARD_GRAD_OP of FSDP1), and FULL_SHARD."""
    weights, gradients, moments = 4 * parameters, GRADIENT * parameters, 8 * parameters
    return {
        "replicated": weights + gradients + moments,
        "moments sharded": weights + gradients + moments / ranks,
        "gradients and moments sharded": weights + (gradients + moments) / ranks,
        "all sharded": (weights + gradients + moments) / ranks,
    }
