"""Disks that fill, turn read-only or go away: training continues, logs why, and keeps the last good checkpoint."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from fsdpctl.contract.paths import RunPaths
from tests.testbed.disks import Mount
from tests.train import disk_faults, faults
from tests.train.ranks import Config, checkpoints, column, start, train
from tests.train.single_rank import SingleRank
from train.checkpoint.verified_checkpoints import VerifiedCheckpoints


def newest_step(run: Path) -> int | None:
    found = VerifiedCheckpoints(RunPaths(run), SingleRank(), 0, 2).find_newest()
    return found and found.step


def on_disk(tmp_path: Path, disk: Mount) -> Path:
    """Return a run directory whose checkpoints are on a disk of their own."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "checkpoints").symlink_to(disk.path)
    return run


def test_a_disk_that_fills_and_is_emptied(tmp_path: Path, small_disk: Mount, straight: Path, config: Config) -> None:
    run = on_disk(tmp_path, small_disk)
    config["checkpoint"] = {"every_steps": 2, "keep": 2}
    fault = {"fault": disk_faults.disk_full_from_to, "fault_args": (str(small_disk.path), 6, 10)}
    ranks = train(run, config, procs_per_node=2, **fault)
    for step in (6, 8):
        assert f"CHECKPOINT OF STEP {step} NOT SAVED" in ranks.log()
    assert ranks.log().count("No space left on device") == 2
    assert checkpoints(run) == ["step-00000010", "step-00000012"]
    assert newest_step(run) == 12
    assert column(run, "loss_hex") == column(straight, "loss_hex")


def test_a_checkpoint_does_not_know_more_steps_than_the_metrics(
    tmp_path: Path, small_disk: Mount, config: Config
) -> None:
    """The metrics are on the disk that fills, and the checkpoints elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (small_disk.path / "checkpoints").symlink_to(elsewhere)
    (tmp_path / "disk-0").symlink_to(small_disk.path)
    # No step is taken while the disk fills, and 20 lines need more than is left of a page.
    config.update(steps=60, checkpoint={"every_steps": 20, "keep": 3, "mode": "sync"})
    fault = {"fault": disk_faults.disk_full_from_to, "fault_args": (str(small_disk.path), 20, 60)}
    ranks = train(tmp_path, config, own_disks=True, **fault)
    assert ranks.log().count("NOT SAVED") == 1
    assert "CHECKPOINT OF STEP 40 NOT SAVED: [Errno 28] No space left on device" in ranks.log()
    assert sorted(path.name for path in elsewhere.iterdir()) == ["step-00000020", "step-00000060"]
    assert column(small_disk.path, "step") == list(range(1, 61))


def test_a_disk_that_turns_read_only(tmp_path: Path, small_disk: Mount, config: Config) -> None:
    run = on_disk(tmp_path, small_disk)
    config["checkpoint"] = {"every_steps": 2, "keep": 2}
    ranks = start(run, config, fault=disk_faults.read_only_from, fault_args=(str(small_disk.path), 6))
    assert ranks.wait() == [1]
    assert ranks.log().count("Read-only file system") == 3
    assert ranks.log().splitlines()[-1] == "train: 3 checkpoints in a row could not be saved"
    assert checkpoints(run) == ["step-00000002", "step-00000004"]
    assert newest_step(run) == 4
    assert len(column(run, "step")) >= 10


def test_a_mount_that_goes_away(tmp_path: Path, config: Config) -> None:
    disk, run = tmp_path / "disk", tmp_path / "run"
    (disk / "mine").mkdir(parents=True)
    run.mkdir()
    (run / "checkpoints").symlink_to(disk / "mine")
    config["checkpoint"]["every_steps"] = 1
    ranks = start(run, config, fault=disk_faults.checkpoints_removed_at, fault_args=(str(disk), 4))
    assert ranks.wait() == [1]
    assert ranks.log().count("NOT SAVED: [Errno") == 3, ranks.log()
    assert len(column(run, "step")) >= 6


def test_a_damaged_checkpoint_does_not_count_as_kept(tmp_path: Path, config: Config) -> None:
    """Else `keep: 1` could keep one that cannot be loaded. Of one that was moved elsewhere, the link alone goes."""
    config["checkpoint"] = {"every_steps": 4, "keep": 1}
    config["steps"] = 8
    train(tmp_path, config)
    moved = Path(shutil.copytree(tmp_path / "checkpoints/step-00000008", tmp_path / "other-disk/step-00000004"))
    (tmp_path / "checkpoints/step-00000004").symlink_to(moved)
    shutil.copytree(tmp_path / "checkpoints/step-00000008", tmp_path / "checkpoints/step-00000010")  # of step 8
    config.update(steps=11, checkpoint={"every_steps": 11, "keep": 2})
    ranks = train(tmp_path, config)
    assert "checkpoint step-00000010 is skipped: the manifest is of step 8" in ranks.log()
    assert "resuming at step 8 from step-00000008" in ranks.log()
    assert checkpoints(tmp_path) == ["step-00000008", "step-00000011"]
    assert f"checkpoint step-00000004 was a link and is removed; its files are still in {moved}" in ranks.log()
    assert (moved / "manifest.json").exists()


def test_a_directory_that_is_removed_is_made_again(tmp_path: Path, config: Config) -> None:
    """Before a save, and right after one."""
    config["checkpoint"] = {"every_steps": 3, "keep": 2}
    fault_args = (str(tmp_path / "checkpoints"), 6, "step-00000009")
    ranks = train(tmp_path, config, fault=disk_faults.checkpoints_removed_twice, fault_args=fault_args)
    assert "NOT SAVED" not in ranks.log()
    assert re.findall(r"saved step-0+(\d+) in", ranks.log()) == ["3", "6", "9", "12"]
    assert checkpoints(tmp_path) == ["step-00000012"]


def test_a_disk_that_removes_slowly_is_not_filled(tmp_path: Path, config: Config) -> None:
    """Saves come faster than old checkpoints go, so they wait, and the end of the run waits for the last ones."""
    noted = tmp_path / "noted"
    config["checkpoint"] = {"every_steps": 1, "keep": 2}
    ranks = train(tmp_path, config, fault=faults.slow_removal, fault_args=(1.5, str(noted)))
    assert "waited" in ranks.log() and "older checkpoints to be removed" in ranks.log()
    seen = [int(line) for line in noted.read_text().splitlines()]
    assert len(seen) == 10 and 4 <= max(seen) <= 6, "2 to keep, 3 to remove, and one that is being written"
    assert checkpoints(tmp_path) == ["step-00000011", "step-00000012"]
