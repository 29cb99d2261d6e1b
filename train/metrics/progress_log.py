"""The trainer's own lines in the log: one every `log_every` steps."""

from __future__ import annotations

import logging

from fsdpctl.contract.clock import format_clock
from train.context import RankContext
from train.metrics.writer import HeldOutLoss, MetricsWriter, StepMetrics

log = logging.getLogger(__name__)


class ProgressLog(MetricsWriter):
    """Logs step, loss, rate and the time left; knows the mean rate of this attempt."""

    def __init__(self, start_step: int, steps: int, log_every: int, tokens_per_step: int) -> None:
        self.first_shown = start_step + 1
        self.steps = steps
        self.log_every = log_every
        self.tokens_per_step = tokens_per_step
        self.seconds = 0.0
        self.timed_steps = 0

    @classmethod
    def open(cls, context: RankContext, start_step: int) -> ProgressLog:
        """Begin to count from `start_step`."""
        config = context.config
        return cls(start_step, config.steps, config.log_every, context.layout.tokens_per_step)

    def write(self, metrics: StepMetrics) -> None:
        """Log the step, if it is one of those that have a line."""
        if metrics.step > self.first_shown:  # the first step also compiles and allocates
            self.seconds += self.tokens_per_step / metrics.tokens_per_s
            self.timed_steps += 1
        if metrics.step % self.log_every and metrics.step not in (self.first_shown, self.steps):
            return
        if metrics.loss is None or metrics.grad_norm is None:
            return  # the guard has logged it
        log.info(
            "step %d/%d  loss %.4f  lr %.2e  grad norm %.3f  %s tokens/s%s  ETA %s",
            *(metrics.step, self.steps, metrics.loss, metrics.lr, metrics.grad_norm),
            f"{metrics.tokens_per_s:,.0f}",
            f"  MFU {metrics.mfu:.1%}" if metrics.mfu is not None else "",
            self._time_left(metrics.step),
        )

    def write_held_out(self, held_out: HeldOutLoss) -> None:
        """Log the loss, and beside it what a model without context can reach."""
        log.info(
            "held-out loss %.4f nats/token after step %d  (unigram entropy %.4f)",
            *(held_out.loss, held_out.step, held_out.unigram_entropy),
        )

    def summary(self) -> dict[str, float]:
        """Return the mean rate."""
        return {"tokens_per_s": round(self.tokens_per_s, 1)}

    def close(self) -> None:
        """Do nothing: the log stays open."""

    @property
    def tokens_per_s(self) -> float:
        """Mean over the steps of this attempt but the first; 0 when there were none."""
        return self.timed_steps * self.tokens_per_step / self.seconds if self.seconds else 0.0

    def _time_left(self, step: int) -> str:
        if not self.timed_steps:
            return "?"
        return format_clock((self.steps - step) * self.seconds / self.timed_steps)
