"""Finds ranks that are slow. Their peers wait for them in every collective, so a step takes equally long on all ranks.

What differs is a part of each step in which no rank waits for another: the head and the loss, after the last unit; or
the whole forward pass, where the model has no units inside. It is timed by the device's own clock, and every
`log_every` steps the ranks compare their sums since the last time.
"""

from __future__ import annotations

import logging
import socket
import statistics
from collections.abc import Callable, Sequence
from typing import ParamSpec

import torch
from torch import Tensor

from fsdpctl.contract.events import EventKind
from train.metrics.device_timestamp import DeviceTimestamp
from train.parallel.world import World

log = logging.getLogger(__name__)

P = ParamSpec("P")
Span = tuple[DeviceTimestamp, DeviceTimestamp]

FACTOR = {"cuda": 1.3, "cpu": 2.0}  # times the median; a CPU has other work, and is shared out unevenly
PATIENCE = 3  # comparisons in a row with the same result


class LocalComputeTimer:
    """Times the calls of a function in which this rank waits for no other."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.spans: list[Span] = []

    def timed(self, function: Callable[P, Tensor]) -> Callable[P, Tensor]:
        """Return the same function; its calls in training are timed."""

        def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
            if not torch.is_grad_enabled():
                return function(*args, **kwargs)
            begin = DeviceTimestamp(self.device)
            value = function(*args, **kwargs)
            self.spans.append((begin, DeviceTimestamp(self.device)))
            return value

        return call

    def take(self) -> list[Span]:
        """Return the spans since the last call."""
        spans, self.spans = self.spans, []
        return spans


class StragglerDetector:
    """Compares the ranks, on every rank alike."""

    def __init__(
        self, world: World, every: int, record: Callable[..., None] = lambda kind, text, **values: None
    ) -> None:
        self.world, self.every, self.record = world, every, record
        self.local_compute = LocalComputeTimer(world.device)
        self.factor = FACTOR[world.device.type]
        self.seconds = 0.0
        self.in_a_row = [0] * world.size  # comparisons that contradict `slow`, of each rank
        self.slow: dict[int, str] = {}  # rank -> its host

    def watch(self, step: int, spans: Sequence[Span]) -> None:
        """Add what a step took this rank. Collective every `every` steps."""
        self.seconds += sum(end.seconds_since(begin) for begin, end in spans)
        if step % self.every == 0 and self.world.size > 1:
            self._compare(step, self.world.gather(self.seconds))
            self.seconds = 0.0

    def _compare(self, step: int, seconds: list[float]) -> None:
        now = find_slow(seconds, self.factor)
        for rank in range(len(seconds)):
            self.in_a_row[rank] = self.in_a_row[rank] + 1 if (rank in now) != (rank in self.slow) else 0
        changed = [rank for rank, times in enumerate(self.in_a_row) if times == PATIENCE]
        if not changed:
            return
        hosts = self.world.gather(socket.gethostname())
        for rank in changed:
            self.in_a_row[rank] = 0
            self._note(step, rank, hosts[rank], now.get(rank))

    def _note(self, step: int, rank: int, host: str, times: float | None) -> None:
        if times is None:
            del self.slow[rank]
        else:
            self.slow[rank] = host
        if self.world.is_main:
            how = "is no longer slow" if times is None else f"is slow: its own work takes {times:.1f} times the median"
            log.warning("rank %d on %s %s", rank, host, how)
            kind = EventKind.RANK_RECOVERED if times is None else EventKind.SLOW_RANK
            self.record(kind, f"rank {rank} on {host} {how}", rank=rank, host=host, step=step)


def find_slow(seconds: Sequence[float], factor: float) -> dict[int, float]:
    """Return the ranks whose own work took more than `factor` times the median, and how many times."""
    median = statistics.median_low(seconds)
    return {rank: own / median for rank, own in enumerate(seconds) if own > factor * median > 0}
