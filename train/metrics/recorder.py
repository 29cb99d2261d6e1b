"""Moves a step's numbers from the device to the host, late, so that no step waits for the one before.

A GPU works through a queue: asking for the loss of the newest step would drain it. So a step's numbers are copied
behind the step and read `LAG` steps later, when they have long arrived. On a CPU there is no queue and no lag.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from train.context import RankContext
from train.errors import TrainError
from train.metrics.device_timestamp import DeviceTimestamp
from train.metrics.memory import GIB, GpuPeaks
from train.metrics.stragglers import Span, StragglerDetector
from train.metrics.utilization import Utilization
from train.metrics.writer import MetricsWriter, StepMetrics, finite_or_none
from train.nonfinite import StepResult

LAG = {"cuda": 2}


@dataclass(frozen=True)
class StepTensors:
    """What one step leaves on the device: all of them scalars."""

    loss: Tensor
    grad_norm: Tensor
    own_loss: Tensor  # the sum over this rank's tokens
    valid_tokens: Tensor
    skipped: Tensor
    in_a_row: Tensor
    loss_scale: Tensor
    attended: Tensor  # the share of causal attention's pairs of tokens that is computed

    def stack(self) -> Tensor:
        """Return all of them, in the order of the fields, as one tensor of float64."""
        return torch.stack([getattr(self, field.name).double() for field in fields(self)])


@dataclass(frozen=True)
class _Pending:
    step: int
    values: Tensor  # StepTensors, on the host once `end` has passed
    lr: float
    samples: str
    time: float
    begin: DeviceTimestamp
    end: DeviceTimestamp
    spans: list[Span]
    peak: int | None  # bytes


class Recorder:
    """Gives each step's metrics to the writers once they are known. Ranks without writers read them as late."""

    def __init__(
        self,
        context: RankContext,
        start_step: int,
        writers: Sequence[MetricsWriter],
        watch: Callable[[StepResult], None],
        stragglers: StragglerDetector,
    ) -> None:
        self.device = context.world.device
        self.tokens_per_step = context.layout.tokens_per_step
        self.utilization = Utilization.of(context.config.model, context.world)
        self.attempt = context.attempt
        self.writers = writers
        self.watch = watch
        self.stragglers = stragglers
        self.gpu_peaks = GpuPeaks(self.device)
        self.lag = LAG.get(self.device.type, 0)
        self.pending: deque[_Pending] = deque()
        self.delivered = start_step
        self.delivery = threading.Condition()
        self.is_closed = False
        self.restart_clock()

    def restart_clock(self) -> None:
        """Let the next step begin now: what came before (a save, an evaluation) is not part of its time."""
        self.begin = DeviceTimestamp(self.device)

    def record(self, step: int, tensors: StepTensors, lr: float, samples: str) -> None:
        """Take in the step that has just been queued, and deliver those that are `lag` steps older."""
        values = tensors.stack().to("cpu", non_blocking=True)
        end = DeviceTimestamp(self.device)
        spans = self.stragglers.local_compute.take()
        peak = self.gpu_peaks.take_step()
        self.pending.append(_Pending(step, values, lr, samples, time.time(), self.begin, end, spans, peak))
        self.begin = end
        while len(self.pending) > self.lag:
            self._deliver(self.pending.popleft())

    def drain(self) -> None:
        """Wait for all steps so far and deliver them."""
        while self.pending:
            self._deliver(self.pending.popleft())

    def wait_for(self, step: int) -> None:
        """Wait, in another thread, until this step is delivered. Raises TrainError where it will not be."""
        with self.delivery:
            self.delivery.wait_for(lambda: self.delivered >= step or self.is_closed)
            if self.delivered < step:
                raise TrainError(f"training ended before the metrics of step {step} were written")

    def close(self) -> None:
        """Deliver no more, and release a thread that waits for a step."""
        with self.delivery:
            self.is_closed = True
            self.delivery.notify_all()

    def _deliver(self, pending: _Pending) -> None:
        pending.end.wait()
        self.stragglers.watch(pending.step, pending.spans)
        loss, grad_norm, own_loss, valid_tokens, skipped, in_a_row, loss_scale, attended = pending.values.tolist()
        rate = _rate(self.tokens_per_step, pending.end.seconds_since(pending.begin))
        mfu = self.utilization.at(rate, attended)
        metrics = StepMetrics(
            step=pending.step,
            loss=finite_or_none(loss),
            loss_hex=loss.hex(),
            samples=pending.samples,
            lr=pending.lr,
            grad_norm=finite_or_none(grad_norm),
            tokens_per_s=rate,
            mfu=None if mfu is None else round(mfu, 4),
            tokens=pending.step * self.tokens_per_step,
            time=round(pending.time, 3),
            attempt=self.attempt,
            valid_tokens=int(valid_tokens),
            skipped=int(skipped),
            loss_scale=loss_scale,
            peak_memory_gib=round(pending.peak / GIB, 3) if pending.peak is not None else None,
            slow_ranks={str(rank): host for rank, host in self.stragglers.slow.items()},
        )
        for writer in self.writers:
            writer.write(metrics)
        with self.delivery:
            self.delivered = pending.step
            self.delivery.notify_all()
        self.watch(StepResult(pending.step, pending.samples, loss, grad_norm, own_loss, int(skipped), int(in_a_row)))


def _rate(tokens: int, seconds: float) -> float:
    """Return tokens per second in seven digits: never 0, however long a step was held up."""
    return float(f"{tokens / max(seconds, 1e-9):.7g}")
