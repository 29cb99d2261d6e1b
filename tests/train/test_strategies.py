"""Every strategy at every world and accumulation gives the losses of one rank, in training and held out: they change
memory and communication, not numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.train.ranks import Config, Ranks, column, step_in_turn

STEPS = 20
BATCH = 16
SHARED = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "DDP")
HYBRID = ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
# What a micro-step gathers, and what a step reduces, with a unit for each of three blocks and one for the rest. Blocks
# that are put back after their forward pass are gathered again, the rest stays. One all-reduce is that of the loss, one
# that of the norm where gradients are sharded.
COMMUNICATION = {
    "FULL_SHARD": (7, 4, 2),
    "SHARD_GRAD_OP": (4, 4, 2),
    "HYBRID_SHARD": (7, 4, 6),
    "_HYBRID_SHARD_ZERO2": (4, 4, 6),
    "NO_SHARD": (0, 0, 5),
}


@pytest.fixture(scope="module")
def base(data_dir: Path) -> Config:
    from tests.train.conftest import tiny_config

    config = tiny_config(data_dir)
    config.update(steps=STEPS, log_every=STEPS)
    config["model"].update(dropout=0.0, layers=3)  # its masks are per rank
    config["batch"] = {"sequences": BATCH, "micro_batch": BATCH}
    config["eval"] = {"sequences": 9, "every_steps": STEPS}  # in no world here do they fill all micro-batches
    return config


def variant(base: Config, world: int, accumulation: int, **mesh: Any) -> Config:
    batch = {"sequences": BATCH, "micro_batch": BATCH // world // accumulation}
    return {**base, "batch": batch, "mesh": mesh}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, base: Config) -> Ranks:
    root = tmp_path_factory.mktemp("alone")
    return step_in_turn(root, {f"x{k}": variant(base, 1, k, strategy="FULL_SHARD") for k in (1, 4)})


def assert_same_numbers(ranks: Ranks, name: str, reference: Ranks) -> None:
    run, alone = ranks.logs / name, reference.logs / "x1"
    assert column(run, "step") == list(range(1, STEPS + 1))
    for key in ("samples", "lr"):
        assert column(run, key) == column(alone, key), run.name
    assert column(run, "loss") == pytest.approx(column(alone, "loss"), rel=1e-6), run.name
    assert column(run, "grad_norm") == pytest.approx(column(alone, "grad_norm"), rel=1e-5), run.name
    assert held_out_loss(ranks, name) == pytest.approx(held_out_loss(reference, "x1"), rel=1e-6), run.name


def held_out_loss(ranks: Ranks, name: str) -> float:
    [loss] = set(re.findall(rf"^{re.escape(name)}: held-out loss (\S+)$", ranks.log(), re.MULTILINE))
    return float(loss)


def test_accumulation_on_one_rank(alone: Ranks) -> None:
    assert_same_numbers(alone, "x4", alone)


def test_two_ranks(tmp_path: Path, base: Config, alone: Ranks) -> None:
    configs = {f"{name} x{k}": variant(base, 2, k, strategy=name) for name in SHARED for k in (1, 4)}
    units = {
        "one unit": {"blocks": 0},
        "two blocks a unit": {"parameters": 10_000},
        "parts of blocks": {"names": ["embed", "blocks.*.attention", "blocks.[01].mlp", "blocks.2", "head"]},
    }
    configs |= {name: variant(base, 2, 4, strategy="FULL_SHARD", units=value) for name, value in units.items()}
    configs["prefetched parts"] = variant(
        base, 2, 4, strategy="SHARD_GRAD_OP", prefetch=2, units=units["parts of blocks"]
    )
    configs["copied parts"] = variant(base, 2, 4, strategy="NO_SHARD", units=units["parts of blocks"])
    configs["prefetch"] = variant(base, 2, 4, strategy="FULL_SHARD", prefetch=2)
    ranks = step_in_turn(tmp_path, configs, procs_per_node=2)
    for name in configs:
        assert_same_numbers(ranks, name, alone)
    for name, ahead in {"FULL_SHARD x4": 0, "prefetch": 2}.items():  # beside the root's unit and the first block's
        assert f"{name}: {2 + ahead} gathers before the first block" in ranks.log(), name


def test_four_ranks_of_two_nodes(tmp_path: Path, base: Config, alone: Ranks) -> None:
    configs = {f"{name} x{k}": variant(base, 4, k, strategy=name) for name in (*HYBRID, *SHARED) for k in (1, 4)}
    configs["4 x 1"] = variant(base, 4, 1, strategy="HYBRID_SHARD", replicate=4)  # a dimension of size 1 collapses
    configs["1 x 4"] = variant(base, 4, 1, strategy="_HYBRID_SHARD_ZERO2", shard=4)
    ranks = step_in_turn(tmp_path, configs, nodes=2, procs_per_node=2)
    for name in configs:
        assert_same_numbers(ranks, name, alone)
    for name, (gathers, scatters, sums) in COMMUNICATION.items():
        for k in (1, 4):  # accumulation reduces gradients once a step
            line = f"{name} x{k}: {k * gathers} gathers, {scatters} reduce-scatters, {sums} all-reduces a step"
            assert line in ranks.log(), line
