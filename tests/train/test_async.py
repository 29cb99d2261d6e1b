"""Saves beside training hold what training had at their step, one at a time, and fail as loudly as others."""

from __future__ import annotations

import signal
from pathlib import Path
from statistics import median

import pytest
import torch

from fsdpctl.contract import NodeExit
from fsdpctl.contract.formats.manifest import digest_file
from tests.train import faults
from tests.train.ranks import Config, checkpoints, column, metrics, start, train
from train.checkpoint.staging import choose_share


def digests(run: Path) -> dict[str, str]:
    """Return the digests of the tensors of all checkpoints of a run."""
    found = sorted((run / "checkpoints").glob("step-*/*.distcp"))
    return {str(path.relative_to(run)): digest_file(path).sha256 for path in found}


def test_what_training_changes_after_the_save_does_not_reach_the_file(
    tmp_path: Path, straight: Path, config: Config
) -> None:
    ranks = train(tmp_path / "slow", config, procs_per_node=2, fault=faults.slow_writes, fault_args=(1.0,))
    assert "the save of step 8 waited" in ranks.log()  # so steps 5 to 8 were over before step 4 was written
    assert digests(tmp_path / "slow") == digests(straight)


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_both_modes_give_the_same_numbers_and_files_and_wait_for_no_late_numbers(
    tmp_path: Path, straight: Path, config: Config, mode: str
) -> None:
    """A save needs the numbers of its steps, which are known two steps later, and is due at every step."""
    config["checkpoint"] = {"every_steps": 1, "keep": 20, "mode": mode}
    train(tmp_path / "run", config, procs_per_node=2, fault=faults.numbers_come_late)
    assert column(tmp_path / "run", "loss_hex") == column(straight, "loss_hex")
    assert len(checkpoints(tmp_path / "run")) == config["steps"]
    assert digests(straight).items() <= digests(tmp_path / "run").items()


def test_a_save_in_flight_survives_steps_that_end_the_run(tmp_path: Path, config: Config) -> None:
    config.update(checkpoint={"every_steps": 9}, max_skipped_steps=3)
    fault = faults.loss_is_nan_and_known_late
    ranks = start(tmp_path, config, procs_per_node=2, fault=fault, fault_args=(1, [6, 7, 8, 9, 10]))
    assert ranks.wait() == [1, 1], ranks.log()
    assert "3 steps in a row without a finite loss" in ranks.log()
    assert checkpoints(tmp_path) == ["step-00000009"]  # begun before it was known that step 8 was the third
    assert [record["step"] for record in metrics(tmp_path)] == list(range(1, 11))


def test_killed_while_a_save_is_in_flight(tmp_path: Path, straight: Path, config: Config) -> None:
    ranks = start(tmp_path, config, procs_per_node=2, fault=faults.slow_writes, fault_args=(60.0, 8))
    ranks.wait_for_step(11)
    ranks.kill()
    half = [name for name in checkpoints(tmp_path) if name != "step-00000004"]
    assert len(half) == 1 and half[0].startswith("step-00000008.tmp-")
    ranks = train(tmp_path, config, procs_per_node=2)
    assert "resuming at step 4 from step-00000004" in ranks.log()
    assert checkpoints(tmp_path) == ["step-00000004", "step-00000008", "step-00000012"]  # 4: resumed from
    assert column(tmp_path, "loss_hex") == column(straight, "loss_hex")


def test_a_stop_waits_for_the_save_in_flight_and_then_saves(tmp_path: Path, config: Config) -> None:
    config["steps"] = 10_000
    ranks = start(tmp_path, config, fault=faults.slow_writes, fault_args=(1.0, 4))
    ranks.wait_for_step(5)
    ranks.signal(0, signal.SIGTERM)
    assert ranks.wait() == [NodeExit.STOPPED], ranks.log()
    step = metrics(tmp_path)[-1]["step"]
    assert checkpoints(tmp_path) == sorted({"step-00000004", f"step-{step:08d}"})


def test_a_save_may_take_longer_than_the_collectives_of_training(tmp_path: Path, config: Config) -> None:
    config.update(steps=5, checkpoint={"every_steps": 4, "mode": "sync"})
    train(tmp_path, config, procs_per_node=2, fault=faults.slow_writes_on_rank_0, fault_args=(8.0, 4, 6.0))
    assert checkpoints(tmp_path) == ["step-00000004", "step-00000005"]


def test_a_bug_in_one_rank_s_thread_ends_all_ranks(tmp_path: Path, config: Config) -> None:
    ranks = start(tmp_path, config, procs_per_node=2, fault=faults.bug_in_the_saving_thread)
    assert ranks.wait(timeout=60) == [1, 1]
    assert "ZeroDivisionError: a bug" in ranks.log()
    assert not (tmp_path / "checkpoints/step-00000004").exists()


def test_memory_stays_flat_over_many_saves(tmp_path: Path, config: Config) -> None:
    config["model"].update(vocab_size=8192, d_model=192, tie_embeddings=True)
    config.update(steps=30, checkpoint={"every_steps": 1, "keep": 1}, batch={"sequences": 1, "micro_batch": 1})
    noted = tmp_path / "memory"
    train(tmp_path / "run", config, fault=faults.record_memory, fault_args=(str(noted),))
    resident = [int(line) for line in noted.read_text().splitlines()]
    one_save = sum(path.stat().st_size for path in (tmp_path / "run/checkpoints").rglob("*.distcp"))
    assert len(resident) == 30
    assert one_save > 18e6
    assert median(resident[-10:]) - median(resident[5:15]) < one_save / 10


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_ranks_that_hold_the_same_share_the_writing(world: int) -> None:
    tensors = {f"t{i}": torch.empty(size) for i, size in enumerate([100, 1, 90, 30, 5, 100, 70, 1, 1, 3, 50, 40])}
    shares = [choose_share(tensors, rank, range(world)) for rank in range(world)]
    assert sorted(name for share in shares for name in share) == sorted(tensors)
    loads = [sum(tensor.numel() for tensor in share.values()) for share in shares]
    assert max(loads) - min(loads) <= 100
