"""The time of a step: matrix products, attention, what is bound by memory, the host, and communication.

The shares and numbers below are fitted to steps of the bundled trainer on an H200 (docs/measured.md); on other cards
they are taken as the same shares of that card's speed and memory rate.
"""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.cards import Card
from fsdpctl.contract.trainer.float8 import Float8Recipe
from fsdpctl.contract.trainer.trainer_config import Recompute
from fsdpctl.estimate.sizes import ModelSizes
from fsdpctl.estimate.traffic import Traffic
from fsdpctl.estimate.world import Batch, World, uses_fsdp

PRODUCTS = 0.75  # of the card's speed
FLOAT8_PRODUCTS = 1.38  # of the card's speed in bf16
CAST_BYTES: dict[Float8Recipe, float] = {"tensorwise": 15.0, "rowwise": 27.4}
"""Bytes for each value that is cast to float8. Fitted, with the rate above, to widths of 2,048 and 4,096."""
ATTENTION, ATTENTION_NARROW = 0.41, 0.295  # of it, with heads of 128, and narrower ones
NARROW = 64
AGAIN: dict[Recompute, float] = {"none": 0.0, "selective": 0.0, "full": 1 / 3}
"""What is computed again, as a share of a forward and backward pass: the forward pass of the blocks is a third."""
ELEMENTS_AGAIN = 0.1  # of what is read and written in a block, where selective recomputes it
ATTENTION_AGAIN = 2 / 7  # of attention: two products in its forward pass, five in its backward pass


@dataclass(frozen=True)
class Moved:
    """Bytes that are read and written besides matrix products."""

    element: int  # for each of the residual stream, in one block
    logit: float


MOVED = {True: Moved(218, 3.4), False: Moved(942, 138)}
"""By whether it is compiled."""
GRADIENT_BYTES = 33  # of a parameter, in each micro-step: casts, gradients, copies into and out of collectives
OPTIMIZER_BYTES = 41  # of a parameter: AdamW 28, the norm 4, clipping 8
BLOCK_S, UNIT_S = 118e-6, 555e-6  # of the host, in each micro-step
HOST_RATE = 20e9  # bytes a second of an optimizer in the host's memory
FP32_SHARE = 1 / 15  # of the card's speed, without tensor cores
HIDDEN = 0.9  # of a step's computing, beside which units can be gathered and reduced
CONTENTION = 0.3  # of the time of hidden communication, by which it slows the computing beside it


@dataclass(frozen=True)
class StepTime:
    """Seconds of one optimizer step."""

    compute: float
    exposed: float  # communication that nothing hides
    optimizer: float

    @property
    def total(self) -> float:
        return self.compute + self.exposed + self.optimizer


def time_of(sizes: ModelSizes, world: World, batch: Batch, card: Card, traffic: Traffic) -> StepTime:
    """Return the time of one step."""
    compute = micro_step_s(sizes, world, batch, card) * batch.accumulation
    moved = OPTIMIZER_BYTES * sizes.trained / world.shard
    rate = HOST_RATE if sizes.config.memory.cpu_offload else card.memory_gb_s * 1e9
    return StepTime(compute, exposed_s(sizes, world, compute, traffic), moved / rate)


def micro_step_s(sizes: ModelSizes, world: World, batch: Batch, card: Card) -> float:
    """Return the time of one forward and backward pass of one rank."""
    config, model = sizes.config, sizes.model
    tokens, memory, moved = batch.micro_tokens, config.memory, MOVED[config.compile is not False]
    again = AGAIN[memory.recompute] / memory.recompute_every
    head = 6 * sizes.head
    in_float8 = 6 * sizes.float8.parameters
    products = ((sizes.flops.matrices - head - in_float8) * (1 + again) + head) / PRODUCTS
    products += in_float8 * (1 + again) / FLOAT8_PRODUCTS
    share = ATTENTION if model.head_dim > NARROW else ATTENTION_NARROW
    attention = sizes.flops.attention * (1 + 3 * again * ATTENTION_AGAIN) / share
    elements = moved.element * model.layers * model.d_model + moved.logit * model.vocab_size
    if memory.recompute == "selective":
        elements += ELEMENTS_AGAIN / memory.recompute_every * moved.element * model.layers * model.d_model
    elements += CAST_BYTES[config.float8.recipe] * sizes.float8.casts * (1 + again)
    in_memory = tokens * elements + GRADIENT_BYTES * sizes.trained
    units = len(sizes.units.sizes) if uses_fsdp(config, world) else 0
    host = BLOCK_S * model.layers + UNIT_S * units
    speed = card.flops * (FP32_SHARE if config.precision == "fp32" else 1)
    return tokens * (products + attention) / speed + in_memory / (card.memory_gb_s * 1e9) + host


def exposed_s(sizes: ModelSizes, world: World, compute: float, traffic: Traffic) -> float:
    """Return what communication adds: the root's part, a share of the rest, and what does not fit beside computing.

    The root is gathered before the first block and reduced after the last; with one unit that is all. DDP reduces its
    buckets as a unit its gradients, and the last of them after all computing.
    """
    in_root = sizes.units.root / sizes.parameters if uses_fsdp(sizes.config, world) else 0.0
    beside = (1 - in_root) * traffic.seconds
    return in_root * traffic.seconds + max(CONTENTION * beside, beside - HIDDEN * compute)
