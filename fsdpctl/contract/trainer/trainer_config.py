"""The bundled trainer's configuration: the `trainer:` part of a job, and `trainer.json` in a run directory.

Plain dataclasses, so that the submitting laptop needs no torch and a node needs no pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast

from fsdpctl.contract.trainer.frozen import resolve_frozen
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.strict import STRICT, require_at_least, require_fraction, require_positive
from fsdpctl.contract.trainer.units import UnitsConfig, lie_in_blocks, resolve_units

Strategy = Literal["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2", "DDP"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
ReduceDtype = Literal["fp32", "bf16"]
Recompute = Literal["none", "selective", "full"]
Schedule = Literal["cosine", "linear", "constant", "wsd"]
SaveMode = Literal["async", "sync"]

BUILTIN = "builtin"
"""The data source that needs no files: the Python standard library's sources, as bytes."""
BUILTIN_VOCAB = 256


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the tokens come from."""

    __pydantic_config__ = STRICT

    source: str = BUILTIN  # the Python standard library's sources; or a directory that `fsdpctl data prepare` made
    val_fraction: float = 0.02  # of documents, chosen by hash
    ignore_token: int | None = None  # a token id that never counts as a target, such as padding

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError(f"source must not be empty; {BUILTIN} needs no files")
        if not 0 < self.val_fraction < 1:
            raise ValueError(f"val_fraction must lie between 0 and 1, got {self.val_fraction}")


@dataclass(frozen=True, kw_only=True)
class MeshConfig:
    """How parameters lie over ranks, by PyTorch's names. HYBRID_SHARD shards within a node, replicates across nodes.

    SHARD_GRAD_OP and _HYBRID_SHARD_ZERO2 keep gathered parameters from forward to backward; the others that shard
    gather them twice and need less memory. NO_SHARD is FSDP without shards, DDP is torch's own class, to compare with.
    """

    __pydantic_config__ = STRICT

    strategy: Strategy = "HYBRID_SHARD"  # of the model over all ranks
    replicate: int | None = None  # whole copies of the model; unset: from the strategy and the world
    shard: int | None = None  # ranks that share a copy; unset: the rest of the world
    units: UnitsConfig = field(default_factory=UnitsConfig)
    prefetch: int | None = None  # units gathered ahead of the one at work; unset: FSDP's own choice

    def __post_init__(self) -> None:
        require_at_least(1, replicate=self.replicate, shard=self.shard, prefetch=self.prefetch)
        if self.strategy == "DDP" and self.units != UnitsConfig():
            raise ValueError("DDP has no units: it reduces gradients in buckets; leave units away")
        if self.prefetch is not None and self.strategy in ("NO_SHARD", "DDP"):
            raise ValueError(f"{self.strategy} gathers nothing that could be prefetched; leave prefetch away")

    @property
    def reshards_after_forward(self) -> bool:
        return self.strategy in ("FULL_SHARD", "HYBRID_SHARD")


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """What may cost time to need less memory. None of it changes the numbers."""

    __pydantic_config__ = STRICT

    recompute: Recompute = "none"  # activation checkpointing: of whole blocks, or selective: of what is cheap
    recompute_every: int = 1  # 2: only in every second block, and so on
    cpu_offload: bool = False  # parameters, gradients and optimizer stay in the host's memory

    def __post_init__(self) -> None:
        require_at_least(1, recompute_every=self.recompute_every)
        if self.recompute_every > 1 and self.recompute == "none":
            raise ValueError("recompute_every without recompute does nothing; set recompute to selective or full")


@dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """The global batch is constant, whatever the number of ranks: it decides the result, they the speed."""

    __pydantic_config__ = STRICT

    micro_batch: int  # sequences that one rank takes at a time; at most
    sequences: int = 0  # global batch of one optimizer step; this or tokens
    tokens: int = 0  # the global batch in tokens, instead of sequences

    def __post_init__(self) -> None:
        require_at_least(1, micro_batch=self.micro_batch)
        if min(self.sequences, self.tokens) < 0 or bool(self.sequences) == bool(self.tokens):
            raise ValueError("give the global batch as sequences or as tokens, one of them, at least 1")

    def in_sequences(self, seq_len: int) -> BatchConfig:
        """The same batch, counted in sequences. Raises ValueError where tokens do not divide into them."""
        if not self.tokens:
            return self
        if self.tokens % seq_len:
            raise ValueError(f"batch: {self.tokens} tokens do not divide into sequences of {seq_len}")
        return BatchConfig(micro_batch=self.micro_batch, sequences=self.tokens // seq_len)


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """AdamW with decoupled weight decay on matrices only; the learning rate is a pure function of the step."""

    __pydantic_config__ = STRICT

    lr: float  # the highest learning rate, reached after the warm-up
    beta1: float = 0.9  # decay of the gradient's mean
    beta2: float = 0.95  # decay of the gradient's square
    eps: float = 1e-8  # keeps AdamW from dividing by zero
    weight_decay: float = 0.1  # of matrices; norms have none
    clip_norm: float = 1.0  # gradients of a larger norm are scaled down to it
    schedule: Schedule = "cosine"  # of the learning rate, after the warm-up; wsd stays, then decays
    decay_ratio: float = 0.2  # of the steps, the last part, in which wsd lets the rate fall
    warmup_steps: int = 0  # steps of linear warm-up
    min_lr_ratio: float = 0.1  # where the schedule ends, as a part of `lr`
    frozen: tuple[str, ...] = ()  # patterns of parameter names that are not trained, such as "blocks.0.*"

    def __post_init__(self) -> None:
        require_positive(lr=self.lr, eps=self.eps, clip_norm=self.clip_norm)
        require_fraction(beta1=self.beta1, beta2=self.beta2)
        require_at_least(0, weight_decay=self.weight_decay, warmup_steps=self.warmup_steps)
        if not 0 < self.decay_ratio <= 1:
            raise ValueError(f"decay_ratio must be greater than 0 and at most 1, got {self.decay_ratio}")
        if not 0 <= self.min_lr_ratio <= 1:
            raise ValueError(f"min_lr_ratio must lie in [0, 1], got {self.min_lr_ratio}")


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """When to save and how many to keep. The newest valid one and the one resumed from are never pruned."""

    __pydantic_config__ = STRICT

    every_steps: int  # steps between checkpoints
    keep: int = 3  # newest checkpoints that stay
    mode: SaveMode = "async"  # sync: training waits until the checkpoint is on disk

    def __post_init__(self) -> None:
        require_at_least(1, every_steps=self.every_steps, keep=self.keep)


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """Held-out loss: at the end, and every `every_steps` steps where that is set."""

    __pydantic_config__ = STRICT

    sequences: int = 64  # held-out sequences of one evaluation
    every_steps: int | None = None  # steps between evaluations; unset: only at the end

    def __post_init__(self) -> None:
        require_at_least(1, sequences=self.sequences, every_steps=self.every_steps)


@dataclass(frozen=True, kw_only=True)
class ProfileConfig:
    """Traces of chosen steps of every rank, below `profiles/` of the run directory."""

    __pydantic_config__ = STRICT

    first_step: int | None = None  # the first one traced; unset: none
    steps: int = 3  # how many are traced
    memory: bool = False  # remember allocations, and write them down when a GPU's memory runs out

    def __post_init__(self) -> None:
        require_at_least(1, first_step=self.first_step, steps=self.steps)


_NO_BATCH = cast(BatchConfig, None)


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """Everything that decides what is trained."""

    __pydantic_config__ = STRICT

    model: ModelConfig
    batch: BatchConfig = _NO_BATCH  # required, unless train_batch is given
    optim: OptimConfig
    checkpoint: CheckpointConfig
    steps: int  # optimizer steps of the whole run
    train_batch: int | None = None  # older configurations' batch: sequences of a step; a rank takes its share at once
    data: DataConfig = field(default_factory=DataConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    profile: ProfileConfig = field(default_factory=ProfileConfig)
    precision: Precision = "auto"  # of compute, over fp32 weights; auto: bf16 on GPUs, fp32 on CPUs
    reduce_dtype: ReduceDtype = "fp32"  # in which gradients are added up over the ranks
    compile: bool | None = None  # torch.compile; unset: on GPUs
    init_from: str | None = None  # directory with a Llama of Hugging Face's, to start from; unset: random weights
    seed: int = 1234  # of weights, data order and dropout
    max_skipped_steps: int = 10  # steps in a row without a finite loss and gradient before the run gives up
    log_every: int = 10  # steps between lines in the log; metrics.jsonl has every step

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch", self._global_batch().in_sequences(self.model.seq_len))
        object.__setattr__(self, "train_batch", None)
        if self.mesh.strategy == "DDP":
            if self.memory.cpu_offload:
                raise ValueError("DDP keeps whole copies on the GPUs: cpu_offload needs a strategy of FSDP")
            if self.reduce_dtype != "fp32":
                raise ValueError("DDP adds gradients up as they are, in fp32: reduce_dtype needs a strategy of FSDP")
        units = resolve_units(self.mesh.units, self.model)
        if self.mesh.prefetch is not None and len(units) < 2:
            raise ValueError("the whole model is one unit: there is no next one to prefetch; leave prefetch away")
        if self.memory.recompute != "none" and lie_in_blocks(units):
            raise ValueError("recompute takes whole blocks: units inside of them would be gathered once more for it")
        resolve_frozen(self.optim.frozen, self.model)
        if self.data.source == BUILTIN and self.model.vocab_size < BUILTIN_VOCAB:
            needs = (
                f"data.source {BUILTIN} needs model.vocab_size of at least {BUILTIN_VOCAB}, for its tokens are bytes"
            )
            raise ValueError(f"{needs}; got {self.model.vocab_size}")
        if self.init_from == "":
            raise ValueError("init_from must not be empty; leave it away for random weights")
        require_at_least(1, steps=self.steps, log_every=self.log_every, max_skipped_steps=self.max_skipped_steps)

    def _global_batch(self) -> BatchConfig:
        if self.train_batch is None and self.batch is None:
            raise ValueError("batch is missing: it gives the global batch, as sequences or tokens, and the micro_batch")
        if self.train_batch is None:
            return self.batch
        if self.batch is not None:
            raise ValueError("train_batch and batch both give the global batch: keep batch")
        require_at_least(1, train_batch=self.train_batch)
        return BatchConfig(sequences=self.train_batch, micro_batch=self.train_batch)
