"""What a forward pass leaves for the backward pass: bytes of one token, in a block and at the loss.

Counted from the tensors that autograd, or the compiler's partition of its graph, saves in the bundled trainer's blocks:
d: width, H and K: query and key/value heads, E: head width, F: width of the SwiGLU, V: vocabulary.
"""

from __future__ import annotations

from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.trainer_config import Recompute, TrainerConfig

HALF, SINGLE = 2, 4  # bytes of a value in bf16 or fp16, and in fp32


def block_bytes(model: ModelConfig, recompute: Recompute, *, compiled: bool, half: int = HALF) -> int:
    """Return the bytes that one block keeps of one token."""
    d, queries, keys = model.d_model, model.heads * model.head_dim, 2 * model.kv_heads * model.head_dim
    if recompute == "full":
        return half * d
    log_sums = SINGLE * model.heads
    if recompute == "selective":
        return half * (2 * d + queries + (queries + keys) + 2 * model.ffn) + log_sums
    kept = 3 * d + (queries + keys) + queries + 2 * model.ffn
    if compiled:
        return half * kept + log_sums
    rotated_again = queries + keys
    return half * (kept + 3 * d + rotated_again + model.ffn) + log_sums + 2 * SINGLE * d


def loss_bytes(model: ModelConfig, *, compiled: bool, half: int = HALF) -> int:
    """Return the bytes of one token's logits while their gradient is computed: in half precision, in fp32, again."""
    return model.vocab_size * (2 * half + SINGLE if compiled else 2 * half + 2 * SINGLE)


def kept_bytes(config: TrainerConfig, *, compiled: bool, half: int = HALF) -> int:
    """Return the bytes that all blocks keep of one token."""
    recompute, every = config.memory.recompute, config.memory.recompute_every
    layers = config.model.layers
    recomputed = len(range(0, layers, every)) if recompute != "none" else 0
    whole = block_bytes(config.model, "none", compiled=compiled, half=half)
    less = block_bytes(config.model, recompute, compiled=compiled, half=half)
    return recomputed * less + (layers - recomputed) * whole


def working_bytes(model: ModelConfig, *, compiled: bool, half: int = HALF) -> int:
    """Return the bytes that one block needs of one token while its backward pass runs: all of it, and gradients."""
    return block_bytes(model, "none", compiled=compiled, half=half) + half * (3 * model.ffn + 2 * model.d_model)
