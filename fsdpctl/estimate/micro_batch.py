"""The micro-batch of a job that gives none: the fastest that fits, by the estimate."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract.cards import Card
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate.changes import Change
from fsdpctl.estimate.result import Cluster, Estimate, Fit, estimate

NEAR = 0.01  # of the time of a step: less is not worth more memory


def fastest_micro_batch(config: TrainerConfig, cluster: Cluster, card: Card) -> Estimate:
    """Return the job with the smallest micro-batch that is as fast as any that fits with memory to spare.

    Where none fits, that of one sequence. Raises ValueError where mesh and batch do not divide over the ranks.
    """
    ways = list(_ways(config, cluster, card))
    fitting = [way for way in ways if way.fit is Fit.FITS]
    if not fitting:
        return ways[0]
    fastest = min(way.time.total for way in fitting)
    return next(way for way in fitting if way.time.total <= fastest * (1 + NEAR))


def _ways(config: TrainerConfig, cluster: Cluster, card: Card) -> Iterator[Estimate]:
    """Yield the job with each micro-batch that divides a rank's share, from one sequence upwards."""
    share = config.batch.sequences // (cluster.nodes * cluster.procs_per_node)
    for size in range(1, max(share, 1) + 1):
        if share % size == 0:
            way = estimate(Change(micro_batch=size).apply(config), cluster, card)
            yield way
            if way.fit is Fit.TOO_LARGE:
                return
