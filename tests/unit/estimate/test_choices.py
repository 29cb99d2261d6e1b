from __future__ import annotations

import shlex

import pytest

from fsdpctl.contract.cards import CARDS
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate import Cluster, Fit, Planner, estimate
from fsdpctl.estimate.changes import set_options
from fsdpctl.estimate.choices import OFFLOAD
from fsdpctl.estimate.reason import reasons
from fsdpctl.specs.load import load_job
from tests.unit.estimate.jobs import trainer

CASES = [
    (trainer("llm7b", "mesh.strategy=DDP"), Cluster(1, 8), "h100-80"),
    (trainer("llm7b"), Cluster(4, 8), "a100-40"),
    (trainer("llm7b", "batch.micro_batch=16"), Cluster(1, 8), "h200"),
    (trainer("llm300m"), Cluster(1, 8), "a100-40"),
    (trainer("llm90m"), Cluster(1, 1), "l4"),
]


def keys_of(config: TrainerConfig, cluster: Cluster, card: str) -> tuple[str, ...]:
    found = Planner(config, cluster, CARDS[card]).smallest_change()
    assert found is not None
    return found.keys


@pytest.mark.parametrize(("config", "cluster", "card"), CASES)
def test_the_smallest_change_fits_and_its_keys_lead_to_it(config: TrainerConfig, cluster: Cluster, card: str) -> None:
    planner = Planner(config, cluster, CARDS[card])
    assert estimate(config, cluster, CARDS[card]).left_bytes < 0
    for found in (planner.smallest_change(), planner.recommend()):
        assert found is not None
        assert found.keys
        assert found.estimate.left_bytes >= 0
        assert reasons(found, planner)
        base = "llm7b" if config.model.layers == 32 else "llm300m" if config.model.layers == 20 else "llm90m"
        changed = load_job(base, [*_written(config, base), *found.keys]).trainer
        assert changed == found.estimate.config


def _written(config: TrainerConfig, base: str) -> list[str]:
    """The overrides with which the case itself was made."""
    plain = trainer(base)
    mesh = [f"trainer.mesh.strategy={config.mesh.strategy}"] * (config.mesh != plain.mesh)
    return [*mesh, f"trainer.batch.micro_batch={config.batch.micro_batch}"]


SELECTIVE = ("memory.recompute=selective", "memory.recompute_every=4", "batch.micro_batch=1", "model.seq_len=16384")
SHAPES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "every fourth block": ("llm7b", "h100-80", SELECTIVE),
    "recomputes for nothing": ("llm90m", "h200", ("memory.recompute=full", "memory.recompute_every=2")),
    "prefetches": ("llm300m", "h200", ("mesh.prefetch=2", "mesh.units={blocks: 1}")),
    "one unit": ("llm300m", "a100-40", ("mesh.units={blocks: 0}",)),
    "given sizes": ("llm7b", "h100-80", ("mesh.replicate=2", "mesh.shard=4", "memory.cpu_offload=true")),
    "no micro-batch": ("llm300m", "h200", ("batch.micro_batch=null",)),
}


@pytest.mark.parametrize(("base", "card", "overrides"), SHAPES.values(), ids=SHAPES)
def test_each_choice_is_the_job_with_its_keys(base: str, card: str, overrides: tuple[str, ...]) -> None:
    planner = Planner(trainer(base, *overrides), Cluster(1, 8), CARDS[card])
    found = [planner.smallest_change(), planner.recommend(), *planner.strategies(), *planner.batches()]
    assert None not in found
    for choice in filter(None, found):
        changed = load_job(base, [*(f"trainer.{one}" for one in overrides), *choice.keys]).trainer
        assert changed == choice.estimate.config


def test_the_smallest_change_of_ddp_is_its_strategy_alone() -> None:
    assert keys_of(*CASES[0]) == ("trainer.mesh.strategy=SHARD_GRAD_OP",)


def test_a_job_that_fits_needs_no_change() -> None:
    assert keys_of(trainer("llm7b"), Cluster(1, 8), "h100-80") == ()


def test_offload_is_the_last_resort() -> None:
    found = keys_of(trainer("llm7b", "batch.sequences=8"), Cluster(1, 1), "h100-80")
    assert OFFLOAD in found
    assert OFFLOAD not in keys_of(trainer("llm7b", "batch.sequences=8", "batch.micro_batch=8"), Cluster(1, 2), "h200")


def test_nothing_makes_70b_fit_one_small_card() -> None:
    shape = ["d_model=8192", "layers=80", "heads=64", "kv_heads=8", "head_dim=128", "ffn=28672"]
    config = trainer("llm7b", *(f"model.{one}" for one in shape), "model.vocab_size=128256")
    assert Planner(config, Cluster(1, 1), CARDS["t4"]).smallest_change() is None


def test_the_recommendation_is_not_slower_than_any_other_way_that_fits() -> None:
    planner = Planner(trainer("llm7b"), Cluster(1, 8), CARDS["h100-80"])
    best = planner.recommend()
    assert best is not None
    others = [one for one in (*planner.strategies(), *planner.batches()) if one.estimate.fit is Fit.FITS]
    assert best.seconds <= 1.03 * min(one.seconds for one in others)


def test_strategies_are_those_that_differ_on_the_mesh() -> None:
    def names(nodes: int) -> list[str]:
        planner = Planner(trainer("llm7b"), Cluster(nodes, 8), CARDS["h100-80"])
        return [one.estimate.config.mesh.strategy for one in planner.strategies()]

    assert names(1) == ["DDP", "SHARD_GRAD_OP", "FULL_SHARD"]
    assert names(2) == ["DDP", "_HYBRID_SHARD_ZERO2", "HYBRID_SHARD", "SHARD_GRAD_OP", "FULL_SHARD"]


def test_neighbours_are_half_the_same_and_twice_the_micro_batch_with_all_ways_to_recompute() -> None:
    planner = Planner(trainer("llm300m", "batch.micro_batch=16"), Cluster(1, 8), CARDS["h100-80"])
    found = {(one.estimate.batch.micro_batch, one.estimate.config.memory.recompute) for one in planner.batches()}
    assert found == {(size, how) for size in (8, 16, 32) for how in ("none", "selective", "full")}


def test_options_reach_the_program_as_they_are() -> None:
    keys = ("trainer.mesh.units={blocks: 1}", "trainer.mesh.units={}", "trainer.batch.micro_batch=2")
    assert shlex.split(set_options(keys)) == ["--set", keys[0], "--set", keys[1], "--set", keys[2]]
    assert set_options(keys[2:]) == "--set trainer.batch.micro_batch=2"
