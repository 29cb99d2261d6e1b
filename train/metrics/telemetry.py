"""All that rank 0 shows and writes while a run goes on; on the other ranks it only keeps the pace."""

from __future__ import annotations

import logging

from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from train.metrics.jsonl import JsonlWriter, TensorBoardWriter
from train.metrics.progress_log import ProgressLog
from train.metrics.recorder import Recorder
from train.metrics.stragglers import StragglerDetector
from train.nonfinite import NonFiniteGuard
from train.parallel.layout import Layout
from train.parallel.world import World

log = logging.getLogger(__name__)


class Telemetry:
    """Metrics file, TensorBoard and progress lines behind one recorder."""

    def __init__(
        self,
        config: TrainerConfig,
        layout: Layout,
        paths: RunPaths,
        world: World,
        attempt: int,
        start_step: int,
        guard: NonFiniteGuard,
        stragglers: StragglerDetector,
    ) -> None:
        self.file = self.board = self.progress = None
        sinks = []
        if world.is_writer:
            self.file = JsonlWriter(paths.metrics, start_step)
            sinks.append(self.file.write)
        if world.is_main:
            self.board = TensorBoardWriter(paths.tensorboard, start_step)
            self.progress = ProgressLog(start_step, config.steps, config.log_every, layout.tokens_per_step)
            sinks += [self.board.write, self.progress.show]
        self.recorder = Recorder(
            world.device, start_step, layout.tokens_per_step, attempt, sinks, guard.watch, stragglers
        )

    def sync(self, step: int) -> None:
        """Have all up to this step on disk, from another thread than the one that delivers it. Raises OSError where it
        cannot."""
        if self.file:
            self.recorder.wait_for(step)
            self.file.sync()

    def held_out(self, step: int, loss: float, entropy: float) -> None:
        log.info("held-out loss %.4f nats/token after step %d  (unigram entropy %.4f)", loss, step, entropy)
        if self.board:
            self.board.scalar("eval/held_out_loss", loss, step)

    def summary(self) -> dict[str, float]:
        """The numbers of the outcome that come from the steps."""
        if not self.file or not self.progress or self.file.first_loss is None or self.file.last_loss is None:
            return {}
        return {
            "first_loss": self.file.first_loss,
            "last_loss": self.file.last_loss,
            "tokens_per_s": round(self.progress.tokens_per_s, 1),
        }

    def close(self) -> None:
        self.recorder.drain()
        if self.file:
            self.file.close()
        if self.board:
            self.board.close()
