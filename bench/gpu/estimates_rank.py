"""One rank that trains a few steps of each case, and rank 0 writes what they needed.

    python -m bench.gpu.estimates_rank CASES.json RESULTS.jsonl [--lock FILE]       alone or under torchrun

Saves, evaluation and the drawing of weights are left out. With a lock, processes that share a GPU compile beside each
other, but only one of them uses the GPU at a time, so that times are those of a GPU alone.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_type_hints

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._dynamo.callback import on_compile_end, on_compile_start
from torch.distributed._composable.replicate import DDP
from torch.distributed.tensor import DTensor
from torch.futures import Future
from torch.testing._internal.distributed.fake_pg import FakeStore

from bench.gpu.training import read_metrics
from fsdpctl.contract.codec import decode
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.rank_progress import RankProgressWriter
from fsdpctl.contract.records import Outcome
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from train import loop
from train.checkpoint import manager
from train.context import RankContext
from train.launch import LaunchEnv
from train.parallel.layout import plan_layout
from train.parallel.rank_info import RankInfo
from train.parallel.world import ControlGroup, World
from train.preempt import Stopper

WARM_UP = 4  # steps that are not timed


class Lock:
    """The right to use the GPU; given away while the compiler works."""

    def __init__(self, path: Path | None) -> None:
        self.file = path.open("w") if path else None
        if self.file:
            on_compile_start(lambda _: self.release())
            on_compile_end(lambda _: self.acquire())

    def acquire(self) -> None:
        if self.file:
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def release(self) -> None:
        if self.file:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            fcntl.flock(self.file, fcntl.LOCK_UN)


class FakeWorld(World):
    """Rank 0 of a world whose other ranks do not exist."""

    def __init__(self, rank_info: RankInfo) -> None:
        self.rank_info, self.shared_disk = rank_info, True
        self.device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
        self.backend = "fake"
        dist.init_process_group("fake", rank=0, world_size=rank_info.world_size, store=FakeStore())
        ControlGroup.__init__(self, 0, range(rank_info.world_size), dist.group.WORLD)  # type: ignore[arg-type]

    def broadcast(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value] * self.size

    def maximum(self, value: int) -> int:
        return value

    def new_control_group(self) -> ControlGroup:
        return self


class NoStaging:
    """Nothing is saved, and pinned memory takes half a second a GB."""

    def __init__(self, *_: object) -> None: ...


@torch.no_grad()
def fill_quickly(model: nn.Module, _seed: int) -> None:
    """Give the weights some values, drawn on the device."""
    for parameter in model.parameters():
        local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        local.fill_(1.0) if local.ndim == 1 else local.normal_(std=0.02)


class Phases:
    """Peak and end of each phase of the steps, as torch's allocator counts them: bytes."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.on_gpu = device, device.type == "cuda"
        self.peaks: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.reserved = 0
        self.step_peaks: list[int] = []
        self.highest = 0  # in this step so far

    def end(self, phase: str) -> None:
        if not self.on_gpu:
            return
        highest = torch.cuda.max_memory_allocated(self.device)
        self.highest = max(self.highest, highest)
        self.peaks[phase] = max(self.peaks.get(phase, 0), highest)
        self.ends[phase] = torch.cuda.memory_allocated(self.device)
        self.reserved = max(self.reserved, torch.cuda.max_memory_reserved(self.device))
        torch.cuda.reset_peak_memory_stats(self.device)
        if phase in ("start", "optimizer"):
            self.step_peaks.append(self.highest)
            self.highest = 0


class Measured(loop.Trainer):
    phases: Phases
    history: list[Any]

    def measure(self, phases: Phases) -> None:
        self.phases, self.history = phases, []
        phases.end("start")
        self.model.register_forward_hook(lambda *_: phases.end("forward"))
        if isinstance(self.model, DDP) and self.world.backend == "fake":
            self.model.register_comm_hook(None, send_nothing)

    def _backward(self, ids: Any) -> tuple[Tensor, Tensor, Tensor]:
        sums = super()._backward(ids)
        self.phases.end("backward")
        return sums

    def _train_step(self) -> None:
        traced = self.phases.on_gpu and self.step == self.config.steps - 1
        if traced:
            torch.cuda.memory._record_memory_history("all", context=None, max_entries=500_000)
        super()._train_step()
        self.phases.end("optimizer")
        if traced:
            self.history = torch.cuda.memory._snapshot(self.phases.device)["device_traces"][self.phases.device.index]
            torch.cuda.memory._record_memory_history(None)

    def _finish(self) -> Outcome:
        self.telemetry.recorder.drain()
        return Outcome("finished", self.step, None, "", {})


