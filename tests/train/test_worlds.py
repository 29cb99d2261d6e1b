"""A checkpoint does not depend on the number of ranks and the strategy that wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.train.ranks import Config, column, saved_tensors, train


@pytest.fixture
def config(config: Config) -> Config:
    config["model"]["dropout"] = 0.0  # its masks are per rank
    config["checkpoint"]["every_steps"] = 6
    return config


def test_a_checkpoint_continues_in_other_worlds_and_strategies(tmp_path: Path, config: Config) -> None:
    config["model"]["tie_embeddings"] = True
    config["optim"]["schedule"] = "constant"  # so that the first half need not know of the second
    straight, moved = tmp_path / "straight", tmp_path / "moved"
    train(straight, config)
    train(moved, {**config, "steps": 4}, 2, 1)
    ranks = train(moved, {**config, "steps": 8}, 1, 1)
    assert "changed since the checkpoint: steps: 4 -> 8" in ranks.log()
    assert "resuming at step 4 from step-00000004" in ranks.log()
    train(moved, {**config, "mesh": {"strategy": "_HYBRID_SHARD_ZERO2"}}, 2, 2)
    assert column(moved, "step") == list(range(1, 13))
    assert column(moved, "samples") == column(straight, "samples")
    assert column(moved, "loss") == pytest.approx(column(straight, "loss"), rel=1e-6)
    end, other = saved_tensors(straight, 12), saved_tensors(moved, 12)
    assert end.keys() == other.keys() and {12.0} == {end[name].item() for name in end if name.endswith(".step")}
    for name, tensor in end.items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-4, atol=1e-6, msg=name)
