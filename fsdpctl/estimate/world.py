"""The ranks of a run as the estimate needs them: how the model is divided over them, and which links they use."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.trainer.mesh import resolve_mesh, split_batch
from fsdpctl.contract.trainer.trainer_config import TrainerConfig


@dataclass(frozen=True)
class Batch:
    """The global batch: micro_batch x accumulation x ranks sequences of seq_len tokens."""

    micro_batch: int
    accumulation: int
    ranks: int
    seq_len: int

    @property
    def sequences(self) -> int:
        return self.micro_batch * self.accumulation * self.ranks

    @property
    def tokens(self) -> int:
        return self.sequences * self.seq_len

    @property
    def micro_tokens(self) -> int:
        """Tokens of one forward pass of one rank."""
        return self.micro_batch * self.seq_len


@dataclass(frozen=True)
class World:
    """Nodes of as many ranks each, as a mesh of replicate x shard."""

    nodes: int
    procs_per_node: int
    replicate: int
    shard: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.procs_per_node

    @property
    def shards_within_node(self) -> bool:
        """Neighbours in the mesh are shards of one copy, so a group of them is on one node where it fits there."""
        return self.procs_per_node % self.shard == 0

    @property
    def replicates_within_node(self) -> bool:
        return self.nodes == 1


def plan_world(config: TrainerConfig, nodes: int, procs_per_node: int) -> World:
    """Return the world of a run. Raises ValueError where mesh and ranks do not go together."""
    replicate, shard = resolve_mesh(config.mesh, nodes, procs_per_node)
    return World(nodes, procs_per_node, replicate, shard)


def plan_batch(config: TrainerConfig, ranks: int) -> Batch:
    """Return the batch. Raises ValueError where it does not divide over the ranks."""
    micro_batch, accumulation = split_batch(config.batch, ranks)
    return Batch(micro_batch, accumulation, ranks, config.model.seq_len)


def uses_fsdp(config: TrainerConfig, world: World) -> bool:
    """As the trainer: one rank needs no FSDP, unless it keeps its weights on the host."""
    return config.mesh.strategy != "DDP" and (world.ranks > 1 or config.memory.cpu_offload)