def send_nothing(_: object, bucket: dist.GradBucket) -> Future[Tensor]:
    """Return a bucket as it is: DDP cannot use the result of a fake all-reduce."""
    done: Future[Tensor] = Future()
    done.set_result(bucket.buffer())
    return done


send_nothing.__annotations__ = get_type_hints(send_nothing)  # DDP wants the types, not their names


def allocated_at_peak(history: list[Any]) -> dict[str, Any]:
    """Return the tensors of a step that were allocated at its peak: how many of which size, the largest sums first."""
    total, peak, at = 0, 0, 0
    for number, event in enumerate(history):
        total += _change(event)
        if total > peak:
            peak, at = total, number + 1
    live: dict[int, int] = {}
    freed = 0
    for event in history[:at]:
        if event["action"] == "alloc":
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_completed" and live.pop(event["addr"], None) is None:
            freed += event["size"]
    counted = Counter(live.values()).most_common()
    largest = sorted(counted, key=lambda item: -item[0] * item[1])[:60]
    return {"above_start": peak, "of_before_freed": freed, "sizes": largest, "all": sum(live.values())}


def _change(event: Mapping[str, Any]) -> int:
    return {"alloc": 1, "free_completed": -1}.get(event["action"], 0) * int(event["size"])


def measure(case: dict[str, Any], world: World, stopper: Stopper, root: Path) -> dict[str, Any]:
    """Train the steps of a case, and return its numbers."""
    config = decode(TrainerConfig, case["config"])
    layout = plan_layout(config, world.rank_info)
    root.mkdir()
    phases = Phases(world.device)
    baseline = torch.cuda.memory_allocated(world.device) if phases.on_gpu else 0
    with ExitStack() as cleanup:
        progress = RankProgressWriter(None)
        launch = LaunchEnv.from_env({})
        context = RankContext(config, layout, RunPaths(root), launch, world, stopper, progress, cleanup)
        began = time.time()
        trainer = Measured(context)
        trainer.measure(phases)
        trainer.run()
    result = {
        "baseline_bytes": baseline,
        "phase_peaks": phases.peaks,
        "phase_ends": phases.ends,
        "step_peaks": phases.step_peaks,
    }
    result |= {"max_memory_allocated": max(phases.peaks.values(), default=0), "max_memory_reserved": phases.reserved}
    if phases.on_gpu:
        free, total = torch.cuda.mem_get_info(world.device)
        outside = total - free - torch.cuda.memory_reserved(world.device)
        result |= {"used_bytes": total - free, "total_bytes": total, "outside_torch_bytes": outside}
        result["at_peak"] = allocated_at_peak(trainer.history)
    if world.is_main:
        lines = read_metrics(root)
        tokens = config.batch.sequences * config.model.seq_len
        times = [tokens / line["tokens_per_s"] for line in lines]
        step_s = statistics.median(times[WARM_UP:-1])
        result |= {"step_s": step_s, "tokens_per_s": tokens / step_s, "times": [round(took, 5) for took in times]}
        result["until_first_step_s"] = round(lines[0]["time"] - began, 1)
    return result


def clean_up() -> None:
    """Forget a case, so that the next one begins with an empty GPU."""
    gc.unfreeze()  # the trainer freezes what it has
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def describe_machine(device: torch.device) -> dict[str, Any]:
    of_torch = {"torch": torch.__version__, "cuda": torch.version.cuda}
    if device.type != "cuda":
        return of_torch
    nccl = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
    return {**of_torch, "card": torch.cuda.get_device_name(device), "nccl": nccl}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--lock", type=Path)
    args = parser.parse_args()
    gc.disable()
    manager.Staging, manager.init_weights = NoStaging, fill_quickly  # type: ignore[assignment,misc]
    cases = json.loads(args.cases.read_text())
    lock = Lock(args.lock)
    lock.acquire()
    first = cases[0]
    if first["fake"]:
        world: World = FakeWorld(RankInfo(0, first["nodes"] * first["procs"], 0, first["procs"]))
    else:
        world = World(RankInfo.from_env(os.environ))
    stopper = Stopper(None)
    for number, case in enumerate(cases):
        if world.rank_info.nodes != case["nodes"]:  # this host as several nodes
            world.rank_info = RankInfo(world.rank, world.size, world.rank % case["procs"], case["procs"])
        result = measure(case, world, stopper, args.cases.parent / f"{args.cases.stem}-{number}-{world.rank}")
        if world.is_main:
            with args.results.open("a") as file:
                file.write(json.dumps({**case, **describe_machine(world.device), **result}) + "\n")
        clean_up()
    lock.release()
    os._exit(0)  # nothing is to be torn down


if __name__ == "__main__":
    main()
