"""Files are written to the disk, and read past the page cache where the file system can."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdpctl.benchmarks.disk.files import cached_share, drop_cache, read_file, write_file
from fsdpctl.contract.benchmarks import ReadWay

SIZE = 3 * 2**20 + 17


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    assert write_file(descriptor, SIZE).num_bytes == SIZE
    os.close(descriptor)
    return path


def test_a_file_is_read_to_its_end(written: Path) -> None:
    read, way = read_file(written)
    assert read.num_bytes == SIZE and read.seconds > 0
    assert way in (ReadWay.DIRECT, ReadWay.DROPPED)


def test_without_direct_reads_the_cache_is_dropped_or_reported(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_DIRECT", 0)  # as on a file system that ignores it
    from fsdpctl.benchmarks.disk import files

    written.read_bytes()
    descriptor = os.open(written, os.O_RDONLY)
    assert cached_share(descriptor) == 1.0
    drop_cache(descriptor)
    assert cached_share(descriptor) < 0.01
    os.close(descriptor)
    assert files._read_buffered(written)[1] is ReadWay.DROPPED
    monkeypatch.setattr(files, "drop_cache", lambda descriptor: None)
    written.read_bytes()
    assert files._read_buffered(written)[1] is ReadWay.CACHED


def test_a_file_without_a_name_can_be_read_back(written: Path) -> None:
    descriptor = os.open(written, os.O_RDWR)
    written.unlink()
    assert read_file(Path(f"/proc/self/fd/{descriptor}"))[0].num_bytes == SIZE
    os.close(descriptor)
