"""What the estimate of memory and time expects of a point. Pure."""

from __future__ import annotations

from fsdpctl.contract.cards import GIB, Card
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate.result import Cluster, estimate
from fsdpctl.scaling.points import Point
from fsdpctl.scaling.result import Expected


def expect(config: TrainerConfig, point: Point, card: Card, network_gbps: float | None) -> Expected:
    """Return the expected speed, memory and communication of a point on this card."""
    found = estimate(config, Cluster(point.nodes, point.procs_per_node, network_gbps), card)
    return Expected(
        tokens_per_s_gpu=found.tokens_per_s / point.gpus,
        peak_memory_gib=found.memory.allocated / GIB,
        exposed_communication_share=found.time.exposed / found.time.total,
    )
