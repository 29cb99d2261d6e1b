"""Where nodes share no disk, each keeps a whole copy, and any one of them brings the run back, to the bit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from fsdpctl.contract.checkpoint import committed, read_manifest, verify_files
from tests.train import faults
from tests.train.ranks import Config, column, start, train


def test_one_disk_of_two_is_enough(tmp_path: Path, config: Config) -> None:
    config["checkpoint"]["mode"] = "sync"
    straight, run = tmp_path / "straight", tmp_path / "run"
    disks = run / "disk-0", run / "disk-1"
    train(straight, config, nodes=2, procs_per_node=2)
    losses: list[tuple[int, Path, Callable[[Path], None]]] = [(5, disks[1], damage), (9, disks[0], shutil.rmtree)]
    for step, disk, lose in losses:
        ranks = start(run, config, 2, 2, own_disks=True, fault=faults.slow_steps, fault_args=(0.1,))
        ranks.wait_for_step(step)
        ranks.kill()
        assert all(is_whole(each / "checkpoints") for each in disks)
        lose(disk)

    ranks = train(run, config, 2, 2, own_disks=True)
    assert "node 1 got step-" in ranks.log() and "node 0 got step-" in ranks.log()
    for disk in disks:
        for name in ("step", "loss_hex", "samples", "lr", "grad_norm", "tokens"):
            assert column(disk, name) == column(straight, name), name
        assert is_whole(disk / "checkpoints")


def is_whole(root: Path) -> bool:
    """Whether the newest checkpoint has all of its files."""
    newest = root / committed(root)[-1]
    verify_files(newest, read_manifest(newest).files.items())
    return True


def damage(disk: Path) -> None:
    for path in disk.glob("checkpoints/*/__0_0.distcp"):
        os.truncate(path, 100)
