"""The memory of one GPU, item by item, at the moment of a step at which it is highest.

Which moment that is depends on model, batch and sharding: the end of the forward pass, the loss's gradient, the first
block of the backward pass, the second, when the gradients of the first are being reduced, or its end.
"""

from __future__ import annotations

from fsdpctl.contract.cards import GIB
from fsdpctl.estimate.fsdp_step import FsdpStep
from fsdpctl.estimate.items import MARGIN, Item, Memory
from fsdpctl.estimate.sizes import ModelSizes
from fsdpctl.estimate.unsharded_step import UnshardedStep
from fsdpctl.estimate.world import Batch, World, uses_fsdp

CONTEXT = 0.85 * GIB  # CUDA's own, with the modules of the kernels
COMMUNICATOR, PEERS, NETWORK = 0.48 * GIB, 0.28 * GIB, 0.5 * GIB  # NCCL: of one rank, and more within and between nodes
SLACK = 0.04  # of it, which torch has reserved in pieces that nothing fits into


def memory_of(sizes: ModelSizes, world: World, batch: Batch) -> Memory:
    """Return the memory at the highest of a step's moments."""
    step = (FsdpStep if uses_fsdp(sizes.config, world) else UnshardedStep)(sizes, world, batch)
    found = {moment: step.items(part) for moment, part in step.moments().items()}
    moment = max(found, key=lambda one: sum(found[one].values()))
    held = {item: size * (1 + MARGIN) for item, size in found[moment].items()}
    slack = SLACK * sum(held.values())
    return Memory(moment, {**dict.fromkeys(Item, 0.0), **held, Item.SLACK: slack, Item.CONTEXT: context_of(world)})


def context_of(world: World) -> float:
    """Return what torch's allocator does not count."""
    within = PEERS if world.procs_per_node > 1 else 0.0
    between = NETWORK if world.nodes > 1 else 0.0
    return CONTEXT + COMMUNICATOR + within + between
