"""The metrics of a run on one rank: the recorder, and behind it the writers of this rank, if it has any."""

from __future__ import annotations

from train.context import RankContext
from train.metrics.recorder import Recorder
from train.metrics.stragglers import StragglerDetector
from train.metrics.table import open_writers
from train.metrics.writer import HeldOutLoss
from train.nonfinite import NonFiniteGuard


class Telemetry:
    """Writers behind one recorder. Ranks without writers take part in what is collective."""

    def __init__(
        self, context: RankContext, start_step: int, guard: NonFiniteGuard, stragglers: StragglerDetector
    ) -> None:
        self.writers = open_writers(context, start_step)
        self.recorder = Recorder(context, start_step, self.writers, guard.watch, stragglers)

    def sync(self, step: int) -> None:
        """Bring all up to this step to disk, from another thread than the one that delivers it. Raises OSError."""
        if self.writers:
            self.recorder.wait_for(step)
        for writer in self.writers:
            writer.sync()

    def held_out(self, held_out: HeldOutLoss) -> None:
        """Write the result of an evaluation."""
        for writer in self.writers:
            writer.write_held_out(held_out)

    def has_held_out(self, step: int) -> bool:
        """Return whether this rank has written the result of the evaluation after this step."""
        return any(writer.has_held_out(step) for writer in self.writers)

    def summary(self) -> dict[str, float]:
        """Return the numbers of the outcome that come from the steps."""
        return {name: number for writer in self.writers for name, number in writer.summary().items()}
