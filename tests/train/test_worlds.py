"""The number of ranks and the strategy change the speed, not the numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.train.ranks import Config, column, saved_tensors, train


@pytest.fixture
def config(config: Config) -> Config:
    config["model"]["dropout"] = 0.0  # its masks are per rank
    config["checkpoint"]["every_steps"] = 6
    config["eval"]["every_steps"] = 5
    return config


@pytest.fixture
def alone(tmp_path: Path, config: Config) -> Path:
    run = tmp_path / "alone"
    ranks = train(run, config)
    assert "mesh: 1 x 1 (replicate x shard), HYBRID_SHARD, world 1, gloo" in ranks.log()
    assert "micro-batch 2 x accumulation 4" in ranks.log()
    return run


def test_every_world_and_strategy_gives_the_same_losses(tmp_path: Path, alone: Path, config: Config) -> None:
    for strategy, nodes, procs_per_node, mesh in [
        ("HYBRID_SHARD", 2, 2, "2 x 2"),
        ("FULL_SHARD", 1, 2, "1 x 2"),
        ("NO_SHARD", 2, 1, "2 x 1"),
    ]:
        run = tmp_path / strategy
        ranks = train(run, {**config, "mesh": {"strategy": strategy}}, nodes, procs_per_node)
        world = nodes * procs_per_node
        assert f"mesh: {mesh} (replicate x shard), {strategy}, world {world}, gloo" in ranks.log()
        assert column(run, "samples") == column(alone, "samples")
        assert column(run, "loss") == pytest.approx(column(alone, "loss"), rel=1e-6)
        assert column(run, "grad_norm") == pytest.approx(column(alone, "grad_norm"), rel=1e-5)
        assert held_out_losses(run) == pytest.approx(held_out_losses(alone), abs=1.5e-4)  # four digits are logged


def held_out_losses(run: Path) -> list[float]:
    """Return those after steps 5, 10 and 12, of nine sequences: in no world here do they fill all micro-batches."""
    found = re.findall(r"held-out loss (\S+)", (run / "log-0.txt").read_text())
    assert len(found) == 3
    return [float(loss) for loss in found]


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


def test_one_step_of_accumulation_equals_the_whole_batch(tmp_path: Path, alone: Path, config: Config) -> None:
    config["batch"]["micro_batch"] = 8
    train(tmp_path / "whole", config)
    assert column(tmp_path / "whole", "loss") == pytest.approx(column(alone, "loss"), rel=1e-6)
