from __future__ import annotations

import pytest

from fsdpctl.contract.trainer.mesh import split_batch
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.scaling.points import Measurement, Point, configure, plan_points
from fsdpctl.specs.load import load_job

WEAK, STRONG = Measurement(20, False, 1200), Measurement(20, True, 1200)


def trainer_of(name: str, point: Point, how: Measurement, *changes: str) -> TrainerConfig:
    trainer = configure(load_job(name, changes), point, how).trainer
    assert trainer is not None
    return trainer


def test_a_single_rank_is_measured_once_for_all_strategies() -> None:
    points = plan_points([4, 1, 16, 4], ["FULL_SHARD", "DDP"], 8)
    assert points == [
        Point(1, None, 1, 1),
        Point(4, "FULL_SHARD", 1, 4),
        Point(16, "FULL_SHARD", 2, 8),
        Point(4, "DDP", 1, 4),
        Point(16, "DDP", 2, 8),
    ]


def test_more_than_a_node_are_whole_nodes() -> None:
    with pytest.raises(ValueError, match="12 are more than the 8 of a node"):
        plan_points([12], ["DDP"], 8)


@pytest.mark.parametrize(("gpus", "weak", "strong"), [(1, (32, 32, 1), (256, 32, 8)), (8, (256, 32, 1), (256, 32, 1))])
def test_weak_scaling_keeps_the_micro_batch_and_strong_scaling_the_global_one(
    gpus: int, weak: tuple[int, int, int], strong: tuple[int, int, int]
) -> None:
    point = Point(gpus, "FULL_SHARD", 1, gpus)
    for how, expected in ((WEAK, weak), (STRONG, strong)):
        batch = trainer_of("llm300m", point, how).batch
        assert (batch.sequences, *split_batch(batch, gpus)) == expected


def test_a_run_is_short_and_traced_at_its_end_and_leaves_nothing_large() -> None:
    job = load_job("llm7b", ["restarts=3", "trainer.eval.every_steps=5", "trainer.init_from=/weights"])
    short = configure(job, Point(8, "HYBRID_SHARD", 1, 8), WEAK)
    assert (short.restarts, short.time_limit, short.grace) == (0, 1200, 30)
    trainer = short.trainer
    assert trainer is not None and trainer.steps == 26
    assert (trainer.profile.first_step, trainer.profile.steps) == (24, 3)
    assert (trainer.checkpoint.mode, trainer.eval.sequences, trainer.eval.every_steps) == ("none", 0, None)
    assert trainer.optim.warmup_steps < trainer.steps and trainer.init_from is None


def test_keys_that_a_strategy_does_not_have_are_left_out() -> None:
    changes = ("trainer.mesh={strategy: HYBRID_SHARD, replicate: 4, shard: 2, units: {blocks: 2}, prefetch: 1}",)
    full, no_shard, ddp = (
        trainer_of("llm300m", Point(2, strategy, 1, 2), WEAK, *changes).mesh
        for strategy in ("FULL_SHARD", "NO_SHARD", "DDP")
    )
    assert (full.replicate, full.shard, full.units.blocks, full.prefetch) == (None, None, 2, 1)
    assert (no_shard.units.blocks, no_shard.prefetch) == (2, None)
    assert (ddp.units.blocks, ddp.prefetch) == (None, None)
    with pytest.raises(ValueError, match="cpu_offload needs a strategy of FSDP"):
        trainer_of("llm300m", Point(2, "DDP", 1, 2), WEAK, "trainer.memory.cpu_offload=true")


@pytest.mark.parametrize("name", ["x", "a" * 64])
def test_names_of_runs_are_names_and_differ_by_point(name: str) -> None:
    points = (Point(1, None, 1, 1), Point(16, "DDP", 2, 8), Point(16, "_HYBRID_SHARD_ZERO2", 2, 8))
    names = [configure(load_job("llm-tiny", [f"name={name}"]), point, WEAK).name for point in points]
    assert all(one.startswith(f"scaling-{name[:20]}") and len(one) <= 64 for one in names)
    assert names[0].endswith("-1") and names[1].endswith("-16-ddp") and names[2].endswith("-16-hybrid-shard-zero2")
