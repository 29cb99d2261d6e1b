"""A job whose every step can be compared bit for bit, and the parts of a run that a test may kill."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fsdpctl.commands.torchrun import TORCHRUN
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
  model: {{vocab_size: 256, d_model: 32, layers: 2, heads: 2, kv_heads: 1, head_dim: 16, ffn: 64, seq_len: 32,
          tie_embeddings: true, dropout: 0.1}}
  batch: {{sequences: 16, micro_batch: 4}}
  optim: {{lr: 3.0e-3, warmup_steps: 5}}
  checkpoint: {{every_steps: {SAVE_EVERY}, keep: 2}}
  eval: {{sequences: 8}}
"""
# One rank a node, each with half of every tensor and two micro-steps: a rank costs seconds to start, and a micro-step
# costs as much whatever its size. More are in local/test_exact.py.
SMALL = ("--procs-per-node", "1", "--set", "trainer.mesh.strategy=FULL_SHARD")


@dataclass(frozen=True)
class Strike:
    """A part of a run that got a signal."""

    time: float  # since the epoch
    reason: str  # the verdict on its attempt


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


def strike_in_turn(
    run: Run, victims: Sequence[Callable[[Run], list[int]]], *, first: int = 1, number: int = signal.SIGKILL
) -> list[Strike]:
    """Signal one part in each attempt from the `first` on, once it has saved."""
    return [_strike(run, victim, attempt, number) for attempt, victim in enumerate(victims, start=first)]


def _strike(run: Run, victim: Callable[[Run], list[int]], attempt: int, number: int) -> Strike:
    before = run.checkpoints()
    pids = wait_for(lambda: run.checkpoints() > before and victim(run), 180, run.describe)
    kill(pids, number)
    struck = time.time()
    verdict = run.paths.attempt(attempt).verdict
    wait_for(verdict.exists, 120, run.describe)
    return Strike(struck, json.loads(verdict.read_text())["reason"])


def rank(run: Run) -> list[int]:
    return [pid for pid in run.find(1, "fsdpctl.node.agent.rank") if TORCHRUN not in command_line(pid)][:1]


def torchrun(run: Run) -> list[int]:
    return run.find(1, TORCHRUN)


def agent(run: Run) -> list[int]:
    """The agent and its guard share a command line; the agent is the older one."""
    return sorted(run.find(1, "fsdpctl.node.agent"))[:1]


def node(run: Run) -> list[int]:
    return run.pids(1)


def head(run: Run) -> list[int]:
    return run.pids(0)
