from __future__ import annotations

import pytest

from fsdpctl.contract.cards import CARDS, GIB
from fsdpctl.estimate import Cluster, Estimate, Fit, estimate
from fsdpctl.estimate.activations import Tokens
from fsdpctl.estimate.items import Item, Moment
from tests.unit.estimate.jobs import trainer

NODE = Cluster(nodes=1, procs_per_node=8)
N = 6_738_415_616


def of(*overrides: str, cluster: Cluster = NODE, card: str = "h100-80", job: str = "llm7b") -> Estimate:
    return estimate(trainer(job, *overrides), cluster, CARDS[card])


def gib(found: Estimate, item: Item) -> float:
    return found.memory.items[item] / GIB


def test_ddp_holds_all_of_weights_and_moments() -> None:
    found = of("mesh.strategy=DDP")
    assert gib(found, Item.WEIGHTS) == pytest.approx(4 * N / GIB, rel=0.02)
    assert gib(found, Item.MOMENTS) == pytest.approx(8 * N / GIB, rel=0.02)
    assert found.fit is Fit.TOO_LARGE


@pytest.mark.parametrize("cluster", [Cluster(1, 1), NODE], ids=["one rank", "DDP"])
def test_in_fp32_a_rank_with_all_weights_casts_none(cluster: Cluster) -> None:
    single, half = (
        of("mesh.strategy=DDP", f"precision={name}", "batch.sequences=8", cluster=cluster) for name in ("fp32", "bf16")
    )
    assert gib(single, Item.GATHERED) == 0 < gib(half, Item.GATHERED)
    assert gib(single, Item.WEIGHTS) == gib(half, Item.WEIGHTS)


def test_in_fp32_eager_logits_have_no_copy() -> None:
    tokens = [Tokens(trainer("llm7b").model, compiled=False, half=size) for size in (2, 4)]
    assert [one.loss_forward() / 32_000 for one in tokens] == [10, 8]


def test_shards_divide_weights_and_moments() -> None:
    found = of("mesh.strategy=FULL_SHARD")
    assert gib(found, Item.WEIGHTS) == pytest.approx(4 * N / 8 / GIB, rel=0.02)
    assert gib(found, Item.MOMENTS) == pytest.approx(8 * N / 8 / GIB, rel=0.02)


def test_shard_grad_op_keeps_all_weights_gathered() -> None:
    """Two bytes of each, besides what FULL_SHARD gathers, too."""
    kept, freed = of("mesh.strategy=SHARD_GRAD_OP"), of("mesh.strategy=FULL_SHARD")
    more = gib(kept, Item.GATHERED) - gib(freed, Item.GATHERED)
    assert 0.8 * 2 * N / GIB < more < 2 * N / GIB


def test_hybrid_on_one_node_is_full_shard() -> None:
    assert of("mesh.strategy=HYBRID_SHARD").memory == of("mesh.strategy=FULL_SHARD").memory


def test_hybrid_on_more_nodes_shares_among_one_nodes_gpus_only() -> None:
    found = of("mesh.strategy=HYBRID_SHARD", cluster=Cluster(4, 8))
    assert gib(found, Item.WEIGHTS) == pytest.approx(4 * N / 8 / GIB, rel=0.02)
    assert gib(of("mesh.strategy=FULL_SHARD", cluster=Cluster(4, 8)), Item.WEIGHTS) == pytest.approx(
        4 * N / 32 / GIB, rel=0.02
    )


def test_accumulating_under_fsdp_keeps_whole_gradients() -> None:
    at_once, in_two = of("batch.sequences=8"), of("batch.sequences=16")
    more = gib(in_two, Item.GRADIENTS) - gib(at_once, Item.GRADIENTS)
    assert more == pytest.approx(4 * N / GIB, rel=0.03)


def test_a_larger_micro_batch_needs_more_activations_and_nothing_else() -> None:
    one, two = of("batch.sequences=8"), of("batch.sequences=16", "batch.micro_batch=2")
    assert gib(two, Item.ACTIVATIONS) > 1.5 * gib(one, Item.ACTIVATIONS)
    assert gib(two, Item.MOMENTS) == gib(one, Item.MOMENTS)


def test_recomputing_needs_less_the_more_it_recomputes() -> None:
    needs = [of(f"memory.recompute={how}", "batch.sequences=8").memory.total for how in ("none", "selective", "full")]
    assert needs == sorted(needs, reverse=True)


def test_offload_keeps_weights_and_moments_in_the_hosts_memory() -> None:
    found = of("memory.cpu_offload=true")
    assert gib(found, Item.WEIGHTS) == gib(found, Item.MOMENTS) == 0


def test_a_large_vocabulary_peaks_at_the_loss() -> None:
    found = of("model.vocab_size=128256", "batch.sequences=32", "batch.micro_batch=4", "memory.recompute=full")
    assert found.memory.moment is Moment.LOSS
    assert gib(found, Item.LOGITS) > 4 * 4096 * 128256 * 2 / GIB


def test_the_items_are_the_total() -> None:
    found = of()
    assert sum(found.memory.items.values()) == found.memory.total > found.memory.allocated > found.memory.least * 0.9


def test_what_fits_with_less_than_5_percent_to_spare_is_close() -> None:
    fits = of("batch.sequences=8")
    card = CARDS["h100-80"]
    assert fits.fit is Fit.FITS
    found = of("batch.sequences=32", "batch.micro_batch=4")
    assert found.left_bytes < 0.05 * card.memory_bytes
    assert found.fit is not Fit.FITS
