"""What a rank does in tests that need the trainer's steps, and not the whole of a run around them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from torch._dynamo.utils import counters

from fsdpctl.contract.paths import RunPaths
from train.config import load_config
from train.distributed import World
from train.launch import Launch
from train.layout import plan_layout
from train.loop import Trainer
from train.place import Place
from train.preempt import Stopper


def step_each(root: Path, names: tuple[str, ...]) -> None:
    """Train each configuration in turn, in one world, and end the process."""
    place = Place.from_env(os.environ)
    launch, stopper, world = Launch.from_env({}), Stopper(None), World(place)
    for name in names:
        config = load_config(root / name / "trainer.json")
        trainer = Trainer(config, plan_layout(config, place), RunPaths(root / name), launch, world, stopper)
        counters.clear()
        while trainer.step < config.steps:
            trainer._train_step()
        trainer.close()
        if config.compile:
            graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
            print(f"{name}: {graphs} graphs, {breaks} breaks", file=sys.stderr)
    world.close()
    sys.exit(0)
