"""One rank of the trainer that tells when each part of its start has ended, and ends after its first step.

`BENCH_BEGAN` is the time at which torchrun was started. torchrun ... -m bench.gpu.timeline --config FILE
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any, NoReturn

BEGAN = float(os.environ["BENCH_BEGAN"])


def tell(part: str) -> None:
    print("TIMELINE", json.dumps([part, time.time() - BEGAN]), flush=True)


def tell_after(owner: Any, name: str, part: str, then: Callable[[], None] = lambda: None) -> None:
    """Once, when `name` of `owner` has ended for the first time and the GPU with it."""
    original = getattr(owner, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        setattr(owner, name, original)
        result = original(*args, **kwargs)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        tell(part)
        then()
        return result

    setattr(owner, name, called)


def end() -> NoReturn:
    os._exit(0)


tell("torchrun")
import torch  # noqa: E402

tell("torch")
from train import loop  # noqa: E402
from train.__main__ import main  # noqa: E402
from train.checkpoint import manager  # noqa: E402
from train.model import llama  # noqa: E402
from train.parallel import world  # noqa: E402

tell("the trainer")
tell_after(world.World, "__init__", "meeting, context of the GPU")
tell_after(loop, "build_model", "the model")
tell_after(manager.Saves, "__init__", "optimizer, memory for saves")
tell_after(manager.Saves, "resume", "the checkpoint")
tell_after(llama.Decoder, "forward", "first forward pass")
tell_after(torch.Tensor, "backward", "first backward pass")
tell_after(loop.Trainer, "_train_step", "the rest of the first step", end)

if __name__ == "__main__":
    main()
