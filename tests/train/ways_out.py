"""Every way in which a run can end, in one process after the other, and what each leaves open."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from tests.train import faults
from train import loop
from train.__main__ import main
from train.metrics.progress_log import ProgressLog

STEP = 5  # while the save of step 4 is in flight


def raise_in_step(error: BaseException) -> Callable[[], None]:
    def act(trainer: Any) -> None:
        if trainer.step == STEP:
            raise error

    return lambda: faults.before(loop.Trainer, "_train_step", act)


def signal_in_step() -> None:
    def act(trainer: Any) -> None:
        if trainer.step == STEP:
            os.kill(os.getpid(), signal.SIGTERM)

    faults.before(loop.Trainer, "_train_step", act)


def fail_to_open_a_writer() -> None:
    """Raise from the last one, after the others are open."""

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    faults.before(ProgressLog, "__init__", fail)


WAYS: dict[str, Callable[[], None]] = {
    "end": lambda: None,
    "stop": signal_in_step,
    "not finite": lambda: faults.loss_is_nan(0, list(range(STEP + 1, 100))),
    "error in a step": raise_in_step(ZeroDivisionError()),
    "interrupt": raise_in_step(KeyboardInterrupt()),
    "error in construction": fail_to_open_a_writer,
}


def leave_each_way(root: Path) -> None:
    """Train in `root/WAY` and end in that way, for each; write to `root/left.json` how main ended and what it left."""
    del os.environ["RANK"]  # a world of one, which needs no address
    faults.slow_writes(0.5)
    left = {}
    for way, arrange in WAYS.items():
        originals = {owner: dict(vars(owner)) for owner in (loop.Trainer, ProgressLog)}
        arrange()
        ended: object
        try:
            ended = main(["--config", str(root / way / "trainer.json")])
        except BaseException as error:
            ended = type(error).__name__
        left[way] = [ended, open_files(root / way), writing_threads()]
        for owner, attributes in originals.items():
            for name in ("_train_step", "_backward", "__init__"):
                if name in attributes:
                    setattr(owner, name, attributes[name])
        if dist.is_initialized():
            dist.destroy_process_group()
    (root / "left.json").write_text(json.dumps(left))
    sys.exit(0)


def open_files(run: Path) -> list[str]:
    targets = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return sorted(path.readlink().name for path in targets if path.is_symlink() and run in path.readlink().parents)


def writing_threads() -> list[str]:
    """Return the names of threads that save, and of those of TensorBoard."""
    threads = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    return [
        thread.name
        for thread in threads
        if thread.name.startswith("save-") or type(thread).__module__.startswith("tensorboard.")
    ]
