"""A run that was stopped or killed ends in the same numbers, to the bit, as one that was left alone."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract import NodeExit
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.records import Outcome
from tests.train import faults
from tests.train.ranks import Config, checkpoints, column, metrics, start, train
from train.metrics.jsonl import read_metrics


def assert_same_run(run: Path, straight: Path) -> None:
    assert column(run, "step") == list(range(1, 13))
    for name in ("loss_hex", "samples", "lr", "grad_norm", "tokens"):
        assert column(run, name) == column(straight, name), name


def test_stopped_and_killed_runs_equal_the_straight_run(tmp_path: Path, straight: Path, config: Config) -> None:
    run = tmp_path / "run"
    stop, outcome = tmp_path / "stop", tmp_path / "outcome.json"
    env = {"FSDPCTL_STOP_FILE": str(stop), "FSDPCTL_OUTCOME_FILE": str(outcome)}
    slow: dict[str, Any] = {"procs_per_node": 2, "fault": faults.slow_steps, "fault_args": (0.1,)}

    evaluating = {**config, "eval": {"sequences": 9, "every_steps": 1}}  # the save then follows an evaluation
    ranks = start(run, evaluating, env=env, **slow)
    ranks.wait_for_step(2)
    stop.write_text("user please\n")
    assert ranks.wait() == [0, 0], ranks.log()
    stopped = read_json(Outcome, outcome)
    assert (stopped.status, stopped.reason) == ("stopped", "user")
    assert stopped.step == metrics(run)[-1]["step"] < 12
    assert stopped.checkpoint == f"step-{stopped.step:08d}"
    stop.unlink()

    for _ in range(2):
        ranks = start(run, {**config, "checkpoint": {"every_steps": 1, "keep": 2}}, env=env, **slow)
        ranks.wait_for_step(metrics(run)[-1]["step"] + 1)
        ranks.kill()

    train(run, config, procs_per_node=2, env={**env, "FSDPCTL_ATTEMPT": "3"})
    assert_same_run(run, straight)
    attempts = column(run, "attempt")
    assert attempts == sorted(attempts) and {*attempts} == {0, 3}
    finished = read_json(Outcome, outcome)
    assert (finished.status, finished.step, finished.checkpoint) == ("finished", 12, "step-00000012")
    losses = column(straight, "loss")
    assert (finished.summary["first_loss"], finished.summary["last_loss"]) == (losses[0], losses[-1])
    assert finished.summary["held_out_loss"] < finished.summary["unigram_entropy"] * 1.5


@pytest.mark.parametrize(("strategy", "procs"), [("DDP", 2), ("FULL_SHARD", 2), ("NO_SHARD", 2), ("NO_SHARD", 1)])
def test_what_is_read_amid_the_passes_before_the_first_step_is_what_was_saved(
    strategy: str, procs: int, tmp_path: Path, config: Config
) -> None:
    config["mesh"] = {"strategy": strategy}
    straight, run = tmp_path / "straight", tmp_path / "run"
    train(straight, config, procs_per_node=procs)
    shutil.copytree(straight / "checkpoints/step-00000008", run / "checkpoints/step-00000008")
    train(run, config, procs_per_node=procs, fault=faults.read_between_passes)
    for name in ("loss_hex", "grad_norm"):
        assert column(run, name) == column(straight, name)[8:], name


def test_a_stop_before_the_first_step_is_a_checkpoint_of_step_0(tmp_path: Path, straight: Path, config: Config) -> None:
    signalled = {"fault": faults.signalled, "fault_args": (1, "start", signal.SIGUSR1)}
    ranks = start(tmp_path / "run", config, procs_per_node=2, **signalled)
    assert ranks.wait() == [NodeExit.STOPPED] * 2, ranks.log()
    assert checkpoints(tmp_path / "run") == ["step-00000000"]
    ranks = train(tmp_path / "run", config, procs_per_node=2)
    assert "resuming at step 0 from step-00000000" in ranks.log()
    assert_same_run(tmp_path / "run", straight)


@pytest.mark.parametrize(
    ("moment", "number", "step"),
    [("backward", signal.SIGUSR2, 3), ("save", signal.SIGTERM, 4)],
)
def test_a_signal_to_one_rank_stops_all_after_the_same_step(
    moment: str, number: int, step: int, tmp_path: Path, config: Config
) -> None:
    """Two of them, in the middle of something."""
    config["mesh"] = {"strategy": "NO_SHARD"}
    ranks = start(tmp_path, config, procs_per_node=2, fault=faults.signalled, fault_args=(1, moment, number))
    assert ranks.wait() == [NodeExit.STOPPED] * 2, ranks.log()
    assert [record["step"] for record in metrics(tmp_path)] == list(range(1, step + 1))
    assert checkpoints(tmp_path)[-1] == f"step-{step:08d}"


@pytest.mark.parametrize("step", [1, 12])
def test_an_evaluation_is_cut_short_by_a_stop(step: int, tmp_path: Path, straight: Path, config: Config) -> None:
    config["eval"] = {"sequences": 1000, "every_steps": 1 if step == 1 else 100}
    ranks = start(tmp_path / "run", config, procs_per_node=2, fault=faults.slow_evaluation, fault_args=(2.0,))
    ranks.wait_for_step(step)
    ranks.signal(1, signal.SIGTERM)
    assert ranks.wait(timeout=45) == [NodeExit.STOPPED] * 2, ranks.log()  # the whole evaluation takes 64 s
    assert checkpoints(tmp_path / "run")[-1] == f"step-{step:08d}"
    config["eval"]["sequences"] = 9
    ranks = train(tmp_path / "run", config, procs_per_node=2)
    assert ranks.log().count("held-out loss") == {1: 12, 12: 1}[step]  # with the one that was cut short
    evaluations = [record["step"] for record in read_metrics(tmp_path / "run/evaluations.jsonl")]
    assert evaluations == {1: list(range(1, 13)), 12: [12]}[step]
    assert_same_run(tmp_path / "run", straight)


@pytest.mark.parametrize("strategy", ["DDP", "FULL_SHARD"])
def test_an_evaluation_that_is_missing_at_a_resume_is_made_up(strategy: str, tmp_path: Path, config: Config) -> None:
    """As after a kill between the save of step 8 and its evaluation."""
    config.update(mesh={"strategy": strategy}, eval={"sequences": 9, "every_steps": 4})
    straight, run = tmp_path / "straight", tmp_path / "run"
    train(straight, config, procs_per_node=2)
    shutil.copytree(straight / "checkpoints/step-00000008", run / "checkpoints/step-00000008")
    train(run, config, procs_per_node=2)
    for name in ("loss_hex", "grad_norm"):
        assert column(run, name) == column(straight, name)[8:], name
    whole, made_up = ([*read_metrics(path / "evaluations.jsonl")] for path in (straight, run))
    results = [(record["step"], record["held_out_loss"]) for record in whole]
    assert [(record["step"], record["held_out_loss"]) for record in made_up] == results[1:]
    ranks = train(run, {**config, "steps": 13}, procs_per_node=2)  # whose evaluation after step 12 is there
    assert ranks.log().count("held-out loss") == len(made_up) + 1


def test_resuming_a_finished_run_evaluates_and_ends(tmp_path: Path, straight: Path, config: Config) -> None:
    before = metrics(straight)
    outcome = tmp_path / "outcome.json"
    ranks = train(straight, config, env={"FSDPCTL_OUTCOME_FILE": str(outcome)})  # another world, for good measure
    assert "all 12 steps are done already" in ranks.log()
    first, again = map(float, re.findall(r"held-out loss (\S+)", ranks.log()))
    assert again == pytest.approx(first, abs=1.5e-4), "no dropout, whose masks are per rank; four digits are logged"
    assert metrics(straight) == before
    finished = read_json(Outcome, outcome)
    assert finished.status == "finished"
    assert finished.summary["held_out_loss"] > 0


def test_a_changed_model_or_data_is_refused_in_one_line(
    tmp_path: Path, straight: Path, data_dir: Path, config: Config
) -> None:
    other = Path(shutil.copytree(data_dir, tmp_path / "other"))
    (other / "index.json").write_text((data_dir / "index.json").read_text().replace("three-words-1", "three-words-2"))
    refusals = [
        ({"model": {**config["model"], "ffn": 96}}, "train: model.ffn: 64 -> 96 since the checkpoint"),
        ({"data": {"source": str(other)}}, "train: the data has fingerprint three-words-2, but step-00000012 was"),
    ]
    for change, refusal in refusals:
        ranks = start(straight, {**config, **change})
        assert ranks.wait() == [2]
        assert ranks.log().splitlines()[-1].startswith(refusal)
        assert "Traceback" not in ranks.log()


def test_a_killed_rank_takes_the_others_with_it(tmp_path: Path, config: Config) -> None:
    env = {"FSDPCTL_NODE_DIR": str(tmp_path), "FSDPCTL_OUTCOME_FILE": str(tmp_path / "outcome.json")}
    ranks = start(tmp_path, config, procs_per_node=2, env=env, fault=faults.slow_steps, fault_args=(0.1,))
    ranks.wait_for_step(1)
    ranks.signal(1, signal.SIGKILL)
    assert ranks.wait(timeout=20) == [1, -signal.SIGKILL], ranks.log()
    outcome = read_json(Outcome, tmp_path / "outcome.json")
    assert (outcome.status, outcome.step) == ("failed", metrics(tmp_path)[-1]["step"])
    assert (tmp_path / "error-0.json").exists()
