"""The moments of a step under FSDP, whose units are gathered and freed, and whose gradients are reduced, one by one."""

from __future__ import annotations

from collections.abc import Callable

from fsdpctl.estimate.items import Item, Items, Moment
from fsdpctl.estimate.step import MASTER, Step
from fsdpctl.estimate.traffic import reduce_bytes


class FsdpStep(Step):
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
