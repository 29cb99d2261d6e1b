"""Numbers that rules compare with: bytes of a model, and bounds of what hardware does.

They are bounds and not predictions: a rule may report too little, and must not report what is right.
"""

from __future__ import annotations

from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.lint.subject import Subject

STATE_BYTES = 16
"""Of a parameter that is trained, between two steps: weight, gradient and both moments of AdamW in fp32."""
SAVED_BYTES = 12
"""Of the same in a checkpoint, which has no gradients."""
FROZEN_BYTES = 4
SMALL_STATE = 8 * 2**30
"""Half of a GPU of 16 GiB, the smallest that models are trained on: such a state leaves room for activations on any."""
SMALL_PEAK = 12 * 2**30
"""What fits into a GPU of 16 GiB with everything else: the context, communication buffers and fragments."""
GPU_FLOPS = 1e15
"""What the fastest GPUs reach in training, in bf16: a B200; an H100 reaches 4e14."""
SHORTEST_STEP_S = 0.02
"""Of a small model on GPUs, whose time is that of the host."""
WRITE_RATE = 1e9
"""Bytes a second that a node writes to a shared disk: more than NFS takes, less than a parallel file system may."""


def state_of_rank(trainer: TrainerConfig, shard: int) -> float:
    """Return the bytes that a rank holds between two steps, at most."""
    return STATE_BYTES * trainer.model.num_parameters / shard


def activation_bytes(trainer: TrainerConfig, micro_batch: int) -> float:
    """Return the bytes of activations and logits that a rank holds without recomputing, at most.

    Of each token a block keeps fewer than 8 values of the model's width, 4 of each query, key and value, and 5 of the
    feed-forward layer; the loss keeps fewer than 10 bytes of each logit.
    """
    model = trainer.model
    attention = (model.heads + 2 * model.kv_heads) * model.head_dim
    values = model.layers * (8 * model.d_model + 4 * attention + 5 * model.ffn)
    each = 4 if trainer.precision == "fp32" else 2
    return micro_batch * model.seq_len * (each * values + 10 * model.vocab_size)


def saved_bytes(trainer: TrainerConfig) -> int:
    """Return the bytes of a checkpoint, at least."""
    return (FROZEN_BYTES if trainer.optim.frozen else SAVED_BYTES) * trainer.model.num_parameters


def shortest_step_s(subject: Subject, trainer: TrainerConfig) -> float:
    """Return the seconds of a step on GPUs, at least."""
    tokens = trainer.batch.sequences * trainer.model.seq_len
    return max(SHORTEST_STEP_S, 6 * trainer.model.num_parameters * tokens / (subject.world * GPU_FLOPS))


def gib(count: float) -> str:
    """Return bytes as a short text."""
    size = count / 2**30
    return f"{size:.0f} GiB" if size >= 10 else f"{size:.1f} GiB"
