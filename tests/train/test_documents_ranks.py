"""Attention within documents at every strategy, compiled, and over a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.train.conftest import tiny_config
from tests.train.ranks import Config, column, step_in_turn, train
from train.data.tokens import write_dataset

SHARDED: dict[str, dict[str, Any]] = {
    "FULL_SHARD": {"mesh": {"strategy": "FULL_SHARD"}},
    "HYBRID_SHARD": {"mesh": {"strategy": "HYBRID_SHARD", "replicate": 2}},
    "DDP": {"mesh": {"strategy": "DDP"}},
    "attention as a unit": {"mesh": {"strategy": "FULL_SHARD", "units": {"names": ["blocks.*.attention"]}}},
    "recomputed": {"memory": {"recompute": "full"}},
    "compiled": {"memory": {"recompute": "selective"}, "compile": True},
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


@pytest.mark.timeout(600)
def test_every_strategy_gives_the_numbers_of_one_rank(tmp_path: Path, within: Config) -> None:
    within.update(steps=4, eval={"sequences": 9, "every_steps": 2})
    within["model"]["dropout"] = 0.0
    whole = {**within, "data": {**within["data"], "attention": "sequence"}}
    alone = step_in_turn(tmp_path / "1", {"alone": within, "whole sequences": whole})
    configs = {name: {**within, **changed} for name, changed in SHARDED.items()}
    ranks = step_in_turn(tmp_path / "2", configs, procs_per_node=2, timeout_each=120)
    expected = column(tmp_path / "1/alone", "loss")
    for name in SHARDED:
        assert column(tmp_path / "2" / name, "loss") == pytest.approx(expected, rel=1e-5), name
    assert "compiled: 4 graphs, 0 breaks" in ranks.log(), "block and loss, in training and evaluation"
    [held_out, held_out_whole] = [line.split()[-1] for line in alone.log().splitlines() if "held-out" in line]
    assert ranks.log().count(f"held-out loss {held_out[:6]}") == 2 * len(SHARDED)
    assert held_out[:6] != held_out_whole[:6]
    assert expected != pytest.approx(column(tmp_path / "1/whole sequences", "loss"), rel=1e-5)
    counted = column(tmp_path / "1/alone", "valid_tokens"), column(tmp_path / "1/whole sequences", "valid_tokens")
    assert all(ours < 8 * 32 == theirs for ours, theirs in zip(*counted, strict=True))


def test_a_resume_equals_the_straight_run(tmp_path: Path, within: Config) -> None:
    within["steps"] = 8
    straight, run = tmp_path / "straight", tmp_path / "run"
    train(straight, within, procs_per_node=2)
    train(run, {**within, "steps": 4}, procs_per_node=2)
    train(run, within, procs_per_node=2)
    for name in ("loss_hex", "samples", "grad_norm", "valid_tokens"):
        assert column(run, name) == column(straight, name), name
