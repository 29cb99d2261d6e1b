"""The sizes of a Llama, and the names of its modules: V vocabulary, D model width, L layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fsdpctl.contract.problems import broken_rule
from fsdpctl.contract.trainer.strict import STRICT, require_at_least, require_fraction, require_positive

MAX_LAYERS = 10_000
"""More than any model has; the modules of a model are listed by name."""
SMALL_LAYERS, SMALL_HEADS, SMALL_HEAD_DIM, SMALL_FFN, SMALL_SEQ_LEN = 2, 2, 32, 256, 32


@dataclass(frozen=True, kw_only=True)
class LlamaConfig:
    """A Llama-style decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases."""

    __pydantic_config__ = STRICT

    vocab_size: int  # size of the tokenizer's vocabulary; a multiple of 128 is faster on GPUs
    d_model: int  # width of the residual stream
    layers: int  # number of transformer blocks
    heads: int  # number of query heads in each block
    kv_heads: int  # number of key and value heads in each block; divides `heads`
    head_dim: int  # width of one head; an even number
    ffn: int  # hidden width of the SwiGLU feed-forward layer
    seq_len: int  # number of tokens in one sequence
    tie_embeddings: bool = False  # use one matrix for the embedding and the output layer
    rope_theta: float = 10_000.0  # base frequency of the rotary position embedding
    norm_eps: float = 1e-5  # epsilon of RMSNorm
    dropout: float = 0.0  # dropout probability of the embedding and of the two layers of each block
    init_std: float = 0.02  # standard deviation of the initial weights

    BLOCK_PARTS: ClassVar[tuple[str, ...]] = (
        "attention_norm",
        "attention",
        "attention.qkv",
        "attention.out",
        "mlp_norm",
        "mlp",
        "mlp.gate_up",
        "mlp.down",
    )

    def __post_init__(self) -> None:
        require_at_least(1, vocab_size=self.vocab_size, d_model=self.d_model, layers=self.layers, heads=self.heads)
        require_at_least(1, kv_heads=self.kv_heads, head_dim=self.head_dim, ffn=self.ffn, seq_len=self.seq_len)
        require_positive(rope_theta=self.rope_theta, norm_eps=self.norm_eps, init_std=self.init_std)
        if self.layers > MAX_LAYERS:
            raise broken_rule(f"layers must be at most {MAX_LAYERS}, got {self.layers}", "layers")
        if self.heads % self.kv_heads:
            raise broken_rule(
                f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})", "heads", "kv_heads"
            )
        if self.head_dim % 2:
            raise broken_rule(f"head_dim must be even for rotary positions, got {self.head_dim}", "head_dim")
        require_fraction(dropout=self.dropout)

    def shrunk(self, max_layers: int = SMALL_LAYERS) -> LlamaConfig:
        """Return a tiny model of the same kind, for `--smoke`. Vocabulary and tying stay."""
        heads, head_dim = min(self.heads, SMALL_HEADS), min(self.head_dim, SMALL_HEAD_DIM)
        return replace(
            self,
            d_model=min(self.d_model, heads * head_dim),
            layers=min(self.layers, max_layers),
            heads=heads,
            kv_heads=max(1, heads * self.kv_heads // self.heads),
            head_dim=head_dim,
            ffn=min(self.ffn, SMALL_FFN),
            seq_len=min(self.seq_len, SMALL_SEQ_LEN),
        )

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

    @property
    def matrix_flops(self) -> int:
        """Floating-point operations of a token, forward and backward, in matrix products with weights: 6 for each."""
        in_block = self.block_parameters - 2 * self.d_model
        return 6 * (self.layers * in_block + self.vocab_size * self.d_model)  # the embedding is looked up

    @property
    def attention_flops(self) -> int:
        """Those between tokens: 12 L H E T for the whole square, of which a causal mask needs half."""
        return 6 * self.layers * self.heads * self.head_dim * self.seq_len

    def linear_shapes(self) -> dict[str, tuple[int, int]]:
        """Return the sides of the matrix of each linear layer, (out, in); a tied head is no layer of its own."""
        d, head_dim = self.d_model, self.head_dim
        in_block = {
            "attention.qkv": ((self.heads + 2 * self.kv_heads) * head_dim, d),
            "attention.out": (d, self.heads * head_dim),
            "mlp.gate_up": (2 * self.ffn, d),
            "mlp.down": (d, self.ffn),
        }
        shapes = {f"blocks.{n}.{part}": sides for n in range(self.layers) for part, sides in in_block.items()}
        return shapes if self.tie_embeddings else {**shapes, "head": (self.vocab_size, d)}

    def module_names(self) -> list[str]:
        """Return the modules that can be units, without `shared_modules`."""
        blocks = [f"blocks.{number}" for number in range(self.layers)]
        inside = [name for block in blocks for name in (block, *(f"{block}.{part}" for part in self.BLOCK_PARTS))]
        return [*inside, "norm"] if self.tie_embeddings else ["embed", *inside, "norm", "head"]

    def shared_modules(self) -> list[str]:
        """Return the modules that cannot be units, because both ends of the model use their weight."""
        return ["embed", "head"] if self.tie_embeddings else []

    def parameter_names(self) -> list[str]:
        """Return all parameters: the weight of each module that holds no other. Nothing has a bias."""
        with_a_weight = [part for part in self.BLOCK_PARTS if part not in ("attention", "mlp")]
        inside = [f"blocks.{number}.{part}.weight" for number in range(self.layers) for part in with_a_weight]
        whole = ["embed.weight", *inside, "norm.weight"]
        return whole if self.tie_embeddings else [*whole, "head.weight"]
