"""Compiled runs give the numbers of eager ones, from as few graphs as the strategy allows, compile them once, and a
later start finds all of them in the compiler's cache. A resumed run has all its graphs before its first step."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.train.ranks import Config, column, step_in_turn


@pytest.mark.timeout(900)
def test_compiled_equals_eager(tmp_path: Path, config: Config) -> None:
    config["steps"] = 4
    config["model"]["dropout"] = 0.0
    compiled = {**config, "compile": True}
    evaluated = {**compiled, "eval": {"sequences": 9, "every_steps": 2}}  # twice, so that it could be compiled twice
    step_in_turn(tmp_path / "eager", {"plain": config})
    alone = step_in_turn(tmp_path / "1", {"alone": evaluated}, timeout_each=180)
    later = step_in_turn(tmp_path / "later", {"alone": evaluated}, timeout_each=180)
    spread = {
        "one unit": {**compiled, "mesh": {"strategy": "FULL_SHARD", "units": {"blocks": 0}}},
        "DDP": {**compiled, "mesh": {"strategy": "DDP"}},
        "a unit a block": {**evaluated, "mesh": {"strategy": "FULL_SHARD"}},
        "units in blocks": {**compiled, "mesh": {"strategy": "FULL_SHARD", "units": {"names": ["blocks.*.mlp"]}}},
        "recomputing": {**compiled, "mesh": {"strategy": "FULL_SHARD"}, "memory": {"recompute": "selective"}},
    }
    ranks = step_in_turn(tmp_path / "2", spread, procs_per_node=2, timeout_each=180, save_after=2)
    for run in (tmp_path / "1/alone", *(tmp_path / "2" / name for name in spread)):
        assert column(run, "loss") == pytest.approx(column(tmp_path / "eager/plain", "loss"), rel=1e-5), run.name
    # Blocks and loss; with evaluations, each once more. What is equal to a part compiled before is not made again.
    made = {"one unit": 1, "DDP": 1, "a unit a block": 4, "units in blocks": 1, "recomputing": 1}
    for start in (alone, later):
        assert "alone: 2 graphs, 0 breaks, 0 that no cache takes" in start.log()
    assert "alone: 0 compiled anew" in later.log()
    for name, graphs in made.items():
        assert f"{name}: {graphs} graphs, 0 breaks, 0 that no cache takes" in ranks.log(), name

    for name in spread:
        shutil.copytree(tmp_path / "2" / name / "checkpoints", tmp_path / "resumed" / name / "checkpoints")
    training = {name: {**config, "eval": {"sequences": 9}} for name, config in spread.items()}
    resumed = step_in_turn(tmp_path / "resumed", training, procs_per_node=2, timeout_each=180)
    for name in spread:
        straight = column(tmp_path / "2" / name, "loss_hex")
        assert column(tmp_path / "resumed" / name, "loss_hex") == straight[2:], name
        assert f"{name}: 0 graphs" in resumed.log(), name
