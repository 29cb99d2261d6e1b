"""Notice a loss that is not finite, in the newest lines of `metrics.jsonl`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from fsdpctl.contract.files import read_tail
from fsdpctl.contract.paths import AttemptPaths, RunPaths

LOOK_EVERY_S = 5.0
TAIL_BYTES = 65_536


class LossWatch:
    """The loss of one attempt. Call `look` often."""

    def __init__(self, attempt: AttemptPaths, clock: Callable[[], float] = time.monotonic) -> None:
        self._attempt, self._metrics = attempt.number, RunPaths(attempt.run_dir).metrics
        self._clock, self._next, self._is_found = clock, 0.0, False

    def look(self) -> tuple[int | None] | None:
        """Return the step of the first loss that is not finite, once for the attempt; None for no news."""
        if self._is_found or (now := self._clock()) < self._next:
            return None
        self._next = now + LOOK_EVERY_S
        with suppress(OSError):
            lines = read_tail(self._metrics, TAIL_BYTES).decode(errors="replace").splitlines()
            found = find_non_finite(lines, self._attempt)
            self._is_found = found is not None
            return found
        return None


def find_non_finite(lines: Iterable[str], attempt: int) -> tuple[int | None] | None:
    """Return the step of the first line of this attempt whose loss is not finite; None if there is no such line."""
    for text in lines:
        with suppress(ValueError, RecursionError):
            line = json.loads(text)
            if isinstance(line, dict) and line.get("attempt") == attempt and line.get("loss", 0.0) is None:
                step = line.get("step")
                return (step if isinstance(step, int) else None,)
    return None
