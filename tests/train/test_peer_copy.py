"""Where nodes share no disk, each keeps a whole copy, and any one of them brings the run back, to the bit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fsdpctl.contract.formats.manifest import Manifest, committed, read_manifest, verify_files
from tests.train import faults
from tests.train.ranks import Config, column, start, train
from train.checkpoint.peer_copy import NodeCopy, choose


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

    shutil.rmtree(disks[0])
    damage(disks[1])
    ranks = start(run, config, 2, 2, own_disks=True)
    assert ranks.wait() == [2, 2, 2, 2]  # also those whose disk is empty: nothing begins anew
    assert ranks.log().splitlines()[-1].startswith("train: no checkpoint of this run is whole, neither step-")


@pytest.mark.parametrize(
    ("versions", "giver", "takers"),
    [
        ([None, None], 0, []),
        ([(8, 1), (8, 1)], 0, []),
        ([(4, 1), (8, 1), None, (8, 1)], 1, [0, 2]),
        ([(8, 1), (8, 2)], 1, [0]),  # the host of node 0 was away while attempt 2 took these steps again
    ],
)
def test_the_newest_copy_is_given(versions: list[tuple[int, int] | None], giver: int, takers: list[int]) -> None:
    assert choose([NodeCopy(manifest(*version) if version else None, 0) for version in versions]) == (giver, takers)


def manifest(step: int, attempt: int) -> Manifest:
    return Manifest(1, step, attempt, 2, (2, 1), {}, "", "", 0.0, {})


def is_whole(root: Path) -> bool:
    """Return whether the newest checkpoint has all of its files."""
    newest = root / committed(root)[-1]
    verify_files(newest, read_manifest(newest).files.items())
    return True


def damage(disk: Path) -> None:
    for path in disk.glob("checkpoints/*/__0_0.distcp"):
        os.truncate(path, 100)
