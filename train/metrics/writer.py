"""What a metrics writer is. A new one is a file beside this one, and a row in `train.metrics.table`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


def finite_or_none(value: float) -> float | None:
    """Return a value as JSON can have it: its readers need not know NaN and infinity."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class StepMetrics:
    """The record of one step, and one line of metrics.jsonl."""

    step: int  # optimizer steps done, this one included
    loss: float | None  # nats a token, over the valid tokens of the global batch; null: not finite
    loss_hex: str  # the same to the bit, or nan, inf
    samples: str  # digest of the sequences of this step
    lr: float
    grad_norm: float | None  # before clipping; null: not finite
    tokens_per_s: float
    mfu: float | None  # model FLOPs utilization; null: no GPU, or one whose speed is not known
    tokens: int  # seen so far
    time: float  # seconds since the epoch
    attempt: int
    valid_tokens: int  # targets of this step that counted
    skipped: int  # steps so far that changed nothing, because loss or gradient were not finite
    loss_scale: float  # 1 unless the precision is fp16
    peak_memory_gib: float | None  # most that rank 0 has allocated on its GPU since the step before; null: no GPU
    slow_ranks: Mapping[str, str]  # rank -> host of those whose own work takes longer than the others'


@dataclass(frozen=True)
class HeldOutLoss:
    """The result of one evaluation."""

    step: int  # optimizer steps done
    loss: float  # nats a token; may be not finite
    unigram_entropy: float  # nats a token: what a model without context can reach

    def summary(self) -> dict[str, float]:
        """Return the numbers of the outcome: a loss that is not finite is none."""
        numbers = {"held_out_loss": self.loss, "unigram_entropy": self.unigram_entropy}
        return {name: number for name, number in numbers.items() if math.isfinite(number)}


class MetricsWriter(Protocol):
    """Gets the metrics of a run on one rank, in the order of steps. Subclasses define `write` and `close`."""

    @abstractmethod
    def write(self, metrics: StepMetrics) -> None:
        """Write the record of one step. An error of the disk must not end the step."""

    @abstractmethod
    def close(self) -> None:
        """Release files and threads, on every way out of a run."""

    def write_held_out(self, held_out: HeldOutLoss) -> None:
        """Write the result of an evaluation."""

    def has_held_out(self, step: int) -> bool:
        """Return whether the result of the evaluation after this step, the newest, was written."""
        return False

    def sync(self) -> None:
        """Bring all records to disk: a checkpoint will count on them. Called by the saving thread; raises OSError."""

    def summary(self) -> dict[str, float]:
        """Return numbers for the outcome of the run."""
        return {}
