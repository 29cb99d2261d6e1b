"""The bundled trainer's configuration: the `trainer:` part of a job, and `trainer.json` in a run directory.

Plain dataclasses, so that the submitting laptop needs no torch and a node needs no pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast

from fsdpctl.contract.data_url import find_problem, is_url
from fsdpctl.contract.problems import broken_rule
from fsdpctl.contract.trainer.float8 import Float8Config, resolve_float8
from fsdpctl.contract.trainer.frozen import resolve_frozen
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.strict import STRICT, require_at_least, require_fraction, require_positive
from fsdpctl.contract.trainer.units import UnitsConfig, has_units_inside_blocks, resolve_units

Strategy = Literal["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2", "DDP"]
Precision = Literal["auto", "fp32", "bf16", "fp16", "float8"]
ReduceDtype = Literal["fp32", "bf16"]
Recompute = Literal["none", "selective", "full"]
Schedule = Literal["cosine", "linear", "constant", "wsd"]
SaveMode = Literal["async", "sync", "none"]
AttentionScope = Literal["sequence", "document"]

BUILTIN = "builtin"
"""The data source that needs no files: the Python standard library's sources, as bytes."""
BUILTIN_VOCAB = 256
LEAST_HEAD_DIM = 16
"""Of flex attention's kernels."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the tokens come from."""

    __pydantic_config__ = STRICT

    source: str = BUILTIN
    """Directory written by `fsdpctl data prepare`, or its URL, like `s3://bucket/corpus`, or `builtin`: the sources of
    Python's standard library."""
    val_fraction: float = 0.02  # fraction of the builtin documents that is held out for evaluation, chosen by hash
    ignore_token: int | None = None  # token id that is excluded from the loss as a target, such as padding
    attention: AttentionScope = "sequence"
    """Which tokens attention connects: those of a `sequence`, whatever documents it is packed from, or those of one
    `document`, whose positions then begin at 0."""

    def __post_init__(self) -> None:
        if not self.source:
            raise broken_rule(f"source must not be empty; {BUILTIN} needs no files", "source")
        if is_url(self.source) and (problem := find_problem(self.source)) is not None:
            raise broken_rule(f"source: {problem}", "source")
        if not 0 < self.val_fraction < 1:
            raise broken_rule(f"val_fraction must be between 0 and 1, got {self.val_fraction}", "val_fraction")


@dataclass(frozen=True, kw_only=True)
class MeshConfig:
    """Sharding over ranks, by PyTorch's names. HYBRID_SHARD shards within a node and replicates across nodes.

    SHARD_GRAD_OP and _HYBRID_SHARD_ZERO2 keep gathered parameters from forward to backward; FULL_SHARD and HYBRID_SHARD
    gather them twice and need less memory. NO_SHARD is FSDP without shards; DDP is torch's DistributedDataParallel, for
    comparison.
    """

    __pydantic_config__ = STRICT

    strategy: Strategy = "HYBRID_SHARD"  # sharding strategy of the parameters
    replicate: int | None = None  # number of complete copies of the model; unset: derived from strategy and world size
    shard: int | None = None  # number of ranks that share one copy; unset: world size divided by `replicate`
    units: UnitsConfig = field(default_factory=UnitsConfig)
    prefetch: int | None = None  # number of units to gather ahead of the current one; unset: FSDP's default

    def __post_init__(self) -> None:
        require_at_least(1, replicate=self.replicate, shard=self.shard, prefetch=self.prefetch)
        if self.strategy == "DDP" and self.units != UnitsConfig():
            raise broken_rule(
                "DDP has no units: it reduces gradients in buckets; leave units away", "units", "strategy"
            )
        if self.prefetch is not None and self.strategy in ("NO_SHARD", "DDP"):
            raise broken_rule(
                f"{self.strategy} gathers nothing that could be prefetched; leave prefetch away", "prefetch", "strategy"
            )

    @property
    def reshards_after_forward(self) -> bool:
        return self.strategy in ("FULL_SHARD", "HYBRID_SHARD")


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """Options that trade speed for memory. None of them changes the results."""

    __pydantic_config__ = STRICT

    recompute: Recompute = "none"
    """Activation checkpointing: `full` recomputes whole blocks, `selective` all but matrix products and attention."""
    recompute_every: int = 1  # apply `recompute` to every Nth block only
    cpu_offload: bool = False  # keep parameters, gradients and optimizer state in host memory

    def __post_init__(self) -> None:
        require_at_least(1, recompute_every=self.recompute_every)
        if self.recompute_every > 1 and self.recompute == "none":
            raise broken_rule(
                "recompute_every without recompute does nothing; set recompute to selective or full",
                "recompute_every",
                "recompute",
            )


@dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """The global batch of one optimizer step. It does not depend on the number of ranks: they change only the speed."""

    __pydantic_config__ = STRICT

    micro_batch: int | None = None
    """Maximum number of sequences in one forward pass on one rank; unset: the fastest that fits the GPUs, chosen at
    `submit`; 8 on CPUs."""
    sequences: int = 0  # global batch size in sequences; give this or `tokens`
    tokens: int = 0  # global batch size in tokens; give this or `sequences`

    def __post_init__(self) -> None:
        require_at_least(1, micro_batch=self.micro_batch)
        if min(self.sequences, self.tokens) < 0 or bool(self.sequences) == bool(self.tokens):
            raise broken_rule(
                "give the global batch as sequences or as tokens, one of them, at least 1", "sequences", "tokens"
            )

    @property
    def limit(self) -> int:
        """The maximum as a number: 1 where nothing has chosen it, as on CPUs."""
        return self.micro_batch or 1

    def in_sequences(self, seq_len: int) -> BatchConfig:
        """Return the same batch, counted in sequences. Raises ValueError where tokens do not divide into them."""
        if not self.tokens:
            return self
        if self.tokens % seq_len:
            raise broken_rule(
                f"batch: {self.tokens} tokens do not divide into sequences of {seq_len}", "tokens", "seq_len"
            )
        return BatchConfig(micro_batch=self.micro_batch, sequences=self.tokens // seq_len)


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """AdamW with decoupled weight decay on matrices only. The learning rate is a pure function of the step."""

    __pydantic_config__ = STRICT

    lr: float  # peak learning rate, reached after the warm-up
    beta1: float = 0.9  # decay rate of the first moment of the gradient
    beta2: float = 0.95  # decay rate of the second moment of the gradient
    eps: float = 1e-8  # term added to the denominator, to avoid a division by zero
    weight_decay: float = 0.1  # weight decay of matrices; norms have none
    clip_norm: float = 1.0  # maximum norm of the gradient; a larger one is scaled down
    schedule: Schedule = "cosine"
    """Learning rate schedule after the warm-up; `wsd` stays at the peak and decays at the end."""
    decay_ratio: float = 0.2  # fraction of all steps, at the end, in which `wsd` decays the learning rate
    warmup_steps: int = 0  # number of steps of linear warm-up
    min_lr_ratio: float = 0.1  # final learning rate of the schedule, as a fraction of `lr`
    frozen: tuple[str, ...] = ()  # patterns of the names of parameters that are not trained, such as "blocks.0.*"

    def __post_init__(self) -> None:
        require_positive(lr=self.lr, eps=self.eps, clip_norm=self.clip_norm)
        require_fraction(beta1=self.beta1, beta2=self.beta2)
        require_at_least(0, weight_decay=self.weight_decay, warmup_steps=self.warmup_steps)
        if not 0 < self.decay_ratio <= 1:
            raise broken_rule(
                f"decay_ratio must be greater than 0 and at most 1, got {self.decay_ratio}", "decay_ratio"
            )
        if not 0 <= self.min_lr_ratio <= 1:
            raise broken_rule(f"min_lr_ratio must be in [0, 1], got {self.min_lr_ratio}", "min_lr_ratio")


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """When to save, and how many checkpoints to keep. The newest valid one and the one resumed from always stay."""

    __pydantic_config__ = STRICT

    every_steps: int  # number of steps between checkpoints
    keep: int = 3  # number of newest checkpoints to keep
    mode: SaveMode = "async"
    """Write checkpoints beside training, let training wait until they are on disk, or write none, for a measurement."""

    def __post_init__(self) -> None:
        require_at_least(1, every_steps=self.every_steps, keep=self.keep)


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """Evaluation on held-out data: at the end of the run, and every `every_steps` steps if set."""

    __pydantic_config__ = STRICT

    sequences: int = 64  # number of held-out sequences in one evaluation; 0: no evaluation
    every_steps: int | None = None  # number of steps between evaluations; unset: only at the end

    def __post_init__(self) -> None:
        require_at_least(0, sequences=self.sequences)
        if self.every_steps is not None and self.every_steps < 1:
            raise broken_rule(f"every_steps must be at least 1, or null; got {self.every_steps}", "every_steps")
        if self.every_steps is not None and self.sequences == 0:
            reason = "without sequences nothing is evaluated, so every_steps must be null"
            raise broken_rule(reason, "every_steps", "sequences")


@dataclass(frozen=True, kw_only=True)
class ProfileConfig:
    """Profiler traces of chosen steps on every rank, written to `profiles/` in the run directory."""

    __pydantic_config__ = STRICT

    first_step: int | None = None  # first step to trace; unset: no trace
    steps: int = 3  # number of steps to trace
    memory: bool = False  # record GPU memory allocations, and write a snapshot when a GPU runs out of memory

    def __post_init__(self) -> None:
        require_at_least(1, first_step=self.first_step, steps=self.steps)


_NO_BATCH = cast(BatchConfig, None)


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """Configuration of the bundled trainer."""

    __pydantic_config__ = STRICT

    model: ModelConfig
    batch: BatchConfig = _NO_BATCH  # global batch of one optimizer step; required, unless `train_batch` is given
    optim: OptimConfig
    checkpoint: CheckpointConfig
    steps: int  # number of optimizer steps of the whole run
    train_batch: int | None = None
    """Older form of `batch`: the global batch in sequences, each rank's share in one forward pass."""
    data: DataConfig = field(default_factory=DataConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    profile: ProfileConfig = field(default_factory=ProfileConfig)
    precision: Precision = "auto"
    """Compute precision over fp32 weights. `auto`: bf16, else fp16 on GPUs, fp32 on CPUs; `float8`: bf16 with matrix
    products in float8, which needs torchao, and a GPU of compute capability 8.9 or more; CPUs emulate it."""
    float8: Float8Config = field(default_factory=Float8Config)
    reduce_dtype: ReduceDtype = "fp32"  # data type of the gradient reduction over ranks
    compile: bool | None = None  # use torch.compile; unset: on GPUs only
    init_from: str | None = None
    """Weights to start from: another run, a checkpoint, a .pth or safetensors file, or a directory of Hugging Face;
    unset: random weights."""
    init_optimizer: bool = False  # take the optimizer's state from `init_from`, too, instead of a new one
    seed: int = 1234  # seed of weights, data order and dropout
    deterministic: bool = False  # deterministic algorithms on GPUs, too, where they cost speed: equal runs to the bit
    max_skipped_steps: int = 10  # number of consecutive steps with a non-finite loss or gradient that ends the attempt
    log_every: int = 10  # number of steps between lines in the log; metrics.jsonl has every step

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch", self._global_batch().in_sequences(self.model.seq_len))
        object.__setattr__(self, "train_batch", None)
        if self.mesh.strategy == "DDP":
            if self.memory.cpu_offload:
                raise broken_rule(
                    "DDP keeps whole copies on the GPUs: cpu_offload needs a strategy of FSDP",
                    "cpu_offload",
                    "strategy",
                )
            if self.reduce_dtype != "fp32":
                raise broken_rule(
                    "DDP adds gradients up as they are, in fp32: reduce_dtype needs a strategy of FSDP",
                    "reduce_dtype",
                    "strategy",
                )
        units = resolve_units(self.mesh.units, self.model)
        if self.mesh.prefetch is not None and len(units) < 2:
            raise broken_rule(
                "the whole model is one unit: there is no next one to prefetch; leave prefetch away", "prefetch"
            )
        if self.memory.recompute != "none" and has_units_inside_blocks(units):
            raise broken_rule(
                "recompute takes whole blocks: units inside of them would be gathered once more for it",
                "recompute",
                "units",
            )
        resolve_frozen(self.optim.frozen, self.model)
        self._check_float8()
        if self.data.source == BUILTIN and self.model.vocab_size < BUILTIN_VOCAB:
            needs = (
                f"data.source {BUILTIN} needs model.vocab_size of at least {BUILTIN_VOCAB}, for its tokens are bytes"
            )
            raise broken_rule(f"{needs}; got {self.model.vocab_size}", "data.source", "model.vocab_size")
        self._refuse_what_does_nothing()
        if self.init_from == "":
            raise broken_rule("init_from must not be empty; leave it away for random weights", "init_from")
        if self.init_optimizer and self.init_from is None:
            raise broken_rule(
                "init_optimizer needs init_from, the checkpoint that has the optimizer's state",
                "init_optimizer",
                "init_from",
            )
        require_at_least(1, steps=self.steps, log_every=self.log_every, max_skipped_steps=self.max_skipped_steps)

    def _check_float8(self) -> None:
        """Raise ValueError for float8 that is not possible here, or not asked for."""
        if self.precision != "float8":
            if self.float8 != Float8Config():
                raise broken_rule("float8 does nothing without precision: float8", "float8", "precision")
            return
        resolve_float8(self.float8, self.model)
        if self.float8.gather and self.mesh.strategy in ("NO_SHARD", "DDP"):
            text = f"{self.mesh.strategy} gathers nothing; leave float8.gather away"
            raise broken_rule(text, "gather", "strategy")
        if self.float8.gather and self.memory.cpu_offload:
            text = "with cpu_offload weights are gathered in bf16; leave float8.gather away"
            raise broken_rule(text, "gather", "cpu_offload")

    def _refuse_what_does_nothing(self) -> None:
        """Raise ValueError for keys that ask for something which never happens."""
        ignored, vocab = self.data.ignore_token, self.model.vocab_size
        if ignored is not None and not 0 <= ignored < vocab:
            text = f"ignore_token {ignored} is no token: with vocab_size {vocab} they are 0 to {vocab - 1}"
            raise broken_rule(text, "ignore_token", "vocab_size")
        if self.data.attention == "document" and (width := self.model.head_dim) < LEAST_HEAD_DIM:
            text = f"attention within documents needs heads of at least {LEAST_HEAD_DIM} on GPUs; head_dim is {width}"
            raise broken_rule(text, "data.attention", "model.head_dim")
        if (warmup := self.optim.warmup_steps) and warmup >= self.steps:
            text = f"warmup_steps {warmup} must be less than steps ({self.steps}), or no step has the learning rate lr"
            raise broken_rule(text, "warmup_steps", "steps")
        if (first := self.profile.first_step) is not None and first > self.steps:
            text = f"first_step {first} is after the last step, {self.steps}: nothing would be traced"
            raise broken_rule(text, "first_step", "steps")

    def _global_batch(self) -> BatchConfig:
        if self.train_batch is None and self.batch is None:
            raise broken_rule(
                "batch is missing: it gives the global batch, as sequences or tokens, and the micro_batch", "batch"
            )
        if self.train_batch is None:
            return self.batch
        if self.batch is not None:
            raise broken_rule("train_batch and batch both give the global batch: keep batch", "train_batch", "batch")
        require_at_least(1, train_batch=self.train_batch)
        return BatchConfig(sequences=self.train_batch, micro_batch=self.train_batch)
