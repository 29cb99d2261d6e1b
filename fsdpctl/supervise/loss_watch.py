"""Notice a loss spike, or a loss that is not finite, in the new lines of `metrics.jsonl`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fsdpctl.contract.events import Event, EventKind
from fsdpctl.contract.files import open_file
from fsdpctl.contract.notify import Occasion
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.runs.events import supervisor_events
from fsdpctl.runs.metrics import parse_line
from fsdpctl.supervise.loss_spike import SpikeDetector

LOOK_EVERY_S = 5.0
MOST_BYTES = 65_536
"""Of lines that are read at once; of more, the newest."""
QUIET_S = 1800.0
"""After a spike, others are not reported for this time."""


@dataclass(frozen=True)
class LossFinding:
    """What is wrong with the loss."""

    kind: EventKind
    occasions: tuple[Occasion, ...]
    step: int | None
    text: str


class LossWatch:
    """The loss of one attempt. Call `look` often. Losses of older attempts are known, but not reported."""

    def __init__(self, attempt: AttemptPaths, first_attempt: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`first_attempt`: of the submission; a spike at steps that another of its attempts has reported is no news."""
        run = RunPaths(attempt.run_dir)
        self._attempt, self._metrics, self._clock = attempt.number, run.metrics, clock
        self._detector = SpikeDetector()
        events = [event for number in range(first_attempt, attempt.number + 1) for event in _events(run, number)]
        self._is_non_finite = any(
            event.kind is EventKind.NON_FINITE_LOSS and event.attempt == attempt.number for event in events
        )
        self._reported = max((event.step or 0 for event in events if event.kind is EventKind.LOSS_SPIKE), default=-1)
        self._next, self._quiet_until = clock(), clock()
        self._position: int | None = None  # in the file; None before the first look

    def look(self, *, is_last: bool = False) -> list[LossFinding]:
        """Return what is new; nothing too soon after another look, unless it is the last one."""
        if (now := self._clock()) < self._next and not is_last:
            return []
        self._next = now + LOOK_EVERY_S
        is_first = self._position is None
        found = []
        for line in self._read_new():
            is_own = line["attempt"] == self._attempt if "attempt" in line else not is_first
            if (finding := self._take(line, now, is_own=is_own)) is not None:
                found.append(finding)
        return found

    def _take(self, line: dict[str, Any], now: float, *, is_own: bool) -> LossFinding | None:
        step, loss = line.get("step"), line.get("loss", 0.0)
        if loss is None:
            is_news, self._is_non_finite = is_own and not self._is_non_finite, self._is_non_finite or is_own
            text = f"the loss of step {step} is not finite"
            return LossFinding(EventKind.NON_FINITE_LOSS, ("non_finite_loss", "spike"), step, text) if is_news else None
        spike = self._detector.take(step, loss) if "loss" in line else None
        if spike is None or not is_own or now < self._quiet_until or (spike.step or 0) <= self._reported:
            return None
        self._quiet_until, self._reported = now + QUIET_S, spike.step or 0
        text = f"the loss of step {spike.step} is {spike.loss:.4g}, and was about {spike.usual:.4g} before"
        return LossFinding(EventKind.LOSS_SPIKE, ("spike",), spike.step, text)

    def _read_new(self) -> Iterator[dict[str, Any]]:
        """Yield the complete lines since the last look."""
        try:
            with open_file(self._metrics) as file:
                size = file.seek(0, os.SEEK_END)
                last = self._position if self._position is not None and self._position <= size else 0
                start = max(last, size - MOST_BYTES)
                file.seek(start)
                text = file.readall()
        except OSError:
            return
        whole, _, rest = text.rpartition(b"\n")
        self._position = start + len(text) - len(rest)
        for line in whole.split(b"\n"):  # the first one may be cut off, and is no JSON then
            if (found := parse_line(line)) is not None:
                yield found


def _events(run: RunPaths, number: int) -> list[Event]:
    with suppress(OSError):
        return supervisor_events(run.attempt(number))
    return []
