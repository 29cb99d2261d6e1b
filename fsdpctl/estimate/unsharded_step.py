"""The moments of a step in which every rank has all weights: one rank, or DDP."""

from __future__ import annotations

from fsdpctl.estimate.items import Item, Items, Moment
from fsdpctl.estimate.step import MASTER, Step


class UnshardedStep(Step):
    """A step of one rank, or under DDP: every rank has all weights, and casts them where it uses them.

    In fp32 it casts nothing.
    """

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

    @property
    def cast(self) -> int:
        """Bytes of a weight's cast."""
        return self.half if self.half < MASTER else 0

    def _forward(self) -> Items:
        """Autocast keeps the weights that it has cast; the compiler keeps them where nothing is computed again."""
        casts = self.cast * (self.sizes.head if self.tokens.compiled and self.recompute else self._kept_casts())
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
        block = self.cast * self.config.model.block_parameters if self.recompute else 0
        activations = self.activations() + self.working()
        return {Item.GATHERED: self._casts() + block, Item.GRADIENTS: head, Item.ACTIVATIONS: activations}

    def _end(self) -> Items:
        """A graph returns all gradients at once, beside those of earlier micro-steps."""
        new = self.sizes.trained if self.tokens.compiled or not self.accumulates else self.sizes.head
        twice = self.sizes.head if self.config.model.tie_embeddings else 0  # of the embedding and of the head
        return {Item.GRADIENTS: MASTER * new + (MASTER + self.cast) * twice}

    def _casts(self) -> float:
        return self.cast * (self.sizes.head if self.recompute else self._kept_casts())

    def _kept_casts(self) -> int:
        """Return the parameters whose casts are kept: the compiler makes those to float8 again."""
        return self.sizes.multiplied - (self.sizes.float8.parameters if self.tokens.compiled else 0)
