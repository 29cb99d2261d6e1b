from __future__ import annotations

import pytest

from fsdpctl.contract.cards import CARDS
from fsdpctl.estimate import Cluster, Planner
from fsdpctl.estimate.accumulation import explain_misfit, largest_batch_at_once
from fsdpctl.specs.load import load_job
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
    written = f"trainer.batch={{sequences: {batch.sequences}, micro_batch: {batch.micro_batch}}}"
    assert f"{batch.sequences} sequences: --set '{written}'" in text


@pytest.mark.parametrize("written", [(), ("batch={tokens: 4194304, micro_batch: 1}",)])
def test_the_job_with_its_keys_is_what_was_estimated(written: tuple[str, ...]) -> None:
    found = largest_batch_at_once(planner(16, *written))
    assert found is not None
    overrides = [f"trainer.{one}" for one in (*LARGE, *written)]
    assert load_job("llm7b", [*overrides, *found.keys]).trainer == found.estimate.config


def test_too_few_gpus_remain_too_few() -> None:
    assert explain_misfit(planner(1)).endswith("it needs more GPUs, or larger ones")
