"""One rank of the trainer that ends with its last step: the save and the evaluation at the end of a run would cost more
seconds than the steps that are measured, and so would first values drawn on the CPU.

    torchrun ... -m bench.gpu.steps --config FILE
"""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from fsdpctl.contract.records import Outcome
from train import loop
from train.__main__ import leave, main
from train.model.llama import decoder


class Steps(loop.Trainer):
    def _finish(self) -> Outcome:
        self.telemetry.recorder.drain()
        return Outcome("finished", self.step, None, "", self._summary())


def draw_on_gpu(name: str, shape: torch.Size, std: float, seed: int) -> Tensor:
    """Draw other values of the same distribution: the billions of llm7b take minutes on the CPU."""
    generator = torch.Generator("cuda").manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
    return torch.randn(shape, device="cuda", generator=generator) * std


if __name__ == "__main__":
    if torch.cuda.is_available():
        decoder.draw_normal = draw_on_gpu
    loop.Trainer = Steps  # type: ignore[misc]
    leave(main())
