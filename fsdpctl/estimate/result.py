"""One job on one kind of GPU: memory, traffic, time, checkpoints and cost, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fsdpctl.contract.cards import Card
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate.items import Memory
from fsdpctl.estimate.memory import memory_of
from fsdpctl.estimate.sizes import ModelSizes
from fsdpctl.estimate.time import StepTime, time_of
from fsdpctl.estimate.traffic import Rates, Traffic, rates_of, traffic_of
from fsdpctl.estimate.world import Batch, World, plan_batch, plan_world

CLOSE = 0.05  # of the card's memory: less than that left is a warning
CHECKPOINT_BYTES = 12  # of a parameter: weights and both moments in fp32
CHECKPOINT_RATE = 1e9  # bytes a second of each node that writes; a save of llm300m on one node took 0.8 to 1.1e9


class Fit(StrEnum):
    """Whether a job fits a card."""

    FITS = "fits"
    CLOSE = "fits closely"
    TOO_LARGE = "does not fit"


@dataclass(frozen=True)
class Cluster:
    """What the estimate needs to know of a cluster."""

    nodes: int
    procs_per_node: int
    network_gbps: float | None = None  # of a node; None: as nodes of such cards usually have


@dataclass(frozen=True)
class Estimate:
    """What a job needs on one kind of GPU."""

    config: TrainerConfig
    card: Card
    world: World
    batch: Batch
    sizes: ModelSizes
    memory: Memory
    rates: Rates
    traffic: Traffic
    time: StepTime

    @property
    def fit(self) -> Fit:
        if self.memory.least > self.card.memory_bytes:
            return Fit.TOO_LARGE
        return Fit.CLOSE if self.left_bytes < CLOSE * self.card.memory_bytes else Fit.FITS

    @property
    def left_bytes(self) -> float:
        """Memory of the card that is left; negative: that is missing, if only for the slack."""
        return self.card.memory_bytes - self.memory.total

    @property
    def tokens_per_s(self) -> float:
        return self.batch.tokens / self.time.total

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization: without what is computed again, with half of the attention's square."""
        return self.sizes.flops.total * self.tokens_per_s / self.world.ranks / self.card.flops

    @property
    def tokens(self) -> int:
        """Of the whole job."""
        return self.config.steps * self.batch.tokens

    @property
    def seconds(self) -> float:
        return self.config.steps * self.time.total

    @property
    def gpu_hours(self) -> float:
        return self.seconds / 3600 * self.world.ranks

    @property
    def checkpoint_bytes(self) -> int:
        return CHECKPOINT_BYTES * self.sizes.parameters

    @property
    def checkpoint_s(self) -> float:
        """Of writing, beside training: the nodes that hold one copy share it."""
        return self.checkpoint_bytes / CHECKPOINT_RATE / max(1, self.world.shard // self.world.procs_per_node)


def estimate(config: TrainerConfig, cluster: Cluster, card: Card) -> Estimate:
    """Return what a job needs. Raises ValueError where mesh or batch do not divide over the ranks."""
    world = plan_world(config, cluster.nodes, cluster.procs_per_node)
    batch, sizes = plan_batch(config, world.ranks), ModelSizes(config)
    rates = rates_of(card, cluster.procs_per_node, cluster.network_gbps)
    traffic = traffic_of(sizes, world, batch, rates)
    time = time_of(sizes, world, batch, card, traffic)
    return Estimate(config, card, world, batch, sizes, memory_of(sizes, world, batch), rates, traffic, time)
