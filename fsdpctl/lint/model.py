"""Rules about the sizes of a model that is trained from random weights: those of given weights cannot be changed."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.specs.lint import RuleId

TILE = 64
"""Multiple that the dimensions of a matrix product should have on GPUs: 128 bytes of bf16."""
PADDED = 128
ALIGNED, MAX_HEAD_DIM = 8, 256
"""Of a head, in the fused kernels of attention."""
MATRICES = "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html"
ATTENTION = "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html"


def own_sizes(subject: Subject) -> ModelConfig | None:
    """Return the model, if it is trained on GPUs and its sizes are the user's choice."""
    trainer = subject.trainer
    return trainer.model if trainer is not None and trainer.init_from is None and subject.has_gpus else None


def next_multiple(size: int, of: int) -> int:
    return size + -size % of


@rule(
    RuleId.VOCABULARY_SIZE,
    "warning",
    what="The vocabulary is no multiple of 64.",
    why="The output layer is the largest matrix product of a small model. Tensor cores work on aligned tiles: 50,257"
    " tokens take longer than 50,304, and the added rows are never a target.",
    change="Round `model.vocab_size` up to a multiple of 128; the tokenizer stays as it is.",
    source=MATRICES,
)
def vocabulary_size(subject: Subject) -> Iterator[Found]:
    model = own_sizes(subject)
    if model is not None and model.vocab_size % TILE:
        text = f"{model.vocab_size} is no multiple of {TILE}; {next_multiple(model.vocab_size, PADDED)} is faster"
        yield Found("trainer.model.vocab_size", text)


@rule(
    RuleId.LAYER_WIDTH,
    "warning",
    what="A width of the layers is no multiple of 64.",
    why="Tensor cores work on aligned tiles: a dimension that is no multiple of 64 leaves part of each tile empty, or"
    " selects a slower kernel.",
    change="Round `d_model`, `ffn` or heads x `head_dim` to a multiple of 64; 128 is better.",
    source=MATRICES,
)
def layer_width(subject: Subject) -> Iterator[Found]:
    model = own_sizes(subject)
    if model is None:
        return
    widths = {
        "d_model": (model.d_model, "d_model"),
        "ffn": (model.ffn, "ffn"),
        "heads": (model.heads * model.head_dim, "heads x head_dim"),
        "kv_heads": (model.kv_heads * model.head_dim, "kv_heads x head_dim"),
    }
    for key, (width, name) in widths.items():
        if width % TILE:
            yield Found(f"trainer.model.{key}", f"{name} is {width}, no multiple of {TILE}")


@rule(
    RuleId.HEAD_DIM,
    "warning",
    what="The fused kernels of attention do not take heads of this size as they are.",
    why="FlashAttention and cuDNN take heads of up to 256, and multiples of 8: others are padded in each layer, and"
    " larger ones use a slower kernel.",
    change="Use a `head_dim` of 64 or 128, with more or fewer heads.",
    source=ATTENTION,
)
def head_dim(subject: Subject) -> Iterator[Found]:
    model = own_sizes(subject)
    if model is None:
        return
    if model.head_dim > MAX_HEAD_DIM:
        yield Found("trainer.model.head_dim", f"no fused kernel of attention takes heads of {model.head_dim}")
    elif model.head_dim % ALIGNED:
        text = f"heads of {model.head_dim} are padded to {next_multiple(model.head_dim, ALIGNED)} in each layer"
        yield Found("trainer.model.head_dim", text)


@rule(
    RuleId.SEQUENCE_LENGTH,
    "advice",
    what="The sequence length is no multiple of 64.",
    why="Kernels of attention work on tiles of 64 or 128 tokens: the last tile of each sequence is computed in full.",
    change="Round `model.seq_len` to a multiple of 64.",
    source=MATRICES,
)
def sequence_length(subject: Subject) -> Iterator[Found]:
    trainer = subject.trainer
    if trainer is not None and subject.has_gpus and (length := trainer.model.seq_len) % TILE:
        text = f"{length} tokens are computed as {next_multiple(length, TILE)}"
        yield Found("trainer.model.seq_len", text)
