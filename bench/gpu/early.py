"""One rank of `bench.gpu.steps` that begins beside its imports what it needs later.

torchrun ... -m bench.gpu.early --config FILE

`BENCH_EARLY` names it: `context`, the GPU's, is made while torch is imported; `compiler` is imported while the ranks
meet. Not a part of the trainer: imports in two threads can meet in a circle, and one of them then sees half a module.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import suppress
from importlib import import_module


def make_context() -> None:
    """The one that torch will find there. ctypes lets other threads go on meanwhile; without a driver there is none."""
    with suppress(OSError):
        driver = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        driver.cuInit(0)
        driver.cuDeviceGet(ctypes.byref(device), int(os.environ["LOCAL_RANK"]))
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def main() -> None:
    early = os.environ["BENCH_EARLY"].split(",")
    if "context" in early:
        threading.Thread(target=make_context, daemon=True).start()
    from bench.gpu.steps import train_steps

    if "compiler" in early:
        threading.Thread(target=import_module, args=("torch._inductor.compile_fx",), daemon=True).start()
    train_steps()


if __name__ == "__main__":
    main()
