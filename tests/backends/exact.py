"""A job whose every step can be compared bit for bit, and the parts of a run that a test may kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from fsdpctl.contract.paths import checkpoint_name
from tests.backends.harness import Run, command_line, kill, wait_for

Curve = list[tuple[int, str, str]]
STEPS = 60
SAVE_EVERY = 7
JOB = f"""
name: exact
nodes: 2
grace: 20s
restarts: 1
trainer:
  steps: {STEPS}
  log_every: 10
  model: {{vocab_size: 256, d_model: 64, layers: 2, heads: 2, kv_heads: 1, head_dim: 32, ffn: 128, seq_len: 128,
          tie_embeddings: true, dropout: 0.1}}
  batch: {{sequences: 32, micro_batch: 4}}
  optim: {{lr: 3.0e-3, warmup_steps: 5}}
  checkpoint: {{every_steps: {SAVE_EVERY}, keep: 2}}
  eval: {{sequences: 8}}
"""


class Reference:
    """What every run must be equal to."""

    def __init__(self) -> None:
        self._curve: Curve = []

    def curve(self, launch: Callable[[], Run]) -> Curve:
        """The curve of the undisturbed run, which is launched when it is first asked for."""
        if not self._curve:
            run = launch()
            assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
            run.assert_nothing_left()
            self._curve = run.curve()
        assert [step for step, _, _ in self._curve] == list(range(1, STEPS + 1))
        return self._curve


def kill_in_turn(run: Run, victims: Sequence[Callable[[Run], list[int]]]) -> list[str]:
    """Kill a part in each attempt, once it has saved more than the one before; return their verdicts' reasons."""
    for number, victim in enumerate(victims, start=1):
        _kill_after(run.paths.checkpoints / checkpoint_name(SAVE_EVERY * number), run, victim)
        wait_for(run.paths.attempt(number).verdict.exists, 60, run.describe)
    verdicts = [run.paths.attempt(number).verdict for number in range(1, len(victims) + 1)]
    return [json.loads(path.read_text())["reason"] for path in verdicts]


def _kill_after(save: Path, run: Run, victim: Callable[[Run], list[int]]) -> None:
    kill(wait_for(lambda: save.exists() and victim(run), 180, run.describe))


def rank(run: Run) -> list[int]:
    return [pid for pid in run.find(1, "fsdpctl.node.agent.rank") if "torch.distributed.run" not in command_line(pid)][
        :1
    ]


def torchrun(run: Run) -> list[int]:
    return run.find(1, "torch.distributed.run")


def agent(run: Run) -> list[int]:
    """The agent and its guard share a command line; the agent is the older one."""
    return sorted(run.find(1, "fsdpctl.node.agent"))[:1]


def node(run: Run) -> list[int]:
    return run.pids(1)


def head(run: Run) -> list[int]:
    return run.pids(0)
