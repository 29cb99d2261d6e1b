from __future__ import annotations

import pytest

from fsdpctl.estimate.simple import simple_view


def test_7b_on_four_gpus_is_as_in_textbooks() -> None:
    """Rajbhandari et al., 2020, with fp32 throughout: ZeRO stages 0, 1, 2 and 3."""
    found = {stage: size / 1e9 for stage, size in simple_view(7_000_000_000, 4).items()}
    assert found == {
        "replicated": 112,  # DDP
        "moments sharded": 70,
        "gradients and moments sharded": 49,  # SHARD_GRAD_OP of FSDP1, between two steps
        "all sharded": 28,  # FULL_SHARD, and SHARD_GRAD_OP of FSDP2
    }


def test_one_gpu_holds_everything_in_every_stage() -> None:
    assert set(simple_view(1_000, 1).values()) == {16_000}


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_more_sharding_never_needs_more(ranks: int) -> None:
    found = list(simple_view(7_000_000_000, ranks).values())
    assert found == sorted(found, reverse=True)
