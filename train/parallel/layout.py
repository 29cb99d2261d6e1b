"""How one configuration is divided over one world: decided, and refused, before anything starts."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.trainer.mesh import resolve_mesh, split_batch
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from train.errors import ConfigError
from train.parallel.rank_info import RankInfo


@dataclass(frozen=True)
class Layout:
    """Mesh and batch of this run."""

    mesh: tuple[int, int]  # replicate, shard
    micro_batch: int  # sequences of one forward pass on one rank
    accumulation: int  # micro-steps in a step
    tokens_per_step: int


def plan_layout(config: TrainerConfig, rank_info: RankInfo) -> Layout:
    """Divide mesh and batch over the ranks. Raises ConfigError when they do not divide."""
    try:
        mesh = resolve_mesh(config.mesh, rank_info.nodes, rank_info.local_world_size)
        micro_batch, accumulation = split_batch(config.batch, rank_info.world_size)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return Layout(mesh, micro_batch, accumulation, config.batch.sequences * config.model.seq_len)
