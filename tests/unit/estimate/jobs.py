"""Configurations to estimate."""

from __future__ import annotations

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.specs.load import load_job


def trainer(job: str, *overrides: str) -> TrainerConfig:
    """Return the configuration of a job; overrides are below `trainer.`."""
    found = load_job(job, [f"trainer.{one}" for one in overrides]).trainer
    assert found is not None
    return found


def llama(
    vocab: int, width: int, layers: int, heads: int, kv_heads: int, ffn: int, *, tied: bool = False
) -> LlamaConfig:
    """Return a Llama of 4096 positions."""
    return LlamaConfig(
        vocab_size=vocab,
        d_model=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width // heads,
        ffn=ffn,
        seq_len=4096,
        tie_embeddings=tied,
    )
