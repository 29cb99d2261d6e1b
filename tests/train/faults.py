"""Faults inside of a rank. Each is called in the rank's process, before the trainer begins."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from train import evaluate, loop, nonfinite
from train.checkpoint import dcp_io, verified_checkpoints
from train.checkpoint.async_saver import AsyncSaver
from train.checkpoint.staging import Staging
from train.checkpoint.verified_checkpoints import VerifiedCheckpoints
from train.data.tokens import Tokens
from train.metrics import profiling, recorder
from train.parallel import world

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>


def slow_steps(seconds: float) -> None:
    """Slow down every step, so that a test can act in mid-run."""
    before(loop.Trainer, "_train_step", lambda _: time.sleep(seconds))


def slow_traces(seconds: float) -> None:
    """Let the profiler take long to start, and to write a trace."""
    for method in ("start", "export_chrome_trace"):
        before(profiling.profile, method, lambda _: time.sleep(seconds))


def signalled(rank: int, moment: str, number: int) -> None:
    """Signal one rank twice: before the first step, in the backward pass of step 3, or in the save of step 4."""

    def hit(*_: Any) -> None:
        for _ in range(2):
            os.kill(os.getpid(), number)

    def hit_in_backward(trainer: Any) -> None:
        if trainer.step == 2:
            trainer.model.blocks[1].register_forward_hook(watch)

    def watch(block: Any, inputs: Any, output: torch.Tensor) -> None:
        output.register_hook(hit)

    if os.environ["RANK"] == str(rank):
        before(
            *{
                "start": (loop.Trainer, "_run", hit),
                "backward": (loop.Trainer, "_backward", hit_in_backward),
                "save": (Staging, "copy", hit),
            }[moment]
        )


def before(owner: type, method: str, act: Callable[[Any], None]) -> None:
    original = getattr(owner, method)

    def changed(self: Any, *arguments: Any) -> Any:
        act(self)
        return original(self, *arguments)

    setattr(owner, method, changed)


class _NoValueAsked(TorchDispatchMode):
    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert op is not torch.ops.aten._local_scalar_dense.default, "a step asks for the value of a tensor"
        return op(*args, **(kwargs or {}))


def no_value_asked_in_a_step() -> None:
    """Fail a step that reads the value of a tensor: on a GPU the host would wait there."""
    original = loop.Trainer._train_step

    def train_step(self: Any) -> None:
        with _NoValueAsked():
            original(self)

    loop.Trainer._train_step = train_step  # type: ignore[method-assign]


def no_garbage_collected_in_a_step() -> None:
    """Fail a step in which Python collects garbage: all other ranks would wait for this one."""
    original = loop.Trainer._train_step

    def train_step(self: Any) -> None:
        seen: list[str] = []

        def record(phase: str, info: dict[str, int]) -> None:
            seen.append(phase)

        gc.callbacks.append(record)
        original(self)
        gc.callbacks.remove(record)
        assert not seen, "garbage was collected in a step"

    loop.Trainer._train_step = train_step  # type: ignore[method-assign]


def no_waiting_in_a_step() -> None:
    no_garbage_collected_in_a_step()
    no_value_asked_in_a_step()


def first_batch_comes_late(rank: int, path: str) -> None:
    """Keep data from one rank until a file exists."""
    original = Tokens.sequences

    def sequences(self: Any, ids: Any) -> Any:
        while os.environ["RANK"] == str(rank) and not Path(path).exists():
            time.sleep(0.01)
        return original(self, ids)

    Tokens.sequences = sequences  # type: ignore[method-assign]


def die_before_rename(step: int) -> None:
    """Kill rank 0 when only the rename is missing."""
    original = verified_checkpoints.fsync_directory

    def dying(path: Path) -> None:
        if path.name.startswith(f"step-{step:08d}.tmp"):
            os.kill(os.getpid(), signal.SIGKILL)
        original(path)

    verified_checkpoints.fsync_directory = dying


def disk_full(steps: list[int]) -> None:
    """Fail to write tensors, into several files at once, on rank 1 in the saves of these steps, as on a full disk."""
    dcp_io.PART_BYTES = 1
    original = dcp_io.FileSystemWriter.write_data

    def write_data(self: Any, plan: Any, planner: Any) -> Any:
        failing = any(f"step-{step:08d}." in str(self.path) for step in steps)
        if failing and os.environ["RANK"] == "1":
            try:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                raise RuntimeError("unexpected pos 704 vs 598")  # the message of torch's writer
        return original(self, plan, planner)

    dcp_io.FileSystemWriter.write_data = write_data  # type: ignore[method-assign]


def slow_writes(seconds: float, step: int | None = None) -> None:
    """Delay what is saved (at `step`): it is read and written so much later than it was staged."""
    original = dcp_io.FileSystemWriter.write_data

    def write_data(self: Any, plan: Any, planner: Any) -> Any:
        if step is None or f"step-{step:08d}." in str(self.path):
            time.sleep(seconds)
        return original(self, plan, planner)

    dcp_io.FileSystemWriter.write_data = write_data  # type: ignore[method-assign]


def slow_removal(seconds: float, noted: str = "") -> None:
    """Delay each removal of an old checkpoint; write into a file how many checkpoints there are before it."""
    original = verified_checkpoints.remove_checkpoint

    def remove_checkpoint(directory: Path, *sign: Callable[[], None]) -> Path | None:
        if noted:
            with open(noted, "a") as file:
                file.write(f"{len(os.listdir(directory.parent))}\n")
        time.sleep(seconds)
        return original(directory, *sign)

    verified_checkpoints.remove_checkpoint = remove_checkpoint


def slow_evaluation(seconds: float) -> None:
    """Delay each micro-batch of an evaluation."""
    original = evaluate.split_targets

    def split_targets(*arguments: Any) -> Any:
        time.sleep(seconds)
        return original(*arguments)

    evaluate.split_targets = split_targets


def slow_writes_on_rank_0(seconds: float, step: int, patience: float) -> None:
    """Let one rank write for longer than the collectives of training may take."""
    original = world.dist.init_process_group
    world.dist.init_process_group = partial(original, timeout=timedelta(seconds=patience))
    if os.environ["RANK"] == "0":
        slow_writes(seconds, step)


def bug_in_the_saving_thread() -> None:
    """Raise an unexpected error on rank 1, outside of anything that ranks agree on."""

    def broken(self: Any) -> None:
        if os.environ["RANK"] == "1":
            raise ZeroDivisionError("a bug")

    Staging.wait = broken  # type: ignore[method-assign]


def record_memory(path: str) -> None:
    """Write the resident bytes of this process after each save: of what is in use, see `_free_at_once`."""
    _free_at_once()
    original = AsyncSaver._handle_result

    def handle_result(self: Any, save: Any) -> None:
        original(self, save)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        with open(path, "a") as file:
            file.write(f"{pages * resource.getpagesize()}\n")

    AsyncSaver._handle_result = handle_result  # type: ignore[method-assign]


def _free_at_once() -> None:
    """Fix two limits that glibc raises with the size of what is freed: it would then keep a free block of that size."""
    libc = ctypes.CDLL(None)
    for limit in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        assert libc.mallopt(limit, 64 << 10) == 1


def newer_attempt_appears(step: int, attempts: str) -> None:
    """Start another attempt of this run while this one saves."""
    _before_commit(step, lambda: Path(attempts, "2").mkdir(parents=True))


def _before_commit(step: int, act: Any) -> None:
    original = VerifiedCheckpoints.commit

    def commit(self: Any, temporary: Path, manifest: Any) -> None:
        if manifest.step == step:
            act()
        original(self, temporary, manifest)

    VerifiedCheckpoints.commit = commit  # type: ignore[method-assign]


def loss_is_nan(rank: int, steps: list[int]) -> None:
    """Make the loss of one rank NaN in these steps, counted from 1."""
    original = loop.Trainer._backward

    def backward(self: Any, ids: Any) -> Any:
        if self.world.rank == rank and self.step + 1 in steps:
            handle = self.model.register_forward_hook(lambda module, args, loss: loss * float("nan"))
            try:
                return original(self, ids)
            finally:
                handle.remove()
        return original(self, ids)

    loop.Trainer._backward = backward  # type: ignore[method-assign]


def numbers_come_late() -> None:
    """Deliver a step's numbers two steps later, as on a GPU."""
    recorder.LAG["cpu"] = 2


