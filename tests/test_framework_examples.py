"""The examples of transformers, Accelerate, Lightning and torchtitan: a stop, a kill and two resumes change no loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl import Client, Run
from tests.backends.harness import Run as Watched
from tests.backends.harness import kill
from tests.services import require

EXAMPLES = Path(__file__).parents[1] / "examples"
STEPS = 160
NEEDS = {"hf_trainer": "transformers", "accelerate": "accelerate", "lightning": "lightning", "torchtitan": "torchtitan"}
ENV_STEPS = f'env.STEPS="{STEPS}"'
OTHER_STEPS = {"torchtitan": f"args=[--job.config_file, tiny.toml, --training.steps, '{STEPS}']"}


def submit(example: str, nodes: int = 2) -> Run:
    """Submit with two ranks."""
    overrides = [OTHER_STEPS.get(example, ENV_STEPS), f"procs_per_node={2 // nodes}"]
    return Client().submit("job.yaml", nodes=nodes, overrides=overrides)


def losses(run: Run) -> dict[int, float]:
    """Loss by step; of a step that was done again after a kill, the last."""
    return {line["step"]: line["loss"] for line in run.metrics()}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", NEEDS)
def test_stop_resume_and_a_kill_change_no_loss(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require("torch")
    require(NEEDS[example])
    monkeypatch.chdir(EXAMPLES / example)
    run = submit(example)
    watched = Watched(run.run_id, run.paths, EXAMPLES / example)
    watched.wait_step(10, limit_s=240)
    assert run.stop()
    status = run.wait()
    assert (status.state, status.reason) == ("STOPPED", "stopped (user)"), watched.describe()
    stopped_at = len(losses(run))
    assert 10 <= stopped_at < STEPS

    run.resume()
    watched.wait_attempt_steps(2, 1, limit_s=240)
    assert next(line["step"] for line in run.metrics() if line["attempt"] == 2) == stopped_at + 1
    watched.wait_step(60, limit_s=240)
    kill(watched.find(1, "train.py")[-1:])
    status = run.wait()
    assert (status.state, status.attempt, status.step) == ("SUCCEEDED", 3, STEPS), watched.describe()
    assert next(line["step"] for line in run.metrics() if line["attempt"] == 3) > 50  # not from its start

    undisturbed = submit(example, nodes=1)
    assert undisturbed.wait().state == "SUCCEEDED"
    assert losses(run) == losses(undisturbed)
    assert sorted(losses(run)) == list(range(1, STEPS + 1))
