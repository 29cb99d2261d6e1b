"""The memory of one GPU, item by item, at the moment of a step at which it is highest.

Which moment that is depends on model, batch and sharding: the end of the forward pass, the loss's gradient, the first
block of the backward pass, the second, when the gradients of the first are being reduced, or its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fsdpctl.contract.cards import GIB
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate.activations import Tokens, kept_in_all
from fsdpctl.estimate.sizes import ModelSizes
from fsdpctl.estimate.traffic import reduce_bytes
from fsdpctl.estimate.world import Batch, World, uses_fsdp

MASTER, MOMENTS = 4, 8  # bytes of a parameter: in fp32, and AdamW's two
MATRIX_WORKSPACE = 0.07 * GIB  # of cuBLAS, rotary tables and small tensors
CONTEXT = 0.85 * GIB  # CUDA's own, with the modules of the kernels
COMMUNICATOR, PEERS, NETWORK = 0.48 * GIB, 0.28 * GIB, 0.5 * GIB  # NCCL: of one rank, and more within and between nodes
MARGIN = 0.015  # above what the formulas give, so that no measured peak is above it
SLACK = 0.04  # of it, which torch has reserved in pieces that nothing fits into

Items = dict["Item", float]


class Item(StrEnum):
    """What takes the memory."""

    WEIGHTS = "weights, fp32"
    GRADIENTS = "gradients"
    MOMENTS = "AdamW's moments, fp32"
    GATHERED = "weights in compute precision"
    ACTIVATIONS = "activations"
    LOGITS = "logits and loss"
    BUFFERS = "communication buffers"
    SLACK = "compiler and allocator slack"
    CONTEXT = "CUDA context and NCCL"


class Moment(StrEnum):
    """When the peak is."""

    FORWARD = "at the end of the forward pass"
    LOSS = "at the loss"
    BACKWARD = "early in the backward pass"
    REDUCING = "while the first gradients are reduced"
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
        """What should be there, so that it does not run out."""
        return sum(self.items.values())

    @property
    def least(self) -> float:
        """What cannot do with less: no margin, and no slack."""
        return self.allocated / (1 + MARGIN) + self.items[Item.CONTEXT]


def memory_of(sizes: ModelSizes, world: World, batch: Batch) -> Memory:
    """Return the memory at the highest of a step's moments."""
    step = (_Sharded if uses_fsdp(sizes.config, world) else _Whole)(sizes, world, batch)
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


@dataclass(frozen=True)
class _Step:
    sizes: ModelSizes
    world: World
    batch: Batch

    @property
    def config(self) -> TrainerConfig:
        return self.sizes.config

    @property
    def half(self) -> int:
        return 4 if self.config.precision == "fp32" else 2

    @property
    def tokens(self) -> Tokens:
        return Tokens(self.config.model, self.config.compile is not False, self.half)

    @property
    def accumulates(self) -> bool:
        return self.batch.accumulation > 1

    @property
    def recompute(self) -> bool:
        return self.config.memory.recompute != "none"

    def moments(self) -> dict[Moment, Items]:
        raise NotImplementedError

    def items(self, part: Items) -> Items:
        """Return what a moment holds, with what is always there."""
        held: Items = {
            Item.WEIGHTS: MASTER * self.sizes.parameters / self.world.shard,
            Item.MOMENTS: MOMENTS * self.sizes.trained / self.world.shard,
            Item.BUFFERS: MATRIX_WORKSPACE,
        }
        if self.config.memory.cpu_offload:
            held[Item.WEIGHTS] = held[Item.MOMENTS] = 0.0
        return {item: held.get(item, 0.0) + part.get(item, 0.0) for item in {**held, **part}}

    def activations(self, blocks_less: int = 0) -> float:
        """What blocks keep, and the input and output of the last norm."""
        kept = kept_in_all(self.config, self.tokens) - blocks_less * self.tokens.kept(self.config.memory.recompute)
        return (kept + 2 * self.tokens.residual) * self.batch.micro_tokens

    def working(self) -> float:
        one_graph = not self.sizes.units.sizes or not uses_fsdp(self.config, self.world)
        return self.tokens.working(self.config.memory.recompute, in_one_graph=one_graph) * self.batch.micro_tokens

    def logits(self, bytes_each: int) -> float:
        return bytes_each * self.batch.micro_tokens


