"""The time of a step: matrix products, attention, what is bound by memory, the optimizer, and exposed communication.

Shares of a card's speed are measured with the bundled trainer; docs/measured.md has the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.cards import Card
from fsdpctl.estimate.sizes import ModelSizes
from fsdpctl.estimate.traffic import Traffic
from fsdpctl.estimate.world import Batch, World

PRODUCTS = 0.72  # of the card's speed, of matrix products of the bundled sizes
ATTENTION = 0.33
MEMORY = 0.80  # of the card's memory rate
ELEMENTWISE = {True: 60, False: 180}  # bytes of each element of the residual stream in a block: compiled, eager
LOSS_BYTES = {True: 14, False: 30}  # of each logit
OPTIMIZER_BYTES = 28 + 8  # of a parameter: read and write weights, moments and gradients, and the norm
OVERLAP = 0.85  # of the time of a step in which communication can be hidden
UNIT_S = {True: 30e-6, False: 60e-6}  # of the host


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
    compute = micro_step_s(sizes, batch, card) * batch.accumulation
    exposed = max(0.06 * traffic.seconds, traffic.seconds - OVERLAP * compute)
    optimizer = OPTIMIZER_BYTES * sizes.trained / world.shard / (card.memory_gb_s * 1e9 * MEMORY)
    return StepTime(compute, exposed, optimizer)


def micro_step_s(sizes: ModelSizes, batch: Batch, card: Card) -> float:
    """Return the time of one forward and backward pass."""
    config, model = sizes.config, sizes.model
    compiled = config.compile is not False
    tokens, layers = batch.micro_tokens, model.layers
    again = {"none": 0.0, "selective": 0.0, "full": 1 / 3}[config.memory.recompute] / config.memory.recompute_every
    in_head = 6 * model.vocab_size * model.d_model
    products = tokens * ((sizes.flops.matrices - in_head) * (1 + again) + in_head) / (card.flops * PRODUCTS)
    attention = tokens * sizes.flops.attention * (1 + again) / (card.flops * ATTENTION)
    elements = ELEMENTWISE[compiled] * layers * model.d_model * (1 + again) + LOSS_BYTES[compiled] * model.vocab_size
    moved = tokens * elements / (card.memory_gb_s * 1e9 * MEMORY)
    return products + attention + moved
