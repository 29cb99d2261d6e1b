"""What is slow, but no hang, is neither taken for a hang nor for a lost node."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.backends.harness import Run, fsdpctl, submit
from tests.backends.in_ranks import IN_RANKS
from tests.services import require

STEPS = 400
JOB = f"""
name: patient
nodes: 2
procs_per_node: 1
trainer:
  steps: {STEPS}
  log_every: 100
  model: {{vocab_size: 256, d_model: 16, layers: 1, heads: 1, kv_heads: 1, head_dim: 16, ffn: 16, seq_len: 16}}
  mesh: {{strategy: NO_SHARD}}
  batch: {{sequences: 2, micro_batch: 1}}
  optim: {{lr: 1.0e-3}}
  checkpoint: {{every_steps: 100, keep: 1, mode: sync}}
  eval: {{sequences: 2, every_steps: 200}}
"""
# Longer than any step may take: a step has max(3 * p99, 10 s).
SLOW_S = 10.5
PAUSE_S = 20
HOST_PAUSE_S = 12
"""Less than `peer_timeout`, more than a step may take."""
OWN_LIMIT_S = 14
"""Longer than a step may take, and than that takes to be confirmed."""
SLOW_ONCE = f"""
def slow(owner, name, work=lambda: time.sleep({SLOW_S}), calls=1):
    original, left = getattr(owner, name), [calls]
    def once(*words, **more):
        left[0] -= 1
        if not left[0]:
            work()
        return original(*words, **more)
    setattr(owner, name, once)
def compile_slowly():
    import torch
    torch.compile(lambda x: x + 1, backend=lambda graph, _: (time.sleep({OWN_LIMIT_S}), graph)[1])(torch.ones(1))
def patch():
    while not hasattr(sys.modules.get("train.loop"), "Trainer"):
        time.sleep(0.01)
    slow(sys.modules["train.loop"], "held_out_loss")
    slow(sys.modules["train.checkpoint.async_saver"].AsyncSaver, "drain")
    trainer = sys.modules["train.loop"].Trainer
    step = trainer._train_step
    trainer._train_step = lambda *words: (time.sleep(0.03), step(*words))[1]
    if os.environ["RANK"] == "1":
        slow(sys.modules["train.data.tokens"].Tokens, "sequences", lambda: time.sleep({OWN_LIMIT_S}), 50)
        slow(trainer, "_train_step", compile_slowly, 70)
in_ranks(patch)
"""


def submit_patient(directory: Path, monkeypatch: pytest.MonkeyPatch, in_each_rank: str) -> Run:
    """Submit the job, with what makes its ranks slow."""
    require("torch")
    (directory / "patient.yaml").write_text(JOB)
    (directory / "slow").mkdir()
    (directory / "slow" / "sitecustomize.py").write_text(IN_RANKS + in_each_rank)
    monkeypatch.setenv("PYTHONPATH", str(directory / "slow"))
    return submit("patient.yaml", cwd=directory)


@pytest.mark.timeout(600)
def test_what_is_slow_once_and_a_paused_machine_and_a_paused_host_raise_no_alarm(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submit_patient(tmp_path, monkeypatch, SLOW_ONCE)
    run.wait_step(220)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in run.pids():
            os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(PAUSE_S)
    run.wait_step(300)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in run.pids(node_rank=1):
            os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(HOST_PAUSE_S)
    status = run.wait_ended()
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", 1), run.describe()
    times = [line["time"] for line in run.metrics()]
    pauses = sorted(after - before for before, after in pairwise(times))
    assert len(times) == STEPS and pauses[-1] > PAUSE_S and min(pauses[-6:]) > SLOW_S, pauses[-7:]
    assert not list(run.paths.root.rglob("hang.json"))


READ_SLOWLY = """
def patch():
    if os.environ["FSDPCTL_ATTEMPT"] == "1":
        return
    while not hasattr(sys.modules.get("train.checkpoint.dcp_io"), "_TensorReader"):
        time.sleep(0.001)
    reader = sys.modules["train.checkpoint.dcp_io"]._TensorReader
    slice_file = reader._slice_file
    reader._slice_file = lambda *words: (time.sleep(1.5), slice_file(*words))[1]
in_ranks(patch)
"""
"""Each of about 30 tensors takes 1.5 s: all of them longer than ranks may wait for each other."""


@pytest.mark.timeout(600)
def test_a_checkpoint_that_is_read_for_long_is_no_hang(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = submit_patient(tmp_path, monkeypatch, READ_SLOWLY)
    run.wait_step(20)
    fsdpctl("stop", run.run_id, cwd=tmp_path)
    fsdpctl("resume", run.run_id, cwd=tmp_path)
    status = run.wait_ended()
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", 2), run.describe()
    times = [line["time"] for line in run.metrics()]
    assert len(times) == STEPS and max(after - before for before, after in pairwise(times)) > 35
    assert not list(run.paths.root.rglob("hang.json"))