def loss_is_nan_and_known_late(rank: int, steps: list[int]) -> None:
    numbers_come_late()
    loss_is_nan(rank, steps)


def weights_become_infinite(rank: int, step: int) -> None:
    """Make one weight in one rank's part infinite after a step."""
    original = loop.Trainer._train_step

    def train_step(self: Any) -> None:
        original(self)
        if self.world.rank == rank and self.step == step:
            weight = self.model.blocks[0].mlp.down.weight.detach()
            getattr(weight, "_local_tensor", weight)[0, 0] = float("inf")

    loop.Trainer._train_step = train_step  # type: ignore[method-assign]


def first_loss_scale(scale: float) -> None:
    nonfinite.FIRST_SCALE = scale


def slow_scaled_steps(scale: float, seconds: float) -> None:
    first_loss_scale(scale)
    slow_steps(seconds)


def out_of_memory(step: int) -> None:
    """Let the GPU's memory run out in a step."""
    original = loop.Trainer._train_step

    def train_step(self: Any) -> None:
        if self.step + 1 == step:
            run_out_of_memory(self)
        original(self)

    loop.Trainer._train_step = train_step  # type: ignore[method-assign]


def read_between_passes() -> None:
    """Call the model beside the reading of a checkpoint, as if it were compiled.

    Rank 0 has its weights only between the forward and the backward pass, all others before both.
    """
    forward_done, read_done = threading.Event(), threading.Event()
    is_first = os.environ.get("RANK", "0") == "0"
    read, backward, ahead = dcp_io._TensorReader.read_data, torch.Tensor.backward, loop.Trainer._compile_ahead

    def read_data(*arguments: Any) -> Any:
        assert not is_first or forward_done.wait(20)
        future = read(*arguments)
        read_done.set()
        return future

    def backward_after_reading(*arguments: Any, **options: Any) -> None:
        forward_done.set()
        assert read_done.wait(20)
        backward(*arguments, **options)

    def compile_ahead(trainer: Any) -> None:
        assert is_first or read_done.wait(20)
        ahead(trainer)

    loop.uses_compiler = lambda *_: True
    dcp_io._TensorReader.read_data = read_data  # type: ignore[method-assign]
    torch.Tensor.backward = backward_after_reading  # type: ignore[assignment,method-assign]
    loop.Trainer._compile_ahead = compile_ahead  # type: ignore[method-assign]


def out_of_memory_ahead() -> None:
    """Let it run out while the compiler works beside the reading of a checkpoint."""
    loop.uses_compiler = lambda *_: True
    loop.Trainer._compile_ahead = run_out_of_memory  # type: ignore[method-assign]


def run_out_of_memory(_trainer: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nsee the manual")
