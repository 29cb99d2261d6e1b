"""The order of samples: a bijection, complete over an epoch, and the same in every world."""

from __future__ import annotations

import numpy as np
import pytest

from train.data.permute import permute
from train.data.sample_order import SampleOrder, hash_samples, rank_share


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 1000, 4097])
def test_permutation_is_a_bijection(size: int) -> None:
    everything = np.arange(size, dtype=np.uint64)
    assert sorted(permute(everything, size, "key")) == list(range(size))


def test_permutation_depends_on_the_key_and_looks_shuffled() -> None:
    everything = np.arange(1000, dtype=np.uint64)
    one, other = permute(everything, 1000, "1/0"), permute(everything, 1000, "1/1")
    assert (one == other).mean() < 0.02
    assert (one == everything).mean() < 0.02
    assert abs(np.corrcoef(one.astype(float), everything.astype(float))[0, 1]) < 0.1


def test_permutation_of_a_huge_range_needs_no_memory() -> None:
    size = 10**12
    ends = permute(np.array([0, 1, size - 1], dtype=np.uint64), size, "key")
    assert (ends < size).all()
    assert len(set(ends.tolist())) == 3


def test_an_epoch_sees_every_sequence_once_and_the_next_in_another_order() -> None:
    order = SampleOrder(num_sequences=100, batch=8, seed=1)
    seen = np.concatenate([order.step_ids(step) for step in range(25)])  # two epochs, the border inside of a step
    assert sorted(seen[:100]) == list(range(100))
    assert sorted(seen[100:]) == list(range(100))
    assert (seen[:100] != seen[100:]).any()


def test_more_sequences_in_a_step_than_in_the_data() -> None:
    ids = SampleOrder(num_sequences=3, batch=8, seed=1).step_ids(0)
    assert np.bincount(ids, minlength=3).tolist() in ([3, 3, 2], [3, 2, 3], [2, 3, 3])


@pytest.mark.parametrize(("world", "micro_batch"), [(1, 8), (1, 2), (2, 4), (2, 2), (4, 1), (4, 2), (8, 1)])
def test_ranks_share_a_step_without_gap_or_repeat(world: int, micro_batch: int) -> None:
    ids = SampleOrder(num_sequences=1000, batch=8, seed=3).step_ids(5)
    shares = [rank_share(ids, rank, world, micro_batch) for rank in range(world)]
    assert all(share.shape == (8 // world // micro_batch, micro_batch) for share in shares)
    assert sorted(np.concatenate(shares, axis=None)) == sorted(ids)


def test_the_hash_differs_for_other_samples_and_another_order() -> None:
    ids = np.arange(8)
    assert hash_samples(ids) == hash_samples(np.arange(8, dtype=np.int32))
    assert hash_samples(ids) != hash_samples(ids + 1)
    assert hash_samples(ids) != hash_samples(ids[::-1])
    assert len(hash_samples(ids)) == 16
