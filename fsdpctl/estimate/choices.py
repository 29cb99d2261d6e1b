"""Other ways to train the same job: strategies, micro-batches and recomputing, which fit, and which is the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from fsdpctl.contract.cards import Card
from fsdpctl.contract.trainer.trainer_config import Recompute, Strategy, TrainerConfig
from fsdpctl.estimate.changes import Change, keys_between
from fsdpctl.estimate.result import Cluster, Estimate, Fit, estimate
from fsdpctl.estimate.world import plan_batch

RECOMPUTES: tuple[Recompute, ...] = ("none", "selective", "full")
WORTH = 0.03  # of the time of a step: less is not worth a change
OFFLOAD, STRATEGY = "trainer.memory.cpu_offload=true", "trainer.mesh.strategy="


@dataclass(frozen=True)
class Choice:
    """A way to train the job, and the keys of the job that lead there; none: as it is."""

    keys: tuple[str, ...]
    estimate: Estimate

    @property
    def cost(self) -> int:
        """How much is changed: a strategy more than a size; weights in the host's memory are the last resort."""
        return len(self.keys) + sum(key.startswith(STRATEGY) for key in self.keys) + 100 * (OFFLOAD in self.keys)

    @property
    def seconds(self) -> float:
        return self.estimate.time.total


@dataclass(frozen=True)
class Planner:
    """Finds ways to train one job on one cluster."""

    config: TrainerConfig
    cluster: Cluster
    card: Card

    def strategies(self) -> list[Choice]:
        """Return the job under each strategy that differs on this mesh, the one that replicates most first."""
        return self._choose(Change(strategy=name) for name in self.names())

    def batches(self) -> list[Choice]:
        """Return the job with half, the same and twice its micro-batch, each with every way to recompute."""
        now = self.config.batch.limit
        sizes = sorted({max(1, now // 2), now, now * 2})
        found = self._choose(Change(micro_batch=size, recompute=how) for size, how in product(sizes, RECOMPUTES))
        by_size = {(one.estimate.batch.micro_batch, one.estimate.config.memory.recompute): one for one in found[::-1]}
        return list(by_size.values())[::-1]

    def smallest_change(self) -> Choice | None:
        """Return the fewest changes with which the job fits, and of these the fastest; None where nothing does."""
        fitting = [one for one in self._all if one.estimate.left_bytes >= 0]
        return min(fitting, key=lambda one: (one.cost, one.seconds), default=None)

    def recommend(self) -> Choice | None:
        """Return the fastest way that fits with memory to spare; of those that are as fast, the fewest changes."""
        fitting = [one for one in self._all if one.estimate.fit is Fit.FITS and OFFLOAD not in one.keys]
        if not fitting:
            return self.smallest_change()
        fastest = min(one.seconds for one in fitting)
        near = [one for one in fitting if one.seconds <= fastest * (1 + WORTH)]
        return min(near, key=lambda one: (one.cost, one.seconds))

    def names(self) -> list[Strategy]:
        """Return the strategies that differ on this mesh, the one that replicates most first."""
        if self.cluster.nodes == 1:
            return ["DDP", "SHARD_GRAD_OP", "FULL_SHARD"]
        return ["DDP", "_HYBRID_SHARD_ZERO2", "HYBRID_SHARD", "SHARD_GRAD_OP", "FULL_SHARD"]

    @cached_property
    def _all(self) -> list[Choice]:
        names = [None, *(name for name in self.names() if name != self.config.mesh.strategy)]
        blocks = [None, 1] if self.config.mesh.units.blocks == 0 else [None]
        offload = [None, False] if self.config.memory.cpu_offload else [None]
        usual = product(names, blocks, self._micro_batches(), RECOMPUTES, offload)
        last = [Change(strategy, micro_batch=1, recompute="full", offload=True) for strategy in (None, "FULL_SHARD")]
        return self._choose([*(Change(*words) for words in usual), *last])

    def _micro_batches(self) -> list[int | None]:
        """Return the one of the job, its halves down to 1, and twice and four times as many."""
        try:
            now = plan_batch(self.config, self.cluster.nodes * self.cluster.procs_per_node).micro_batch
        except ValueError:
            now = self.config.batch.limit
        return [None, now * 4, now * 2, *(now // 2**power for power in range(1, now.bit_length()))]

    def _choose(self, changes: Iterable[Change]) -> list[Choice]:
        return list(self._possible(changes))

    def _possible(self, changes: Iterable[Change]) -> Iterator[Choice]:
        """Yield what goes together with the rest of the job."""
        for change in changes:
            try:
                changed = change.apply(self.config)
                yield Choice(keys_between(self.config, changed), estimate(changed, self.cluster, self.card))
            except ValueError:
                continue
