"""Whatever dies, the run that comes back is the run that was never disturbed, bit for bit (CPU, fp32)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.launchers.harness import Run, command_line, fsdpctl, kill, submit
from tests.services import require

STEPS = 60
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
  checkpoint: {{every_steps: 7, keep: 2}}
  eval: {{sequences: 8}}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prepared data, shared by the runs of this module."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def project(tmp_path: Path, home: Path, data: Path) -> Path:
    require("torch")
    (home / "fsdpctl").mkdir()
    (home / "fsdpctl" / "data").symlink_to(data)
    (tmp_path / "exact.yaml").write_text(JOB)
    return tmp_path


@pytest.fixture(scope="module")
def reference() -> dict[str, list[tuple[int, str, str]]]:
    """The curve of the undisturbed run, computed once."""
    return {}


@pytest.fixture
def undisturbed(project: Path, reference: dict[str, list[tuple[int, str, str]]]) -> list[tuple[int, str, str]]:
    if not reference:
        run = submit("exact.yaml", cwd=project)
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        run.assert_nothing_left()
        reference["curve"] = run.curve()
    assert [step for step, _, _ in reference["curve"]] == list(range(1, STEPS + 1))
    return reference["curve"]


def _rank(run: Run) -> list[int]:
    return [pid for pid in run.find(1, "fsdpctl.node.rank") if "torch.distributed.run" not in command_line(pid)][:1]


def _torchrun(run: Run) -> list[int]:
    return run.find(1, "torch.distributed.run")


def _agent(run: Run) -> list[int]:
    """The agent and its guard share a command line; the agent is the older one."""
    return sorted(run.find(1, "fsdpctl.node.agent"))[:1]


def _node(run: Run) -> list[int]:
    return run.pids(1)


def _head(run: Run) -> list[int]:
    return run.pids(0)


@pytest.mark.parametrize("victim", [_rank, _torchrun, _agent, _node, _head])
def test_a_killed_part_comes_back_exactly(
    victim: Callable[[Run], list[int]], project: Path, undisturbed: list[tuple[int, str, str]]
) -> None:
    run = submit("exact.yaml", cwd=project)
    run.wait_step(9)
    kill(victim(run))
    status = run.wait_ended()
    assert status["state"] == "SUCCEEDED", run.describe()
    assert status["attempt"] == 2
    assert run.curve() == undisturbed
    run.assert_nothing_left()


def test_stop_and_resume_lose_and_repeat_nothing(project: Path, undisturbed: list[tuple[int, str, str]]) -> None:
    run = submit("exact.yaml", cwd=project)
    run.wait_step(10)
    fsdpctl("stop", run.run_id, cwd=project)
    status = run.status()
    assert status["state"] == "STOPPED", run.describe()
    run.assert_nothing_left()
    stopped_at = len(run.curve())
    assert status["step"] == stopped_at < STEPS
    fsdpctl("resume", run.run_id, "--follow", cwd=project)
    assert run.curve() == undisturbed
    run.assert_nothing_left()
