"""One rank of the trainer under deterministic algorithms, which it leaves alone on GPUs because they cost speed.

torchrun ... -m bench.gpu.deterministic --config FILE
"""

from __future__ import annotations

import os

import torch

from train.__main__ import leave, main

if __name__ == "__main__":
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True)
    torch.use_deterministic_algorithms = lambda *_, **__: None
    leave(main())
