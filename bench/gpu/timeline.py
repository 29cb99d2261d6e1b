"""One rank of the trainer that prints when each part of its start has ended, and ends after its first step.

`BENCH_BEGAN` is the time at which torchrun was started. torchrun ... -m bench.gpu.timeline --config FILE
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any, NoReturn

BEGAN = float(os.environ["BENCH_BEGAN"])


def report(part: str) -> None:
    print("TIMELINE", json.dumps([part, time.time() - BEGAN]), flush=True)


def report_after(owner: Any, name: str, part: str, then: Callable[[], None] = lambda: None) -> None:
    """Report once, when `name` of `owner` has ended for the first time and the GPU with it."""
    original = getattr(owner, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        setattr(owner, name, original)
        result = original(*args, **kwargs)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        report(part)
        then()
        return result

    setattr(owner, name, called)


def end() -> NoReturn:
    os._exit(0)


report("torchrun")
import torch  # noqa: E402

report("torch")
from train import loop  # noqa: E402
from train.__main__ import main  # noqa: E402
from train.checkpoint import manager  # noqa: E402
from train.model.language_model import LanguageModel  # noqa: E402
from train.parallel import world  # noqa: E402

report("the trainer")
report_after(world.World, "__init__", "process group, context of the GPU")
report_after(loop, "build_model", "the model")
report_after(manager.CheckpointManager, "__init__", "optimizer, memory for saves")
report_after(manager.CheckpointManager, "resume", "the checkpoint")
report_after(LanguageModel, "forward", "first forward pass")
report_after(torch.Tensor, "backward", "first backward pass")
report_after(loop.Trainer, "_train_step", "the rest of the first step", end)

if __name__ == "__main__":
    main()
