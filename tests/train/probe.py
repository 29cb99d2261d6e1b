"""Runs only the trainer's steps, for tests that do not need the whole of a run around them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch._dynamo.utils import counters

from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.rank_progress import RankProgressWriter
from train.config import load_config
from train.context import RankContext
from train.launch import LaunchEnv
from train.loop import Trainer
from train.parallel.layout import plan_layout
from train.parallel.rank_info import RankInfo
from train.parallel.world import World
from train.preempt import Stopper

GATHERS = ("all_gather_into_tensor", "all_gather_single")  # the older name, then that from torch 2.13 on
SCATTERS = ("reduce_scatter_tensor", "reduce_scatter_single")


def count_collectives() -> Counter[str]:
    """Count how often Python calls each collective, from now on."""
    calls: Counter[str] = Counter()

    def counted(name: str, original: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return original(*arguments, **options)

        return call

    for name in (*GATHERS, *SCATTERS, "all_reduce"):
        if hasattr(dist, name):
            setattr(dist, name, counted(name, getattr(dist, name)))
    return calls


def record_lead(trainer: Trainer, calls: Counter[str]) -> list[int]:
    """Record the gathers that have begun whenever the first block begins."""
    begun: list[int] = []
    trainer.model.blocks[0].register_forward_pre_hook(lambda *_: begun.append(total(calls, GATHERS)))
    return begun


def total(calls: Counter[str], names: tuple[str, ...]) -> int:
    return sum(calls[name] for name in names)


def describe(calls: Counter[str], steps: int) -> str:
    gathers, scatters = total(calls, GATHERS), total(calls, SCATTERS)
    parts = {"gathers": gathers, "reduce-scatters": scatters, "all-reduces": calls["all_reduce"]}
    return ", ".join(f"{count / steps:g} {what}" for what, count in parts.items())


def step_each(root: Path, names: tuple[str, ...], save_after: int) -> None:
    """Train each configuration in turn, in one world; evaluate as often as `eval.every_steps` asks; end the process.

    `save_after`: the step after which the state is saved, if any.
    """
    rank_info = RankInfo.from_env(os.environ)
    launch, stopper, world = LaunchEnv.from_env({}), Stopper(None), World(rank_info)
    calls = count_collectives()
    for name in names:
        config = load_config(root / name / "trainer.json")
        layout, paths = plan_layout(config, rank_info), RunPaths(root / name)
        cleanup = ExitStack()
        trainer = Trainer(RankContext(config, layout, paths, launch, world, stopper, RankProgressWriter(None), cleanup))
        begun = [] if config.compile else record_lead(trainer, calls)  # a hook would be part of the graph
        counters.clear()
        calls.clear()
        every = config.eval.every_steps
        while trainer.step < config.steps:
            trainer._train_step()
            if every and trainer.step % every == 0 and trainer.step < config.steps:
                trainer._evaluate()
            if trainer.step == save_after:
                trainer.checkpoints.save_now(save_after, trainer.telemetry)
        print(f"{name}: {describe(calls, config.steps)} a step", file=sys.stderr)
        if every:
            found = trainer._evaluate()
            assert found is not None
            print(f"{name}: held-out loss {found.loss!r}", file=sys.stderr)
        for gathers in begun[:1]:
            print(f"{name}: {gathers} gathers before the first block", file=sys.stderr)
        trainer.end()
        cleanup.close()
        if config.compile:
            graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
            uncached = counters["aot_autograd"]["autograd_cache_bypass"]
            made = counters["inductor"]["fxgraph_cache_miss"]
            print(f"{name}: {graphs} graphs, {breaks} breaks, {uncached} that no cache takes", file=sys.stderr)
            print(f"{name}: {made} compiled anew", file=sys.stderr)
    world.close()
    sys.exit(0)
