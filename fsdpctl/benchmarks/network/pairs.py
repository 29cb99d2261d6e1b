"""Measure the pairs of one round: both members of a pair send to each other at the same time, rank by rank."""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch
import torch.distributed as dist

from fsdpctl.benchmarks.network.tournament import Pair, Round, next_round
from fsdpctl.benchmarks.ranks import Ranks, slowest_of
from fsdpctl.contract.benchmarks import PairSpeed, Verdict

CUDA_BYTES, CPU_BYTES = 64 * 2**20, 8 * 2**20
"""What each rank sends: enough that the latency does not matter."""
ENOUGH_S = 0.4
MAX_TRIES = 20
"""Other traffic slows a try down, nothing makes it faster: the best of some tries counts. The first one connects."""


class PairRounds:
    """Rounds of pairs until there is a verdict."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        num_bytes = CUDA_BYTES if ranks.device.type == "cuda" else CPU_BYTES
        self._sent = torch.ones(num_bytes, dtype=torch.uint8, device=ranks.device)
        self._received = torch.empty_like(self._sent)
        self._speeds: dict[Pair, PairSpeed] = {}
        self.rounds = 0

    @property
    def speeds(self) -> tuple[PairSpeed, ...]:
        return tuple(self._speeds[pair] for pair in sorted(self._speeds))

    def measure_next(self) -> Verdict | None:
        """Measure another round; return the verdict if none is needed. The same on all ranks."""
        found = next_round(self._ranks.num_members, list(self._speeds.values()))
        if isinstance(found, Verdict):
            return found
        self._measure(found)
        self.rounds += 1
        return None

    def _measure(self, pairs: Round) -> None:
        partners = {member: other for a, b in pairs for member, other in ((a, b), (b, a))}
        self._exchange(partners)
        tries = [self._exchange(partners)]
        count = min(MAX_TRIES, int(ENOUGH_S / max(tries[0])))
        tries += [self._exchange(partners) for _ in range(count)]
        of_members = slowest_of([min(times) for times in zip(*tries, strict=True)], self._ranks.per_member)
        for a, b in pairs:
            speed = self._sent.nbytes * self._ranks.per_member / max(of_members[a], of_members[b])
            before = self._speeds.get((a, b), PairSpeed((a, b), 0.0, 0))
            self._speeds[a, b] = PairSpeed((a, b), max(speed, before.bytes_per_s), before.measured + 1)

    def _exchange(self, partners: Mapping[int, int]) -> list[float]:
        """Exchange once with this member's partner; return the seconds of each rank, 0 without a partner."""
        ranks, other = self._ranks, partners.get(self._ranks.member)
        ranks.barrier()
        start = time.perf_counter()
        if other is not None:
            peer = ranks.rank_in(other)
            operations = [
                dist.P2POp(dist.irecv, self._received, peer),
                dist.P2POp(dist.isend, self._sent, peer),
            ]
            for work in dist.batch_isend_irecv(operations):
                work.wait()
            ranks.synchronize()
        return ranks.gather(time.perf_counter() - start if other is not None else 0.0)
