"""Decide whether the loss has left its course, from the losses that a run logs. Pure.

A spike is three logged losses in a row above the median of the hundred before by six deviations. The deviation is the
median one or that of the highest tenth, scaled to that of normal noise, and at least 2% of the median: noise, outliers
of single batches, batches of two kinds and the course of the loss itself are no spikes. Without fifty losses before
there is no judgement, as in the first steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

WINDOW = 100
MIN_WINDOW = 50
DEVIATIONS = 6.0
LEAST_DEVIATION = 0.02
"""Share of the median."""
NORMAL = 1.4826
"""The standard deviation of normal noise over its median absolute deviation."""
NORMAL_TENTH = 1.2816
"""The distance of the highest tenth of normal noise from its middle, in standard deviations."""
CONFIRM = 3
RECOVER = 20
"""Losses in a row that are no longer high, after which another spike is a new one."""


@dataclass(frozen=True)
class Spike:
    """A loss that has risen far above those before."""

    step: int | None
    loss: float
    usual: float  # the median before


def highest_usual(losses: Sequence[float]) -> float | None:
    """Return the loss above which another one is high; None after too few losses."""
    if len(losses) < MIN_WINDOW:
        return None
    middle, tenth = median(losses), sorted(losses)[len(losses) * 9 // 10]
    absolute = NORMAL * median([abs(loss - middle) for loss in losses])
    deviation = max(absolute, (tenth - middle) / NORMAL_TENTH, LEAST_DEVIATION * abs(middle))
    return middle + DEVIATIONS * deviation


def median(values: Sequence[float]) -> float:
    """Return the upper median: `statistics` would load decimal and random into every supervisor."""
    return sorted(values)[len(values) // 2]


class SpikeDetector:
    """The losses of a run, taken in the order in which they were logged."""

    def __init__(self) -> None:
        self._usual: deque[tuple[int | None, float]] = deque(maxlen=WINDOW)
        self._high: list[tuple[int | None, float]] = []
        self._is_spike = False
        self._calm = 0  # losses since the last high one

    def take(self, step: int | None, loss: float) -> Spike | None:
        """Return the spike that this loss confirms, once for each; `loss` is finite."""
        self._forget_repeated(step)
        losses = [known for _, known in self._usual]
        limit = highest_usual(losses)
        if limit is None or loss <= limit:
            self._take_usual(step, loss)
            return None
        self._high.append((step, loss))
        self._calm = 0
        if self._is_spike and len(self._high) >= WINDOW:
            self._begin_anew()
        elif not self._is_spike and len(self._high) == CONFIRM:
            self._is_spike = True
            return Spike(*self._high[0], median(losses))
        return None

    def _take_usual(self, step: int | None, loss: float) -> None:
        if not self._is_spike:
            self._usual.extend(self._high)  # outliers
            self._high.clear()
        self._usual.append((step, loss))
        self._calm += 1
        if self._is_spike and self._calm >= RECOVER:
            self._is_spike = False
            self._high.clear()

    def _begin_anew(self) -> None:
        """Take the high losses for the usual ones: it is another level, not a spike."""
        self._usual.clear()
        self._usual.extend(self._high)
        self._high.clear()
        self._is_spike = False

    def _forget_repeated(self, step: int | None) -> None:
        """Forget what was logged of this step and later ones: a restart repeats them from a checkpoint on."""
        newest = (self._high or self._usual or [(None, 0.0)])[-1][0]
        if step is None or newest is None or step > newest:
            return
        older = [(known, loss) for known, loss in self._usual if known is None or known < step]
        self._usual.clear()
        self._usual.extend(older)
        self._high.clear()
        self._is_spike, self._calm = False, 0
