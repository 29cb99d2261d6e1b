"""The memory of one GPU, item by item, at the moment of a step at which it is highest.

A step has three such moments: at the loss, with all activations; in the backward pass of the last block, when gradients
begin; and at the end of it, when all gradients are there. Which one is the peak depends on model, batch and sharding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fsdpctl.contract.cards import GIB
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate import activations
from fsdpctl.estimate.sizes import ModelSizes
from fsdpctl.estimate.traffic import reduce_bytes
from fsdpctl.estimate.world import Batch, World, uses_fsdp

MASTER, MOMENTS, HALF = 4, 8, 2  # bytes of a parameter: in fp32, AdamW's two, in bf16 or fp16
CONTEXT = 0.65 * GIB
NCCL = 0.35 * GIB
MARGIN = 0.02  # above what the formulas give
SLACK = 0.02  # reserved by torch's allocator, but in pieces that nothing fits into


class Item(StrEnum):
    """What takes the memory."""

    WEIGHTS = "weights, fp32"
    GRADIENTS = "gradients, fp32"
    MOMENTS = "AdamW's moments, fp32"
    GATHERED = "weights in compute precision"
    ACTIVATIONS = "activations"
    LOGITS = "logits and loss"
    BUFFERS = "communication buffers"
    SLACK = "compiler and allocator slack"
    CONTEXT = "CUDA context and NCCL"


class Moment(StrEnum):
    """When the peak is."""

    LOSS = "at the loss"
    BACKWARD = "early in the backward pass"
    END = "at the end of the backward pass"


@dataclass(frozen=True)
class Memory:
    """Bytes of one GPU at its peak."""

    moment: Moment
    items: Mapping[Item, float]

    @property
    def allocated(self) -> float:
        """What torch reports as `max_memory_allocated`."""
        return self.total - self.items[Item.CONTEXT] - self.items[Item.SLACK]

    @property
    def total(self) -> float:
        return sum(self.items.values())


def memory_of(sizes: ModelSizes, world: World, batch: Batch) -> Memory:
    """Return the memory at the highest of a step's moments."""
    parts = _Parts(sizes, world, batch)
    moments = {Moment.LOSS: parts.at_loss(), Moment.BACKWARD: parts.in_backward(), Moment.END: parts.at_end()}
    moment = max(moments, key=lambda one: sum(moments[one].values()))
    held = {item: size * (1 + MARGIN) for item, size in moments[moment].items()}
    allocated = sum(held.values())
    context = CONTEXT + (NCCL if world.ranks > 1 else 0.0)
    return Memory(moment, {**dict.fromkeys(Item, 0.0), **held, Item.SLACK: SLACK * allocated, Item.CONTEXT: context})


@dataclass(frozen=True)
class _Parts:
    sizes: ModelSizes
    world: World
    batch: Batch

    @property
    def config(self) -> TrainerConfig:
        return self.sizes.config

    @property
    def fsdp(self) -> bool:
        return uses_fsdp(self.config, self.world)

    @property
    def compiled(self) -> bool:
        return self.config.compile is not False

    def always(self) -> dict[Item, float]:
        """Weights and moments, and the gradients of earlier micro-steps."""
        if self.config.memory.cpu_offload:
            return {Item.WEIGHTS: 0.0, Item.MOMENTS: 0.0, Item.GRADIENTS: self.waiting_gradients()}
        shard = self.world.shard
        return {
            Item.WEIGHTS: MASTER * self.sizes.parameters / shard,
            Item.MOMENTS: MOMENTS * self.sizes.trained / shard,
            Item.GRADIENTS: self.waiting_gradients(),
            Item.BUFFERS: MASTER * self.sizes.trained if self.is_ddp else 0.0,  # buckets, as large as the gradients
        }

    @property
    def is_ddp(self) -> bool:
        return self.config.mesh.strategy == "DDP" and self.world.ranks > 1

    def waiting_gradients(self) -> float:
        """Of earlier micro-steps: FSDP reduces them in the last one only, so until then they are whole."""
        return MASTER * self.sizes.trained if self.batch.accumulation > 1 else 0.0

    def gathered(self, units_beside: float) -> float:
        """Weights in compute precision: all of them, or the root and some units."""
        units, half = self.sizes.units, HALF
        if not self.fsdp or not self.config.mesh.reshards_after_forward:
            return half * self.sizes.parameters
        return half * (units.root + units_beside * units.largest)

    def activations(self, layers_share: float = 1.0) -> float:
        kept = activations.kept_bytes(self.config, compiled=self.compiled)
        return kept * self.batch.micro_tokens * layers_share

    def at_loss(self) -> dict[Item, float]:
        loss = activations.loss_bytes(self.config.model, compiled=self.compiled)
        return {
            **self.always(),
            Item.GATHERED: self.gathered(1),
            Item.ACTIVATIONS: self.activations(),
            Item.LOGITS: loss * self.batch.micro_tokens,
        }

    def in_backward(self) -> dict[Item, float]:
        working = activations.working_bytes(self.config.model, compiled=self.compiled)
        held = self.always()
        unit = self.sizes.units.largest
        buffers = (HALF + reduce_bytes(self.config)) * unit if self.fsdp else 0.0
        return {
            **held,
            Item.GATHERED: self.gathered(2),
            Item.ACTIVATIONS: self.activations() + working * self.batch.micro_tokens,
            Item.BUFFERS: held.get(Item.BUFFERS, 0.0) + buffers,
        }

    def at_end(self) -> dict[Item, float]:
        held = self.always()
        gradients = MASTER * self.sizes.trained / self.world.shard
        root = self.sizes.units.root if self.fsdp else 0
        return {
            **held,
            Item.GRADIENTS: max(held[Item.GRADIENTS], gradients) if not self.fsdp else held[Item.GRADIENTS] + gradients,
            Item.GATHERED: self.gathered(0),
            Item.BUFFERS: held.get(Item.BUFFERS, 0.0) + (HALF + reduce_bytes(self.config)) * root,
        }
