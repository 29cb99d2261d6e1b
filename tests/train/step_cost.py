"""Measures the cost of the trainer's step over that of a bare loop of torch, in turns in one process: a factor.

    python -m tests.train.step_cost CONFIG

Processor time, the least of many steps: neither the machine's speed nor its other load decides.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch

from train.__main__ import main
from train.config import load_config
from train.loop import Trainer
from train.model.llama.decoder import Llama


class BareLoop:
    """The same model and batch with no more around it than training needs."""

    def __init__(self, config: Any) -> None:
        self.micro_steps = config.batch.sequences // config.batch.micro_batch
        self.model = Llama(config.model)
        self.model.fill_buffers()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.batch = torch.randint(config.model.vocab_size, (config.batch.micro_batch, config.model.seq_len + 1))

    def step(self) -> None:
        for _ in range(self.micro_steps):
            self.model(self.batch[:, :-1], self.batch[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


def measure(config: Path) -> float:
    torch.set_num_threads(1)
    bare = BareLoop(load_config(config))
    ours: list[float] = []
    theirs: list[float] = []
    ended = 0.0
    train_step = Trainer._train_step

    def in_turns(trainer: Trainer) -> None:
        nonlocal ended
        began = time.process_time()
        if ended:
            ours.append(began - ended)  # all since the last bare step: the trainer's step, and what is between two
        bare.step()
        theirs.append(time.process_time() - began)
        ended = time.process_time()
        train_step(trainer)

    Trainer._train_step = in_turns  # type: ignore[method-assign]
    main(["--config", str(config)])
    return min(ours) / min(theirs)


if __name__ == "__main__":
    print(measure(Path(sys.argv[1])))
