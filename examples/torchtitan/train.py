"""torchtitan's trainer under fsdpctl: progress of each step, a clean stop of all ranks, and an exact resume.

Checkpoints are torchtitan's own, in `checkpoint/` below the dump folder: each attempt loads the newest complete one.
"""

import os
from typing import Any

from without_gpus import use_gloo  # first: torchtitan looks for a GPU when it is imported

# isort: split
from torchtitan.config import JobConfig
from torchtitan.train import Trainer, main

from fsdpctl.integrations.stop import leave, stop_requested
from fsdpctl.report import step


class WatchedTrainer(Trainer):
    """The trainer, with a report after each step, and a checkpoint where a stop is requested."""

    def __init__(self, config: JobConfig) -> None:
        if directory := os.environ.get("FSDPCTL_CHECKPOINT_DIR"):
            config.job.dump_folder = directory
        super().__init__(config)
        use_gloo(self.model_parts)
        self.values: dict[str, float] = {}
        log = self.metrics_processor.log

        def keep(number: int, loss: float, max_loss: float, grad_norm: float, **values: Any) -> None:
            self.values = {"loss": loss, "grad_norm": grad_norm}
            log(number, loss, max_loss, grad_norm, **values)

        self.metrics_processor.log = keep

    def train_step(self, data_iterator: Any) -> None:
        self.values = {}
        super().train_step(data_iterator)
        step(self.step, total=self.job_config.training.steps, **self.values)

    def should_continue_training(self) -> bool:
        if super().should_continue_training() and self.step and stop_requested():
            if self.step % self.checkpointer.interval:  # else it is saved already
                self.checkpointer.interval = 1
                self.checkpointer.save(self.step)
            self.close()  # waits for a save in the background
            leave()
        return super().should_continue_training()


if __name__ == "__main__":
    main(WatchedTrainer)
