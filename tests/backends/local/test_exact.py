"""Whatever is killed, the resumed run equals an undisturbed run bit for bit (CPU, fp32)."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from fsdpctl.contract.trainer.hugging_face import hf_config
from fsdpctl.specs.load import parse_job
from tests.backends import exact
from tests.backends.harness import fsdpctl, kill, read_variable, submit, wait_for
from tests.backends.slow import STEP, Brake


@pytest.fixture
def undisturbed(project: Path, reference: exact.Reference) -> exact.Curve:
    return reference.curve(lambda: submit("exact.yaml", cwd=project))


CAUSES = {
    exact.rank: r"node 1: rank [23] ended with signal 9",
    exact.torchrun: "node 1: torchrun ended with signal 9",
    exact.agent: "node 1: the node agent was killed",
    exact.node: "the agent of node 1 vanished without an exit record",
    exact.head: "the agent of node 0 vanished without an exit record",
}


@pytest.mark.timeout(600)
def test_loss_curve_is_identical_after_killed_parts(
    project: Path, undisturbed: exact.Curve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part of the run once, in one attempt after the other."""
    Brake(project / "slow", monkeypatch).set((*STEP, 0.2), attempts=len(CAUSES))
    run = submit("exact.yaml", "--set", f"restarts={len(CAUSES)}", cwd=project)
    reasons = exact.kill_in_turn(run, list(CAUSES))
    status = run.wait_ended()
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", len(CAUSES) + 1), run.describe()
    for cause, reason in zip(CAUSES.values(), reasons, strict=True):
        assert re.match(cause, reason), reason
    assert run.curve() == undisturbed
    run.assert_nothing_left()


def test_an_expected_error_of_a_rank_is_the_reason(project: Path) -> None:
    weights = project / "weights"
    weights.mkdir()
    job = parse_job(exact.JOB, "exact.yaml")
    assert job.trainer is not None
    (weights / "config.json").write_text(json.dumps(hf_config(job.trainer.model)))
    (weights / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")  # whole, with nothing in it
    run = submit("exact.yaml", "--set", f"trainer.init_from={weights}", "--set", "restarts=0", cwd=project)
    status = run.wait_ended()
    assert status["state"] == "FAILED", run.describe()
    sentence = f"failed: init_from {weights}: no file has model.embed_tokens.weight"
    assert re.fullmatch(rf"node [01]: rank [0-3] {re.escape(sentence)}", status["reason"])
    first = fsdpctl("logs", run.run_id, cwd=project).stdout.splitlines()[0]
    assert first.endswith(sentence.replace("failed", "failed first")), first


def test_stop_and_resume_neither_lose_nor_repeat_a_step(project: Path, undisturbed: exact.Curve) -> None:
    run = submit("exact.yaml", cwd=project)
    run.wait_step(5)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        kill(exact.torchrun(run), number)  # it hears none of them, else it would end its ranks unsaved, or itself
    run.wait_step(10)
    fsdpctl("stop", run.run_id, cwd=project)
    status = run.status()
    assert (status["state"], status["attempt"]) == ("STOPPED", 1), run.describe()
    run.assert_nothing_left()
    stopped_at = len(run.curve())
    assert status["step"] == stopped_at < exact.STEPS
    other = fsdpctl("resume", run.run_id, "--set", "trainer.model.layers=3", cwd=project, expect=2)
    assert "model.layers: 2 -> 3" in other.stderr
    fsdpctl("resume", run.run_id, "--follow", cwd=project)
    assert run.curve() == undisturbed
    done = fsdpctl("resume", run.run_id, cwd=project, expect=2)
    assert f"has finished all {exact.STEPS} steps" in done.stderr
    run.assert_nothing_left()


def test_a_hanging_rank_is_detected_named_and_restarted(project: Path, undisturbed: exact.Curve) -> None:
    """SIGSTOP: no error, no end, and TERM does not reach it. Its peers wait for half an hour by themselves."""
    run = submit("exact.yaml", cwd=project)
    run.wait_step(9)
    (victim,) = exact.rank(run)
    rank = read_variable(victim, "RANK")
    kill([victim], signal.SIGSTOP)
    wait_for(lambda: len(run.paths.attempts()) == 2, 180, lambda: f"the second attempt; {run.describe()}")
    verdict = json.loads(run.paths.attempt(1).verdict.read_text())
    assert f"node 1: rank {rank} hangs: its process is stopped" in verdict["reason"]
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    assert run.curve() == undisturbed
    stacks = run.paths.attempt(1).node(0).rank_stacks(0).read_text()
    assert "train/loop.py" in stacks
    run.assert_nothing_left()
