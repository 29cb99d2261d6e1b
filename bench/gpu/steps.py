"""One rank of the trainer that ends with its last step: the save and the evaluation at the end of a run would cost more
seconds than the steps that are measured.  torchrun ... -m bench.gpu.steps --config FILE

`BENCH_ATTENTION` names the backend of attention that comes first, such as CUDNN_ATTENTION or FLASH_ATTENTION.
"""

from __future__ import annotations

import os
from typing import NoReturn

from torch.nn.attention import SDPBackend, sdpa_kernel

from fsdpctl.contract.records import Outcome
from train import loop
from train.__main__ import leave, main


class Steps(loop.Trainer):
    def _run(self) -> Outcome:
        first = os.environ.get("BENCH_ATTENTION")
        if not first:
            return super()._run()
        order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
        with sdpa_kernel(sorted(order, key=lambda backend: backend.name != first), set_priority=True):
            return super()._run()

    def _finish(self) -> Outcome:
        self.telemetry.recorder.drain()
        return Outcome("finished", self.step, None, "", self._summary())


def train_steps() -> NoReturn:
    loop.Trainer = Steps  # type: ignore[misc]
    leave(main())


if __name__ == "__main__":
    train_steps()
