"""The example that people copy: it stops and resumes with the losses of an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl import Client, Run
from tests.backends.harness import Run as Watched
from tests.interrupted import kill_at_step, stop_at_step
from tests.services import require

EXAMPLE = Path(__file__).parents[1] / "examples" / "minimal"
STEPS = 130


@pytest.fixture(autouse=True)
def _in_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    require("torch")
    monkeypatch.chdir(EXAMPLE)


def submit(steps: int) -> Run:
    return Client().submit("job.yaml", overrides=[f'env.STEPS="{steps}"', "procs_per_node=1"])


def losses(run: Run) -> dict[int, float]:
    """Loss by step; fails where a step is missing or comes twice."""
    steps = [line["step"] for line in run.metrics()]
    assert steps == list(range(1, len(steps) + 1))
    return {line["step"]: line["loss"] for line in run.metrics()}


def watched(run: Run) -> Watched:
    return Watched(run.run_id, run.paths, EXAMPLE)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_stop_resume_and_a_kill_lose_and_repeat_nothing() -> None:
    undisturbed = submit(STEPS)
    run = submit(STEPS)
    assert stop_at_step(watched(run), "train.py", 10, run.stop)
    status = run.wait()
    assert (status.state, status.reason) == ("STOPPED", "stopped (user)")
    stopped_at = len(losses(run))
    assert 10 <= stopped_at < STEPS

    run.resume()
    kill_at_step(watched(run), "train.py", 105)
    status = run.wait()
    assert (status.state, status.attempt, status.step) == ("SUCCEEDED", 3, STEPS)
    assert undisturbed.wait().state == "SUCCEEDED"
    assert losses(run) == losses(undisturbed)
    assert len(losses(run)) == STEPS


def test_it_is_short() -> None:
    assert len((EXAMPLE / "train.py").read_text().splitlines()) <= 40
