from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract.codec import encode
from fsdpctl.contract.trainer.resumable import compare
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.specs.load import load_job


@pytest.fixture
def config() -> TrainerConfig:
    trainer = load_job("llm-tiny").trainer
    assert trainer is not None
    return trainer


def test_a_longer_run_is_the_same_run(config: TrainerConfig) -> None:
    longer = replace(config, steps=config.steps * 2, model=replace(config.model, dropout=0.1))
    changed, forbidden = compare(encode(config), encode(longer))
    assert changed == ["model.dropout: 0.0 -> 0.1", f"steps: {config.steps} -> {config.steps * 2}"]
    assert forbidden == []


def test_another_model_batch_or_seed_is_another_run(config: TrainerConfig) -> None:
    other = replace(config, seed=7, model=replace(config.model, layers=3), batch=replace(config.batch, sequences=64))
    _, forbidden = compare(encode(config), encode(other))
    assert [line.split(":")[0] for line in forbidden] == ["batch.sequences", "model.layers", "seed"]
