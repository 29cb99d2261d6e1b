"""A disk that can be filled or made read-only: a tmpfs of 32 MiB, mounted where only this test looks."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.services import require


@dataclass
class Mount:
    """One small disk."""

    path: Path

    def fill(self) -> None:
        with contextlib.suppress(OSError), open(self.path / "ballast", "wb", buffering=0) as file:
            while file.write(b"x" * 65_536):
                pass

    def make_read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.path)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Mount]:
    """A small disk, still empty."""
    require("mount")
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "fsdpctl-test", str(path)], check=True)
    yield Mount(path)
    subprocess.run(["umount", "--lazy", str(path)], check=True)
