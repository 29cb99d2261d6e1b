"""Simulated clusters: each has nothing slow, one slow node, one slow link, or two halves."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest

from fsdpctl.benchmarks.network.tournament import Pair, next_round, survey
from fsdpctl.contract.benchmarks import Fault, PairSpeed, Verdict

SIZES = (3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 33, 64)
NOISE = (0.85, 1.0)
Slow = Callable[[Pair], bool]


def play(size: int, is_slow: Slow, seed: int = 0) -> tuple[Verdict, int, set[Pair]]:
    """Measure rounds until there is a verdict; return it with the number of rounds and the pairs that were measured."""
    rng = random.Random(seed)
    speeds: dict[Pair, PairSpeed] = {}
    rounds = 0
    while not isinstance(found := next_round(size, list(speeds.values())), Verdict):
        members = [member for pair in found for member in pair]
        assert found and len(set(members)) == len(members) and all(a < b for a, b in found)
        for pair in found:
            speed = rng.uniform(*NOISE) * (0.5 if is_slow(pair) else 1)
            before = speeds.get(pair, PairSpeed(pair, 0.0, 0))
            speeds[pair] = PairSpeed(pair, max(speed, before.bytes_per_s), before.measured + 1)
        rounds += 1
    return found, rounds, set(speeds)


def all_pairs(size: int) -> list[Pair]:
    return list(itertools.combinations(range(size), 2))


@pytest.mark.parametrize("size", (2, *SIZES))
def test_a_healthy_cluster_has_every_pair_measured(size: int) -> None:
    verdict, rounds, measured = play(size, lambda pair: False)
    assert verdict == Verdict(Fault.NONE)
    assert measured == set(all_pairs(size))
    assert rounds <= size + 4, "a round robin has n-1 or n"


@pytest.mark.parametrize("size", SIZES)
def test_any_one_slow_node_is_named_in_logarithmically_many_rounds(size: int) -> None:
    most = 3 * math.ceil(math.log2(size)) + 2
    for slow in range(size) if size < 20 else (0, 1, size // 2, size - 1):
        verdict, rounds, _ = play(size, lambda pair, slow=slow: slow in pair, seed=slow)  # type: ignore[misc]
        assert verdict == Verdict(Fault.MEMBERS, members=(slow,))
        assert rounds <= most


@pytest.mark.parametrize("size", SIZES)
def test_any_one_slow_link_is_named_and_those_of_collectives_soon(size: int) -> None:
    most = 3 * math.ceil(math.log2(size)) + 2
    pairs = all_pairs(size)
    for slow in pairs if size < 9 else random.Random(size).sample(pairs, 5) + survey(size)[:5]:
        verdict, rounds, _ = play(size, lambda pair, slow=slow: pair == slow)  # type: ignore[misc]
        assert verdict == Verdict(Fault.LINKS, links=(slow,))
        assert rounds <= (most if slow in survey(size) else size + 6)


def test_several_slow_nodes_and_a_slow_link_are_all_named() -> None:
    verdict, *_ = play(16, lambda pair: bool({3, 11} & set(pair)) or pair == (4, 5))
    assert verdict == Verdict(Fault.MEMBERS, members=(3, 11), links=((4, 5),))


@pytest.mark.parametrize("size", (4, 8, 24))
def test_a_slow_network_between_two_halves_is_no_fault_of_a_node(size: int) -> None:
    verdict, *_ = play(size, lambda pair: (pair[0] < size // 2) != (pair[1] < size // 2))
    halves = (tuple(range(size // 2)), tuple(range(size // 2, size)))
    assert verdict == Verdict(Fault.GROUPS, groups=halves)


def test_one_pair_cannot_be_compared() -> None:
    assert play(2, lambda pair: True)[0] == Verdict(Fault.NONE)


def test_a_pair_that_was_disturbed_once_is_measured_again() -> None:
    """Only the first measurement of a pair is slow."""
    seen: set[Pair] = set()

    def is_slow(pair: Pair) -> bool:
        first = pair == (0, 1) and pair not in seen
        seen.add(pair)
        return first

    assert play(6, is_slow)[0] == Verdict(Fault.NONE)


def test_the_first_rounds_have_the_links_of_a_ring() -> None:
    assert set(survey(5)) >= {(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)}
    assert len(survey(64)) == 5 * 64 + 32
