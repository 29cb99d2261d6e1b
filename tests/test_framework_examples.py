"""The examples of transformers, Accelerate, Lightning and torchtitan: a stop, a kill and two resumes change no loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl
from tests.interrupted import in_hold, kill_at_step, losses, stop_at_step
from tests.services import require

EXAMPLES = Path(__file__).parents[1] / "examples"
STEPS = 120
NEEDS = {"hf_trainer": "transformers", "accelerate": "accelerate", "lightning": "lightning", "torchtitan": "torchtitan"}
ENV_STEPS = f'env.STEPS="{STEPS}"'
OTHER_STEPS = {"torchtitan": f"args=[--job.config_file, tiny.toml, --training.steps, '{STEPS}']"}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", NEEDS)
def test_stop_resume_and_a_kill_change_no_loss(example: str) -> None:
    require("torch")
    require(NEEDS[example])
    with in_hold(EXAMPLES / example) as hold:
        steps = OTHER_STEPS.get(example, ENV_STEPS)
        run = hold.submit(steps, nodes=2)
        stop_at_step(run, "train.py", 10, lambda: fsdpctl("stop", run.run_id, cwd=run.cwd))
        status = run.status()
        assert (status["state"], status["reason"]) == ("STOPPED", "stopped (user)"), run.describe()
        stopped_at = len(losses(run))
        assert 10 <= stopped_at < STEPS

        hold.resume(run)
        kill_at_step(run, "train.py", max(60, stopped_at + 3))
        assert next(line["step"] for line in run.metrics() if line["attempt"] == 2) == stopped_at + 1
        status = run.wait_ended()
        assert (status["state"], status["attempt"], status["step"]) == ("SUCCEEDED", 3, STEPS), run.describe()
        assert next(line["step"] for line in run.metrics() if line["attempt"] == 3) > 50  # not from its start

        undisturbed = hold.submit(steps, nodes=1)
        assert undisturbed.wait_ended()["state"] == "SUCCEEDED", undisturbed.describe()
    assert losses(run) == losses(undisturbed)
    assert sorted(losses(run)) == list(range(1, STEPS + 1))
