"""What a fork server imports of torch's compiler: all that a rank would, and nothing that touches CUDA."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import importlib, sys
import torch.cuda
from fsdpctl.node.warm.imports import COMPILER, TORCH, TRAINER, find_fork_hazard, import_all

asked = []
for name in ("is_available", "device_count", "get_device_properties", "_lazy_init"):
    setattr(torch.cuda, name, lambda *_, name=name, call=getattr(torch.cuda, name): asked.append(name) or call(*_))
import_all([TORCH, TRAINER])
before, available = list(asked), torch.cuda.is_available
import_all([COMPILER])
assert asked == before, asked
assert torch.cuda.is_available is available
assert find_fork_hazard() is None

from torch._inductor import codecache
codecache.build_code_hash = None
codecache.torch_key()  # hashed already
loaded = set(sys.modules)
importlib.import_module("torch._inductor.compile_fx")
assert set(sys.modules) == loaded, set(sys.modules) - loaded
"""


def test_the_compiler_is_imported_and_hashed_and_cuda_not_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
