from __future__ import annotations

from fsdpctl.contract.cards import CARDS
from fsdpctl.estimate import Cluster, Planner
from fsdpctl.estimate.accumulation import explain_misfit, largest_batch_at_once
from tests.unit.estimate.jobs import trainer

LARGE = ("model.d_model=8192", "model.layers=80", "model.heads=64", "model.kv_heads=8", "model.ffn=28672")


def planner(nodes: int, *overrides: str) -> Planner:
    return Planner(trainer("llm7b", *LARGE, *overrides), Cluster(nodes, 8), CARDS["h100-80"])


def test_whole_gradients_of_accumulation_are_named_with_the_batch_that_avoids_them() -> None:
    large = planner(16)
    assert large.smallest_change() is None
    found = largest_batch_at_once(large)
    assert found is not None
    batch = found.estimate.batch
    assert (batch.accumulation, batch.sequences) == (1, batch.micro_batch * 128)
    assert found.estimate.left_bytes >= 0
    text = explain_misfit(large)
    assert "gradients are whole on each GPU (25" in text
    assert f"{batch.sequences} sequences: --set trainer.batch.sequences={batch.sequences}" in text


def test_too_few_gpus_remain_too_few() -> None:
    assert explain_misfit(planner(1)).endswith("it needs more GPUs, or larger ones")
