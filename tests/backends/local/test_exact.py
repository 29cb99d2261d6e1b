"""Whatever is killed, the resumed run equals an undisturbed run bit for bit (CPU, fp32)."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path

import pytest

from fsdpctl.contract.paths import checkpoint_name
from fsdpctl.contract.trainer.hugging_face import hf_config
from fsdpctl.specs.load import parse_job
from tests.backends import exact
from tests.backends.harness import fsdpctl, kill, submit, wait_for
from tests.backends.slow import STEP, Brake

CAUSES = {
    exact.rank: "rank 1 on node 1: ended with signal 9",
    exact.torchrun: "node 1: torchrun ended with signal 9",
    exact.agent: "node 1: the node agent was killed",
    exact.node: "the agent of node 1 vanished without an exit record",
    exact.head: "the agent of node 0 vanished without an exit record",
}
HANGS = "node 1: rank 1 hangs: its process is stopped"


@pytest.fixture
def brake(project: Path, monkeypatch: pytest.MonkeyPatch) -> Brake:
    return Brake(project / "slow", monkeypatch)


@pytest.mark.timeout(600)
def test_loss_curve_is_identical_after_killed_and_hanging_parts(
    project: Path, reference: exact.Reference, brake: Brake
) -> None:
    """Each part of the run once, in one attempt after the other.

    A rank hangs under SIGSTOP: no error, no end, and TERM does not reach it. Its peers would wait for half an hour.
    """
    undisturbed = reference.curve(lambda: submit("exact.yaml", *exact.SMALL, cwd=project))
    hanging = len(CAUSES) + 1
    brake.set((*STEP, 0.2), attempts=hanging)
    run = submit("exact.yaml", *exact.SMALL, "--set", f"restarts={hanging}", cwd=project)
    strikes = exact.strike_in_turn(run, list(CAUSES))
    strikes += exact.strike_in_turn(run, [exact.rank], first=hanging, number=signal.SIGSTOP)
    status = run.wait_ended()
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", hanging + 1), run.describe()
    for cause, strike in zip(CAUSES.values(), strikes[:-1], strict=True):
        assert strike.reason.startswith(cause)
    assert HANGS in strikes[-1].reason  # after the abort's cause, where the first end is one by the abort
    assert run.curve() == undisturbed
    assert "train/loop.py" in run.paths.attempt(hanging).node(0).rank_stacks(0).read_text()
    run.assert_nothing_left()


def test_loss_curve_is_identical_after_resume_at_an_older_step_and_a_stop(project: Path, brake: Brake) -> None:
    """Two nodes of two ranks. Its first attempt, which nothing disturbs, is what the others are compared with."""
    settings = ("--set", "trainer.checkpoint.keep=9", "--set", "trainer.batch.micro_batch=2")
    run = submit("exact.yaml", *settings, cwd=project)
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    undisturbed, saved = run.curve(), [*range(7, exact.STEPS, exact.SAVE_EVERY), exact.STEPS]
    assert [step for step, _, _ in undisturbed] == list(range(1, exact.STEPS + 1))
    resume = partial(fsdpctl, "resume", run.run_id, cwd=project)
    assert f"has finished all {exact.STEPS} steps" in resume(expect=2).stderr
    refused = resume("--step", "8", expect=2).stderr
    assert f"run {run.run_id} has no checkpoint of step 8; it has {', '.join(map(str, saved))}" in refused

    brake.set((*STEP, 0.2), attempts=2)
    resume("--step", "21")
    wait_for(lambda: "step-00000028" in run.checkpoints(), 120, run.describe)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        kill(exact.torchrun(run), number)  # it ignores all of them, else it would end its ranks unsaved, or itself
    wait_for(lambda: "step-00000035" in run.checkpoints(), 120, run.describe)
    fsdpctl("stop", run.run_id, cwd=project)
    status = run.status()
    assert (status["state"], status["attempt"]) == ("STOPPED", 2), run.describe()
    run.assert_nothing_left()
    stopped_at = len(run.curve())
    assert status["step"] == stopped_at < exact.STEPS
    replaced = run.paths.checkpoints / "set-aside-1"
    assert sorted(path.name for path in replaced.iterdir()) == [checkpoint_name(step) for step in saved if step > 21]
    assert "model.layers: 2 -> 3" in resume("--set", "trainer.model.layers=3", expect=2).stderr

    resume("--follow")
    assert run.curve() == undisturbed
    attempts = [1] * 21 + [2] * (stopped_at - 21) + [3] * (exact.STEPS - stopped_at)
    assert [line["attempt"] for line in run.metrics()] == attempts
    rows = json.loads(fsdpctl("checkpoints", "ls", "--json", cwd=project).stdout)
    assert [row["step"] for row in rows] == sorted({*saved, stopped_at}, reverse=True)[:9]
    run.assert_nothing_left()


def test_an_error_of_the_configuration_is_the_reason_and_not_tried_again(project: Path) -> None:
    weights = project / "weights"
    weights.mkdir()
    job = parse_job(exact.JOB, "exact.yaml")
    assert job.trainer is not None
    (weights / "config.json").write_text(json.dumps(hf_config(job.trainer.model)))
    (weights / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")  # whole, with nothing in it
    words = ("--set", f"trainer.init_from={weights}", "--set", "restarts=3")
    run = submit("exact.yaml", "--nodes", "1", *exact.SMALL, *words, cwd=project)
    status = run.wait_ended()
    assert (status["state"], status["cause"], status["attempt"]) == ("FAILED", "configuration", 1), run.describe()
    sentence = f"init_from {weights}: no tensor there is named embed.weight or model.embed_tokens.weight; it has none"
    why = "the cause configuration is not in restart_on, so it does not try again"
    assert status["reason"] == f"rank 0 on node 0: {sentence}; {why}"
    first = fsdpctl("logs", run.run_id, cwd=project).stdout.splitlines()[0]
    assert first == f"rank 0 on node 0 failed first: {sentence}"
