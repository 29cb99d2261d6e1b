"""A disk that can be filled, by bytes or by files, or made read-only: a tmpfs mounted where only this test looks.
And one that can be frozen: a process that writes to it is in uninterruptible sleep (D)."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.services import require

SIZE, INODES = "80m", 20_000
"""What the node check wants free, and a little more."""


@dataclass
class Mount:
    """One small disk."""

    path: Path

    def fill(self, leave: int = 0) -> None:
        with open(self.path / "ballast", "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while file.write(b"x" * 65_536):
                    pass
            file.truncate(file.tell() - leave)

    def use_up_inodes(self) -> None:
        directory = self.path / "ballast"
        directory.mkdir()
        with contextlib.suppress(OSError):
            for number in itertools.count():
                os.mknod(directory / str(number))

    def empty(self) -> None:
        ballast = self.path / "ballast"
        shutil.rmtree(ballast) if ballast.is_dir() else ballast.unlink()

    def make_read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.path)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Mount]:
    """A small disk, still empty."""
    require("mount")
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE},nr_inodes={INODES},mode=700", "fsdpctl-test", str(path)],
        check=True,
    )
    yield Mount(path)
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@dataclass
class FreezableMount:
    """A disk on which each write waits while it is frozen."""

    path: Path

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "--freeze", str(self.path)], check=True)

    def thaw(self) -> None:
        subprocess.run(["fsfreeze", "--unfreeze", str(self.path)], check=False, capture_output=True)


@pytest.fixture
def freezable_disk(tmp_path: Path) -> Iterator[FreezableMount]:
    """A small disk of its own on a loop device, not frozen yet."""
    require("mount")
    require("loop")
    image, path = tmp_path / "image", tmp_path / "freezable"
    path.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(path)], check=True)
    mount = FreezableMount(path)
    yield mount
    mount.thaw()
    subprocess.run(["umount", "--lazy", str(path)], check=True)
