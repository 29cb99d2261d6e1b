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
SMALLEST_GPU = 16 * 2**30
"""Bytes of the smallest GPU that models are trained on, where the kind is not known."""
STATE_SHARE, PEAK_SHARE = 0.5, 0.75
"""Of a GPU's memory: a state that leaves room for activations, and a peak that leaves room for everything else."""
GPU_FLOPS = 1e15
"""What the fastest GPUs reach in training, in bf16, where the kind is not known: a B200; an H100 reaches 4e14."""
SHORTEST_STEP_S = 0.02
"""Of a small model on GPUs, whose time is that of the host."""
WRITE_RATE = 1e9
"""Bytes a second that a node writes to a shared disk: more than NFS takes, less than a parallel file system may."""


def memory_of_gpu(subject: Subject) -> int:
    """Return the bytes of a GPU, at least."""
    return subject.card.memory_bytes if subject.card is not None else SMALLEST_GPU


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
    flops = subject.card.flops if subject.card is not None else GPU_FLOPS
    return max(SHORTEST_STEP_S, 6 * trainer.model.num_parameters * tokens / (subject.world * flops))


def gib(count: float) -> str:
    """Return bytes as a short text."""
    size = count / 2**30
    return f"{size:.0f} GiB" if size >= 10 else f"{size:.1f} GiB"
