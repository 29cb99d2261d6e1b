from __future__ import annotations

import pytest

from fsdpctl.contract.cards import CARDS
from fsdpctl.estimate import Cluster, Estimate, estimate
from tests.unit.estimate.jobs import trainer

N, ROOT = 6_738_415_616, 262_148_096
H100 = CARDS["h100-80"]


def of(strategy: str, cluster: Cluster, *overrides: str) -> Estimate:
    sequences = cluster.nodes * cluster.procs_per_node
    return estimate(
        trainer("llm7b", f"mesh.strategy={strategy}", f"batch.sequences={sequences}", *overrides), cluster, H100
    )


def test_one_gpu_sends_nothing() -> None:
    assert of("FULL_SHARD", Cluster(1, 1)).traffic.seconds == 0


def test_ddp_adds_gradients_up_once() -> None:
    """A ring sends 2 (n - 1) / n of the data."""
    found = of("DDP", Cluster(1, 8)).traffic
    assert found.link_bytes == pytest.approx(2 * 7 / 8 * 4 * N)
    assert found.network_bytes == 0


def test_full_shard_gathers_units_twice_and_the_root_once() -> None:
    found = of("FULL_SHARD", Cluster(1, 8)).traffic
    gathered = 2 * (2 * (N - ROOT) + ROOT)
    assert found.link_bytes == pytest.approx((gathered + 4 * N) * 7 / 8)


def test_in_fp32_gathers_send_twice_the_bytes() -> None:
    half, single = (of("FULL_SHARD", Cluster(1, 8), f"precision={name}").traffic for name in ("bf16", "fp32"))
    assert single.link_bytes - half.link_bytes == pytest.approx(2 * (2 * (N - ROOT) + ROOT) * 7 / 8)


def test_shard_grad_op_gathers_once() -> None:
    found = of("SHARD_GRAD_OP", Cluster(1, 8)).traffic
    assert found.link_bytes == pytest.approx((2 * N + 4 * N) * 7 / 8)


def test_hybrid_sends_only_gradients_over_the_network() -> None:
    """Each of a node's 8 shards is added up with its copy on the other node: all gradients once, whatever the GPUs."""
    found = of("HYBRID_SHARD", Cluster(2, 8)).traffic
    assert found.network_bytes == pytest.approx(2 * 1 / 2 * 4 * N)
    assert found.link_bytes == pytest.approx(of("FULL_SHARD", Cluster(1, 8)).traffic.link_bytes)


def test_full_shard_over_nodes_gathers_over_the_network() -> None:
    full, hybrid = (of(name, Cluster(2, 8)).traffic for name in ("FULL_SHARD", "HYBRID_SHARD"))
    assert full.network_bytes > 1.8 * hybrid.network_bytes


def test_accumulation_gathers_again_and_reduces_once() -> None:
    once = of("FULL_SHARD", Cluster(1, 8)).traffic.link_bytes
    twice = of("FULL_SHARD", Cluster(1, 8), "batch.sequences=16").traffic.link_bytes
    assert twice - once == pytest.approx(2 * (2 * (N - ROOT) + ROOT) * 7 / 8)


def test_a_reduction_in_bf16_sends_half() -> None:
    whole, half = (of("HYBRID_SHARD", Cluster(2, 8), f"reduce_dtype={name}").traffic for name in ("fp32", "bf16"))
    assert half.network_bytes == whole.network_bytes / 2


def test_a_slow_network_takes_longer_and_without_a_rate_a_usual_one_is_assumed() -> None:
    slow, assumed = of("FULL_SHARD", Cluster(2, 8, 25.0)), of("FULL_SHARD", Cluster(2, 8))
    assert slow.time.exposed > 10 * assumed.time.exposed
    assert assumed.rates.network_is_assumed
    assert not slow.rates.network_is_assumed
