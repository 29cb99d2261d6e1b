"""A step whose loss or gradient is not finite changes nothing; too many in a row end the attempt.

Loss and gradient norm are sums over all ranks, so all ranks get the same result without a message. Everything stays on
the device: the optimizer's kernel itself leaves the weights alone, and the host learns of it when the metrics arrive.
The loss scale of fp16 depends on the same result, and all of it is saved with the weights.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from train.errors import TrainError
from train.parallel.world import ControlGroup, World
from train.shards import local_part

log = logging.getLogger(__name__)

FIRST_SCALE = 2.0**16
GROWTH_STEPS = 2000  # good steps after which the scale is doubled


class NonFiniteError(TrainError):
    """Loss, gradient or weights are not finite; more steps would be wasted."""


@dataclass(frozen=True)
class StepResult:
    """What the host knows of a step once its numbers have arrived."""

    step: int
    samples: str  # digest of its sequences
    loss: float
    grad_norm: float
    own_loss: float  # of this rank's tokens
    skipped: int  # so far
    in_a_row: int


class NonFiniteGuard:
    """Counts skipped steps and keeps the loss scale."""

    def __init__(self, world: World, dtype: torch.dtype, limit: int) -> None:
        self.world = world
        self.limit = limit
        self.scales = dtype == torch.float16
        zero = torch.zeros((), dtype=torch.float32, device=world.device)
        self.skipped, self.in_a_row, self.growth = zero, zero.clone(), zero.clone()
        self.saved_scale = torch.full_like(zero, FIRST_SCALE)
        self.one = torch.ones_like(zero)

    @property
    def scale(self) -> Tensor:
        """What the loss is multiplied with, so that small gradients survive fp16."""
        return self.saved_scale if self.scales else self.one

    def tensors(self) -> dict[str, Tensor]:
        """Return what must survive; also where nothing is scaled, so that a run can continue in another precision."""
        return {
            "guard.skipped": self.skipped,
            "guard.in_a_row": self.in_a_row,
            "guard.growth": self.growth,
            "guard.scale": self.saved_scale,
        }

    @torch.no_grad()
    def judge(self, loss: Tensor, grad_norm: Tensor) -> Tensor:
        """Return 1 where the step must be skipped, else 0, and count it."""
        bad = (~(loss.isfinite() & grad_norm.isfinite())).float()
        self.skipped += bad
        self.in_a_row.add_(1).mul_(bad)
        if self.scales:
            self.growth.add_(1).mul_(1 - bad)
            grown = self.growth >= GROWTH_STEPS
            self.saved_scale.mul_(torch.where(grown, 2.0, 1 - 0.5 * bad))
            self.growth.mul_(~grown)
        return bad

    def watch(self, result: StepResult) -> None:
        """Take in a step's result, on every rank. Raises NonFiniteError on all of them when it was one too many."""
        if not result.in_a_row:
            return
        if self.world.is_main:
            numbers = (result.loss, result.grad_norm, result.skipped)
            log.warning("step %d skipped: loss %s, gradient norm %s (%d skipped so far)", result.step, *numbers)
        if result.in_a_row >= self.limit:
            raise NonFiniteError(self._explain(result))

    def _explain(self, result: StepResult) -> str:
        losses = self.world.gather(result.own_loss)
        culprits = [f"rank {rank} ({loss})" for rank, loss in enumerate(losses) if not math.isfinite(loss)]
        where = f"its loss is not finite on {', '.join(culprits)}" if culprits else "its loss is finite on every rank"
        return (
            f"{result.in_a_row} steps in a row without a finite loss and gradient, up to step {result.step} "
            f"(samples {result.samples}): {where}, its gradient norm is {result.grad_norm}. None of them changed the "
            f"weights; look at these samples, lower the learning rate, or resume from an older checkpoint"
        )


@dataclass(frozen=True)
class LargestValues:
    """The largest absolute value of each tensor, of the part that this rank has.

    Any other norm of a finite tensor may overflow, and the norm of NaN is NaN.
    """

    names: list[str]
    values: Tensor  # on the host, once the device has come so far

    @classmethod
    @torch.no_grad()
    def of(cls, tensors: Mapping[str, Tensor], device: torch.device) -> LargestValues:
        """Look at the tensors as they are now, all at once, without waiting for the device."""
        local = {name: local_part(tensor) for name, tensor in tensors.items()}
        held = {name: part for name, part in local.items() if part.numel()}
        norms = torch._foreach_norm(list(held.values()), ord=math.inf)
        return cls(list(held), torch.stack([norm.to(device) for norm in norms]).to("cpu", non_blocking=True))

    def not_finite(self) -> list[str]:
        """Return the names of the tensors that are not finite."""
        return [name for name, ok in zip(self.names, self.values.isfinite().tolist(), strict=True) if not ok]


def require_finite(largest: LargestValues, step: int, group: ControlGroup) -> None:
    """Raise NonFiniteError rather than save weights that are not finite. Collective."""
    found: list[list[str]] = group.gather(largest.not_finite())
    by_rank = zip(group.members, found, strict=True)
    if culprits := [f"rank {rank} ({_shorten(names)})" for rank, names in by_rank if names]:
        raise NonFiniteError(
            f"after step {step} weights or optimizer state are not finite on {', '.join(culprits)}: not saved;"
            " resume from a checkpoint with a lower learning rate"
        )


def _shorten(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]
