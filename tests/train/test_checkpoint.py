"""A checkpoint is whole or it is not there, whatever happens while it is written or afterwards."""

from __future__ import annotations

import errno
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract.formats import manifest
from fsdpctl.contract.paths import RunPaths
from tests.train import disk_faults, faults
from tests.train.ranks import Config, checkpoints, column, start, train
from tests.train.single_rank import SingleRank
from train.checkpoint.verified_checkpoints import VerifiedCheckpoints


def flip_a_bit(checkpoint: Path) -> None:
    path = checkpoint / "__1_0.distcp"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut_short(checkpoint: Path) -> None:
    path = checkpoint / "__0_0.distcp"
    path.write_bytes(path.read_bytes()[:-1])


def lose_a_file(checkpoint: Path) -> None:
    (checkpoint / "__1_0.distcp").unlink()


def lose_the_manifest(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").unlink()


def halve_the_manifest(checkpoint: Path) -> None:
    path = checkpoint / "manifest.json"
    path.write_text(path.read_text()[:200])


def edit_the_manifest(checkpoint: Path) -> None:
    path = checkpoint / "manifest.json"
    path.write_text(path.read_text().replace('"world": 2', '"world": 4'))


def drop_a_file_from_the_manifest(checkpoint: Path) -> None:
    path = checkpoint / "manifest.json"
    document = json.loads(path.read_text())
    del document["manifest"]["files"][".metadata"]
    path.write_text(json.dumps(document))


def manifest_of_another_kind(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").write_text("[1, 2]")


def shard_of_another_step(checkpoint: Path) -> None:
    shutil.copy(checkpoint.with_name("step-00000008") / "__0_0.distcp", checkpoint)


def all_of_another_step(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    shutil.copytree(checkpoint.with_name("step-00000008"), checkpoint)


def swap_two_files(checkpoint: Path) -> None:
    one, other = checkpoint / "__0_0.distcp", checkpoint / "__1_0.distcp"
    one.rename(checkpoint / "temporary")
    other.rename(one)
    (checkpoint / "temporary").rename(other)


def table_of_contents_of_another_step(checkpoint: Path) -> None:
    path = checkpoint / ".metadata"
    path.write_bytes(path.read_bytes()[:-1] + b"!")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (flip_a_bit, "__1_0.distcp does not have the digest"),
        (cut_short, "in the manifest"),
        (lose_a_file, "__1_0.distcp: No such file"),
        (lose_the_manifest, "it has no manifest"),
        (halve_the_manifest, "unreadable manifest"),
        (edit_the_manifest, "the manifest was changed"),
        (drop_a_file_from_the_manifest, "the manifest was changed"),
        (manifest_of_another_kind, "unreadable manifest"),
        (shard_of_another_step, "__0_0.distcp does not have the digest"),
        (all_of_another_step, "the manifest is of step 8"),
        (swap_two_files, "_0.distcp"),
        (table_of_contents_of_another_step, ".metadata does not have the digest"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_by_name(
    straight: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], reason: str
) -> None:
    found: Any = VerifiedCheckpoints(RunPaths(straight), SingleRank(), 0, 2).find_newest()
    assert found.step == 12
    damage(straight / "checkpoints/step-00000012")
    found = VerifiedCheckpoints(RunPaths(straight), SingleRank(), 0, 2).find_newest()
    assert found.step == 8
    assert "checkpoint step-00000012 is skipped" in caplog.text
    assert reason in caplog.text


def test_training_continues_from_the_one_before_a_damaged_one(straight: Path, config: Config) -> None:
    before = column(straight, "loss_hex")
    flip_a_bit(straight / "checkpoints/step-00000012")
    ranks = train(straight, config, procs_per_node=2)
    assert "resuming at step 8 from step-00000008" in ranks.log()
    assert column(straight, "loss_hex") == before
    assert checkpoints(straight) == ["step-00000008", "step-00000012"]
    found: Any = VerifiedCheckpoints(RunPaths(straight), SingleRank(), 0, 2).find_newest()
    assert found.step == 12
    assert found.files.keys() == {".metadata", "__0_0.distcp", "__1_0.distcp"}


def test_where_none_is_whole_training_does_not_start_again(straight: Path, config: Config) -> None:
    before, names = (straight / "metrics.jsonl").read_bytes(), checkpoints(straight)
    for name in names:
        flip_a_bit(straight / "checkpoints" / name)
    ranks = start(straight, config, procs_per_node=2)
    assert ranks.wait() == [2, 2]
    message = "train: no checkpoint of this run is whole, neither step-00000008 nor step-00000012: fsdpctl checkpoints"
    assert ranks.log().splitlines()[-1].startswith(message)
    assert checkpoints(straight) == names
    assert (straight / "metrics.jsonl").read_bytes() == before


def test_killed_at_the_end_of_a_save(tmp_path: Path, config: Config) -> None:
    ranks = start(tmp_path, config, fault=faults.die_before_rename, fault_args=(8,))
    assert ranks.wait() == [-signal.SIGKILL]
    assert len(checkpoints(tmp_path)) == 2  # step 4, and the half one, which is never loaded
    ranks = train(tmp_path, config)
    assert "resuming at step 4 from step-00000004" in ranks.log()
    assert column(tmp_path, "step") == list(range(1, 13))
    assert checkpoints(tmp_path) == ["step-00000004", "step-00000008", "step-00000012"]  # 4: resumed from


@pytest.mark.parametrize(("mode", "last_step"), [("sync", 6), ("async", 7)])
def test_a_full_disk_costs_checkpoints_and_the_run_only_after_three_in_a_row(
    tmp_path: Path, config: Config, mode: str, last_step: int
) -> None:
    config["checkpoint"].update(every_steps=1, mode=mode)
    ranks = start(tmp_path, config, procs_per_node=2, fault=faults.disk_full, fault_args=([2, 4, 5, 6],))
    assert ranks.wait() == [1, 1]
    for step in (2, 4, 5, 6):
        assert f"CHECKPOINT OF STEP {step} NOT SAVED: rank 1: OSError: [Errno 28] No space left" in ranks.log()
    assert ranks.log().splitlines()[-1] == "train: 3 checkpoints in a row could not be saved"
    assert column(tmp_path, "step") == list(range(1, last_step + 1))  # async, it is handled at the next step boundary
    assert checkpoints(tmp_path) == ["step-00000001", "step-00000003"]


def test_a_stale_attempt_may_not_save(tmp_path: Path, config: Config) -> None:
    (tmp_path / "attempts/1").mkdir(parents=True)
    fault_args = (8, str(tmp_path / "attempts"))
    env = {"FSDPCTL_ATTEMPT": "1"}
    ranks = start(tmp_path, config, env=env, fault=faults.newer_attempt_appears, fault_args=fault_args)
    assert ranks.wait() == [1]
    assert ranks.log().splitlines()[-1] == "train: attempt 1 may not save any more: attempt 2 has started"
    assert checkpoints(tmp_path) == ["step-00000004"]


@pytest.mark.parametrize(
    ("number", "at", "message"),
    [
        (errno.ESTALE, "step-00000012", "train: checkpoint step-00000012 cannot be read now: "),
        (errno.EIO, "", "train: no checkpoint of this run is whole, neither step-00000008 nor step-00000012"),
    ],
)
def test_an_error_of_the_disk_on_one_rank_ends_the_attempt_and_not_the_run(
    straight: Path, config: Config, number: int, at: str, message: str
) -> None:
    """Another attempt may read the files: the run goes back to an older checkpoint only where that is intact."""
    names = checkpoints(straight)
    faulty = (1, number, str(straight / "checkpoints" / at))
    ranks = start(straight, config, procs_per_node=2, fault=disk_faults.reads_fail, fault_args=faulty)
    assert ranks.wait() == [1, 1], "2 would mean a wrong configuration, after which no run restarts"
    assert message in ranks.log()
    assert checkpoints(straight) == names


def test_a_file_with_a_bad_block_is_damaged(
    straight: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No later attempt could read it either."""
    monkeypatch.setattr(manifest, "digest_file", manifest.digest_file)
    monkeypatch.setenv("RANK", "0")
    disk_faults.reads_fail(0, errno.EIO, str(straight / "checkpoints/step-00000012"))
    found = VerifiedCheckpoints(RunPaths(straight), SingleRank(), 0, 2).find_newest()
    assert found is not None and found.step == 8
    assert "checkpoint step-00000012 is skipped" in caplog.text and "Input/output error" in caplog.text
