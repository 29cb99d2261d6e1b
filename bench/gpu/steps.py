"""One rank of the trainer that ends with its last step: the save and the evaluation at the end of a run would cost more
seconds than the steps that are measured.  torchrun ... -m bench.gpu.steps --config FILE
"""

from __future__ import annotations

from fsdpctl.contract.records import Outcome
from train import loop
from train.__main__ import leave, main


class Steps(loop.Trainer):
    def _finish(self) -> Outcome:
        self.telemetry.recorder.drain()
        return Outcome("finished", self.step, None, "", self._summary())


if __name__ == "__main__":
    loop.Trainer = Steps  # type: ignore[misc]
    leave(main())
