"""Attention within documents at every strategy, and over a resume."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fsdpctl.contract.codec import decode
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from tests.train.conftest import tiny_config
from tests.train.ranks import Config, column, step_in_turn, train
from train.data.sample_order import SampleIds, SampleOrder
from train.data.tokens import Tokens, open_dataset, write_dataset
from train.model.llama.decoder import Llama
from train.model.values import init_weights

SHARDED: dict[str, dict[str, Any]] = {
    "FULL_SHARD": {"mesh": {"strategy": "FULL_SHARD"}},
    "HYBRID_SHARD": {"mesh": {"strategy": "HYBRID_SHARD", "replicate": 2}},
    "DDP": {"mesh": {"strategy": "DDP"}},
    "attention as a unit": {"mesh": {"strategy": "FULL_SHARD", "units": {"names": ["blocks.*.attention"]}}},
    "recomputed": {"memory": {"recompute": "full"}},
}


@pytest.fixture(scope="module")
def documents_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return prepared documents of 1 to 60 bytes, where a sequence has 32."""
    rng = np.random.default_rng(3)
    directory = tmp_path_factory.mktemp("documents")
    made = [
        ("train" if number % 8 else "val", rng.integers(97, 123, size=rng.integers(1, 60)).astype(np.uint8))
        for number in range(160)
    ]
    write_dataset(directory, made, source="letters", fingerprint="letters-1", dtype="uint16", vocab_size=128)  # type: ignore[arg-type]
    return directory


@pytest.fixture
def within(documents_dir: Path) -> Config:
    config = tiny_config(documents_dir)
    config["data"]["attention"] = "document"
    return config


def test_every_strategy_gives_the_numbers_of_one_rank(tmp_path: Path, within: Config) -> None:
    within.update(steps=4, eval={"sequences": 9, "every_steps": 2})
    within["model"]["dropout"] = 0.0
    alone = step_in_turn(tmp_path / "1", {"alone": within})
    configs = {name: {**within, **changed} for name, changed in SHARDED.items()}
    ranks = step_in_turn(tmp_path / "2", configs, procs_per_node=2)
    expected = column(tmp_path / "1/alone", "loss")
    for name in SHARDED:
        assert column(tmp_path / "2" / name, "loss") == pytest.approx(expected, rel=1e-5), name
    [held_out] = re.findall(r"held-out loss (\S{6})", alone.log())
    assert re.findall(r"held-out loss (\S{6})", ranks.log()) == [held_out] * 2 * len(SHARDED)


def test_a_run_computes_its_documents_one_by_one(tmp_path: Path, within: Config) -> None:
    """With a learning rate that changes no weight, so that training and evaluation are those of the first weights."""
    within.update(steps=1, eval={"sequences": 9, "every_steps": 1}, optim={"lr": 1e-30})
    within["model"]["dropout"] = 0.0
    ranks = step_in_turn(tmp_path, {"run": within})
    config = decode(TrainerConfig, within)
    model = Llama(config.model)
    init_weights(model, config.seed)
    model.fill_buffers()
    data = open_dataset(Path(config.data.source), config.model.seq_len, config.model.vocab_size)
    ids = SampleOrder(data.train.num_sequences, config.batch.sequences, config.seed).step_ids(0)
    loss, count = one_by_one(model, data.train, ids)
    assert column(tmp_path / "run", "valid_tokens") == [count]
    assert column(tmp_path / "run", "loss") == pytest.approx([loss], rel=1e-6)
    held_out, _ = one_by_one(model, data.val, np.arange(9) * data.val.num_sequences // 9)
    assert [float(found) for found in re.findall(r"held-out loss (\S+)", ranks.log())] == pytest.approx(
        [held_out], rel=1e-6
    )


@torch.no_grad()
def one_by_one(model: Llama, tokens: Tokens, ids: SampleIds) -> tuple[float, int]:
    """Return the mean loss of sequences, each of their documents alone, and the number of targets."""
    losses = []
    for sequence, positions in zip(tokens.sequences(ids), tokens.positions(ids), strict=True):
        begins = (positions == 0).nonzero().flatten()[1:]
        for document in sequence.tensor_split(begins):
            if len(document) > 1:
                logits = model.logits(document[None, :-1])[0]
                losses.append(torch.nn.functional.cross_entropy(logits, document[1:], reduction="none"))
    every = torch.cat(losses)
    return every.mean().item(), len(every)


def test_a_resume_equals_the_straight_run(tmp_path: Path, within: Config) -> None:
    within["steps"] = 8
    straight, run = tmp_path / "straight", tmp_path / "run"
    train(straight, within, procs_per_node=2)
    train(run, {**within, "steps": 4}, procs_per_node=2)
    train(run, within, procs_per_node=2)
    assert column(run, "step") == list(range(1, 9))
    for name in ("loss_hex", "samples", "grad_norm", "valid_tokens"):
        assert column(run, name) == column(straight, name), name
