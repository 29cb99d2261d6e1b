"""How often the compiler works in a run: once for training, once for evaluating, and not at all after a resume.

A resume traces both graphs again, one while its checkpoint is read: without the launcher none is saved.

As a program it is one rank of the trainer that prints its counts:  torchrun ... -m bench.gpu.compilations --config FILE
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch._dynamo.utils import counters

from bench.gpu.launched import require
from bench.gpu.process import run, torchrun
from bench.gpu.result import Result
from bench.gpu.workspace import Workspace
from train import loop
from train.__main__ import leave, main
from train.metrics.writer import HeldOutLoss

STEPS, EVERY = 8, 2  # so that two evaluations come between steps, and one at the end


@dataclass(frozen=True)
class Counts:
    """What one rank has compiled."""

    train: int  # graphs traced for training: in steps, and while a checkpoint is read
    evaluate: int  # graphs traced in evaluations
    missed: int  # graphs, forward and backward apart, that were not in the compiler's cache


def compilations(workspace: Workspace, job: str, gpus: int, changed: Mapping[str, Any]) -> Result:
    """Count what a run compiles with a cold cache, and its resume. Raise CommandError if that is too much."""
    gpus = workspace.gpus(gpus)
    config = workspace.config(job, gpus, STEPS, {**changed, "compile": True, "eval.every_steps": EVERY})
    env = {**workspace.env, "TORCHINDUCTOR_CACHE_DIR": str(workspace.root / "compiled")}
    argv = torchrun(gpus, "-m", "bench.gpu.compilations", "--config")
    counts = []
    for name, steps in (("cold", STEPS), ("resumed", 2 * STEPS)):
        path = workspace.write({**config, "steps": steps})
        log = run([*argv, str(path)], workspace.root / f"log-{name}", workspace.limit_s, env)
        counts += [Counts(**json.loads(line)) for line in re.findall(r"COUNTS (\{.*\})", log)[:1]]
    cold, resumed = counts
    found = f"cold: {cold}; resumed: {resumed}"
    traced = {cold.train, cold.evaluate, resumed.train, resumed.evaluate}
    require(len(traced) == 1 and cold.missed > 0 and resumed.missed == 0, found)
    return Result(found=found)


class Counted(loop.Trainer):
    """Counts graphs where they are made."""

    in_evaluations = 0

    def run(self) -> Any:
        outcome = super().run()
        cache = (counters["inductor"]["fxgraph_cache_miss"], counters["aot_autograd"]["autograd_cache_bypass"])
        counts = Counts(counters["stats"]["unique_graphs"] - self.in_evaluations, self.in_evaluations, sum(cache))
        if self.world.is_main:
            print("COUNTS", json.dumps(asdict(counts)), flush=True)
        return outcome

    def _evaluate(self) -> HeldOutLoss | None:
        before = counters["stats"]["unique_graphs"]
        found = super()._evaluate()
        self.in_evaluations += counters["stats"]["unique_graphs"] - before
        return found


if __name__ == "__main__":
    loop.Trainer = Counted  # type: ignore[misc]
    leave(main())