class _Whole(_Step):
    """A step of one rank, or under DDP: every rank has all weights, and casts them where it uses them."""

    def moments(self) -> dict[Moment, Items]:
        at = {Moment.FORWARD: self._forward(), Moment.LOSS: self._loss(), Moment.BACKWARD: self._backward()}
        return {moment: self._with_gradients(part) for moment, part in {**at, Moment.END: self._end()}.items()}

    def _with_gradients(self, part: Items) -> Items:
        """Add the gradients of earlier micro-steps, and DDP's buckets, which are as large as all of them."""
        gradients = MASTER * self.sizes.trained
        before = gradients if self.accumulates else 0.0
        buckets = gradients if self.world.ranks > 1 else 0.0
        added = {Item.GRADIENTS: before, Item.BUFFERS: buckets}
        return {item: part.get(item, 0.0) + added.get(item, 0.0) for item in {**part, **added}}

    def _forward(self) -> Items:
        """Autocast keeps the weights that it has cast; the compiler keeps them where nothing is computed again."""
        casts = self.half * (self.sizes.head if self.tokens.compiled and self.recompute else self.sizes.multiplied)
        logits = self.logits(self.tokens.loss_forward())
        return {Item.GATHERED: casts, Item.ACTIVATIONS: self.activations(), Item.LOGITS: logits}

    def _loss(self) -> Items:
        return {
            Item.GATHERED: self._casts(),
            Item.GRADIENTS: self.half * self.sizes.head,
            Item.ACTIVATIONS: self.activations(),
            Item.LOGITS: self.logits(self.tokens.loss_backward(in_one_graph=True)),
        }

    def _backward(self) -> Items:
        head = MASTER * self.sizes.head
        block = self.half * self.config.model.block_parameters if self.recompute else 0
        activations = self.activations() + self.working()
        return {Item.GATHERED: self._casts() + block, Item.GRADIENTS: head, Item.ACTIVATIONS: activations}

    def _end(self) -> Items:
        """A graph returns all gradients at once, beside those of earlier micro-steps."""
        new = self.sizes.trained if self.tokens.compiled or not self.accumulates else self.sizes.head
        twice = self.sizes.head if self.config.model.tie_embeddings else 0  # of the embedding and of the head
        return {Item.GRADIENTS: MASTER * new + (MASTER + self.half) * twice}

    def _casts(self) -> float:
        return self.half * (self.sizes.head if self.recompute else self.sizes.multiplied)


class _Sharded(_Step):
    """A step under FSDP: units are gathered and freed, their gradients reduced one unit after the other."""

    def moments(self) -> dict[Moment, Items]:
        at: dict[Moment, Callable[[], Items]] = {
            Moment.FORWARD: self._forward,
            Moment.LOSS: self._loss,
            Moment.BACKWARD: self._backward,
            Moment.REDUCING: self._reducing,
            Moment.END: self._end,
        }
        return {moment: make() for moment, make in at.items()}

    @property
    def reduced(self) -> int:
        """Bytes of a gradient while it is reduced; what the ranks keep is fp32."""
        return reduce_bytes(self.config)

    @property
    def largest(self) -> int:
        return self.sizes.units.largest

    @property
    def waiting(self) -> float:
        """Gradients of earlier micro-steps: they are reduced in the last one only, so until then they are whole."""
        return self.reduced * self.sizes.trained if self.accumulates else 0.0

    @property
    def one_graph(self) -> bool:
        return not self.sizes.units.sizes

    def gathered(self, units: float) -> float:
        """Weights in compute precision: the root and some units, or all of them where they stay."""
        if self.config.mesh.reshards_after_forward:
            return self.half * (self.sizes.units.root + units * self.largest)
        return self.half * self.sizes.parameters

    def newest(self) -> float:
        """The buffer of the newest gather, from which the weights are copied: it stays until the next."""
        return self.half * (self.largest or self.sizes.parameters)

    def _forward(self) -> Items:
        logits = self.logits(self.tokens.loss_forward())
        return {**self._passes(self.gathered(0) + self.newest()), Item.LOGITS: logits}

    def _loss(self) -> Items:
        logits = self.logits(self.tokens.loss_backward(in_one_graph=self.one_graph))
        flat = 0.0 if self.one_graph else self.newest()
        return {
            **self._passes(self.gathered(0) + flat, self.half * self.sizes.head * self.one_graph),
            Item.LOGITS: logits,
        }

    def _backward(self) -> Items:
        flat = self.newest() if self.config.mesh.reshards_after_forward and not self.one_graph else 0.0
        part = self._passes(self.gathered(1) + flat, self.half * self.sizes.head)
        return {**part, Item.ACTIVATIONS: self.activations() + self.working()}

    def _reducing(self) -> Items:
        """The second block works, while the gradients of the first are reduced."""
        part = self._backward()
        if len(self.sizes.units.sizes) < 2:
            return part
        freed = 0 if self.config.mesh.reshards_after_forward else self.half * self.largest
        sharded = MASTER * self.largest / self.world.shard
        return {
            **part,
            Item.GATHERED: part[Item.GATHERED] - freed,
            Item.GRADIENTS: part[Item.GRADIENTS] + sharded,
            Item.ACTIVATIONS: self.activations(blocks_less=1) + self.working(),
            Item.BUFFERS: self.reduced * self.largest,
        }

    def _end(self) -> Items:
        """The root is reduced last; its gradients are there whole, and once more to be sent."""
        root = self.sizes.units.root
        waiting = self.reduced * root if self.accumulates else 0.0
        own = 0.0 if self.config.memory.cpu_offload else MASTER * self.sizes.trained / self.world.shard
        return {Item.GRADIENTS: own + waiting + self.half * root, Item.BUFFERS: self.reduced * root}

    def _passes(self, gathered: float, gradients: float = 0.0) -> Items:
        return {
            Item.GATHERED: gathered,
            Item.GRADIENTS: self.waiting + gradients,
            Item.ACTIVATIONS: self.activations(),
        }
