"""What a step sends: bytes over the links within a node and over the network between nodes, and their time.

A ring moves (n - 1) / n of the data of an all-gather or a reduce-scatter over n ranks, and twice that of an all-reduce
(Thakur et al., 2005, as NCCL counts its bus bandwidth). A ring over several nodes crosses the border of each node once,
with all of this data, whatever the number of its GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.cards import Card
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate.sizes import ModelSizes
from fsdpctl.estimate.world import Batch, World, uses_fsdp

LINK_EFFICIENCY = 0.78  # of an all-reduce of 1 GiB: 355 of 450 GB/s on four H100s
NETWORK_EFFICIENCY = 0.85


@dataclass(frozen=True)
class Rates:
    """Bytes a second, one way."""

    link: float  # of one GPU to those of its node
    network: float  # of one node to the others, all of its adapters together
    network_is_assumed: bool = False


@dataclass(frozen=True)
class Traffic:
    """Of one optimizer step."""

    link_bytes: float  # that one GPU sends to those of its node
    network_bytes: float  # that one node sends to the others
    link_s: float
    network_s: float

    @property
    def seconds(self) -> float:
        return self.link_s + self.network_s


def rates_of(card: Card, procs_per_node: int, network_gbps: float | None) -> Rates:
    """Return the rates of a cluster; without a rate of the network, the one that nodes of such cards usually have."""
    gbps = network_gbps or card.network_gbps * procs_per_node
    return Rates(
        card.link_gb_s * 1e9 * LINK_EFFICIENCY, gbps / 8 * 1e9 * NETWORK_EFFICIENCY, network_is_assumed=not network_gbps
    )


def traffic_of(sizes: ModelSizes, world: World, batch: Batch, rates: Rates) -> Traffic:
    """Return what a step sends."""
    link = network = 0.0
    sharded = _shard_bytes(sizes, world, batch)
    if world.shards_within_node:
        link += sharded
    else:
        network += sharded
    copies = _replica_bytes(sizes, world)
    if world.replicates_within_node:
        link += copies
    else:  # each shard of the node has a ring of its own
        network += copies * min(world.shard, world.procs_per_node)
    return Traffic(link, network, link / rates.link, network / rates.network)


def _shard_bytes(sizes: ModelSizes, world: World, batch: Batch) -> float:
    """Return the bytes of gathers in each micro-step, and of the reduction in the last one, over a group of shards."""
    config = sizes.config
    if world.shard == 1 or not uses_fsdp(config, world):
        return 0.0
    micro_step = gathers_per_micro_step(sizes) * compute_bytes(config) - _saved_by_float8(sizes, world)
    reduced = sizes.trained * reduce_bytes(config)
    return (micro_step * batch.accumulation + reduced) * (world.shard - 1) / world.shard


def gathers_per_micro_step(sizes: ModelSizes) -> int:
    """Return the parameters gathered in a forward and a backward pass: units twice if they are freed in between."""
    in_units = sum(sizes.units.sizes)
    return sizes.units.root + in_units * (2 if sizes.config.mesh.reshards_after_forward else 1)


def _saved_by_float8(sizes: ModelSizes, world: World) -> int:
    """Return the bytes that the gathers of a micro-step are less, where weights are gathered in float8."""
    times = 2 if sizes.config.mesh.reshards_after_forward else 1
    return times * sizes.float8.parameters if gathers_float8(sizes.config, world) else 0


def gathers_float8(config: TrainerConfig, world: World) -> bool:
    in_float8 = config.precision == "float8" and not config.memory.cpu_offload
    return in_float8 and config.float8.gathers(world.shard, world.procs_per_node)


def _replica_bytes(sizes: ModelSizes, world: World) -> float:
    """Return the bytes that one GPU sends to add gradients up over the copies of the model."""
    if world.replicate == 1:
        return 0.0
    return 2 * sizes.trained / world.shard * reduce_bytes(sizes.config) * (world.replicate - 1) / world.replicate


def compute_bytes(config: TrainerConfig) -> int:
    """Return the bytes of a value in compute precision."""
    return 4 if config.precision == "fp32" else 2


def reduce_bytes(config: TrainerConfig) -> int:
    return 2 if config.reduce_dtype == "bf16" else 4
