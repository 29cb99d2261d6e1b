"""What the parts of one attempt on one rank have in common."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.rank_progress import RankProgressWriter
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from train.launch import LaunchEnv
from train.parallel.layout import Layout
from train.parallel.world import World
from train.preempt import Stopper


@dataclass(frozen=True)
class RankContext:
    """One attempt of a run on one rank. Made once, before anything is built."""

    config: TrainerConfig
    layout: Layout
    paths: RunPaths
    launch: LaunchEnv
    world: World
    stopper: Stopper
    progress: RankProgressWriter  # read by the agent of this node
    cleanup: ExitStack  # closes, on every way out, what was opened

    @property
    def attempt(self) -> int:
        return self.launch.attempt
