"""The flat YAML of a run. `fsdpctl jobs import` reads the same keys for the bundled trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml


@dataclass(frozen=True, kw_only=True)
class Config:
    # model
    vocab_size: int
    d_model: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    seq_len: int
    tie_embeddings: bool = False
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    # data
    data: str | None = None  # file of uint16 token ids; without one, Python's standard library as bytes
    train_batch: int  # sequences in one step of all ranks
    micro_batch: int  # sequences in one forward pass of one rank
    # optimizer
    steps: int
    lr: float
    warmup_steps: int = 0
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    seed: int = 1234
    # FSDP
    sharding_strategy: Literal["FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD"] = "FULL_SHARD"
    compile: bool = False
    # checkpoints
    checkpoint_dir: str = "checkpoints"  # a run of fsdpctl has its own
    checkpoint_type: Literal["full", "sharded"] = "full"  # one file, or a directory with a file of each rank
    save_every: int = 1000


def load_config(path: Path) -> Config:
    return Config(**yaml.safe_load(path.read_text()))
