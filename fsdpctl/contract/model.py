"""The sizes of a model: V vocabulary, D model width, L layers, T tokens a sequence."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.strict import STRICT

MAX_LAYERS = 10_000
"""No model has so many, and the modules of a model are listed by name."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A Llama-style decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases."""

    __pydantic_config__ = STRICT

    vocab_size: int  # V, the tokenizer's; a multiple of 128 is faster on GPUs
    d_model: int  # D, the width of the residual stream
    layers: int  # L, the number of blocks
    heads: int  # query heads of each block
    kv_heads: int  # heads of keys and values; divides `heads`
    head_dim: int  # width of one head; even
    ffn: int  # width of the SwiGLU
    seq_len: int  # T, tokens of one sequence
    tie_embeddings: bool = False  # one matrix for the embedding and the output
    rope_theta: float = 10_000.0  # base of the rotary positions
    norm_eps: float = 1e-5  # of RMSNorm
    dropout: float = 0.0  # of the embedding and of what each block adds
    init_std: float = 0.02  # of initial weights

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "layers", "heads", "kv_heads", "head_dim", "ffn", "seq_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("rope_theta", "norm_eps", "init_std"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)}")
        if self.layers > MAX_LAYERS:
            raise ValueError(f"layers must be at most {MAX_LAYERS}, got {self.layers}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even for rotary positions, got {self.head_dim}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {self.dropout}")

    @property
    def block_parameters(self) -> int:
        """Attention + SwiGLU + two norms."""
        attention = self.d_model * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.d_model * self.ffn + 2 * self.d_model

    @property
    def num_parameters(self) -> int:
        """V*D (twice if untied) + L blocks + the last norm."""
        embeddings = self.vocab_size * self.d_model * (1 if self.tie_embeddings else 2)
        return embeddings + self.layers * self.block_parameters + self.d_model
