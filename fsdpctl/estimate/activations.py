"""What the passes of the bundled trainer hold for each token: bytes, by block and at the loss.

Counted from the tensors that were allocated at the peak of real steps. In names of sizes: d is the model's width, q and
kv those of the queries and of keys and values together, f that of the SwiGLU, V the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.trainer_config import Recompute, TrainerConfig

SINGLE = 4  # bytes of a value in fp32
POSITION = 8
FLEX_BLOCK, FLEX_LISTS = 128, 4  # of tokens; numbers of blocks in four lists, of four bytes each


@dataclass(frozen=True)
class Tokens:
    """Bytes of one token. `half`: of a value in compute precision."""

    model: ModelConfig
    compiled: bool
    half: int
    float8: bool = False  # all products of the blocks

    @property
    def residual(self) -> int:
        """The stream that runs through all blocks."""
        return self.half * self.model.d_model

    def kept(self, recompute: Recompute) -> int:
        """What a block keeps from its forward to its backward pass.

        All of: its input, the same after attention, both normalized, q and k after the rotation, v, attention's output,
        gate and up, and their product; compiled for float8 neither what is normalized nor the product, which are cheap
        to compute again from what is there. Selective keeps the results of matrix products and of attention; full keeps
        the input, and compiled also the product of gate and up.
        """
        d, q, kv, f = self._widths()
        log_sums = SINGLE * self.model.heads
        if recompute == "none":
            again = 2 * d + f if self.compiled and self.float8 else 0
            return self.half * (4 * d + 2 * q + kv + 3 * f - again) + log_sums + 2 * SINGLE
        if recompute == "selective":
            results = 2 * d if self.compiled else 3 * d
            return self.half * (results + q + (q + kv) + 2 * f) + log_sums
        return self.half * (d + f if self.compiled else d)

    def working(self, recompute: Recompute, *, in_one_graph: bool) -> int:
        """What the backward pass of a block adds: gradients, what it computes again, the workspace of attention.

        In one graph the gradient of gate and up takes their place. With fewer key heads than query heads, attention's
        workspace has the gradients of both, and the gradient of gate and up is still there.
        """
        d, q, _, f = self._widths()
        if recompute == "none" and not self.compiled:
            return self.half * (3 * f + 2 * d)
        if recompute == "none":
            return self.half * ((f if in_one_graph else 2 * f) + d)
        grouped = self.model.heads != self.model.kv_heads
        workspace = SINGLE * q * (2 if grouped else 1)
        if recompute == "selective":
            return self.half * ((3 if grouped else 2) * f + 9 * d) + workspace
        return self.kept("none") - self.kept("full") + self.half * ((4 if grouped else 2) * f + 6 * d) + workspace

    def loss_forward(self) -> int:
        """Logits: eager ones also in fp32, and their logarithm."""
        if self.compiled:
            return self.model.vocab_size * self.half
        return self.model.vocab_size * ((self.half if self.half != SINGLE else 0) + 2 * SINGLE)

    def loss_backward(self, *, in_one_graph: bool) -> int:
        """Logits and their gradient: in one graph the gradient takes the place of the logits."""
        if not self.compiled:
            return self.model.vocab_size * 3 * SINGLE
        return self.model.vocab_size * self.half * (1 if in_one_graph else 2)

    def _widths(self) -> tuple[int, int, int, int]:
        model = self.model
        return model.d_model, model.heads * model.head_dim, 2 * model.kv_heads * model.head_dim, model.ffn


def kept_in_all(config: TrainerConfig, tokens: Tokens) -> int:
    """Return what all blocks keep of one token."""
    layers, memory = config.model.layers, config.memory
    recomputed = len(range(0, layers, memory.recompute_every)) if memory.recompute != "none" else 0
    return recomputed * tokens.kept(memory.recompute) + (layers - recomputed) * tokens.kept("none")


def of_documents(config: TrainerConfig, micro_batch: int) -> int:
    """Return what attention within documents adds to a micro-batch.

    Of each token its position and its row of both rotary tables; of each sequence the blocks of flex attention's mask.
    """
    if config.data.attention == "sequence":
        return 0
    model = config.model
    blocks = -(-model.seq_len // FLEX_BLOCK)
    return micro_batch * (model.seq_len * (POSITION + SINGLE * model.head_dim) + FLEX_LISTS * SINGLE * blocks**2)
