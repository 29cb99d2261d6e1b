"""The size of the cache, and who may use it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.contract.formats.dataset import read_index
from fsdpctl.remote_data.cache import GIB, make_room, needed_files, open_cache, use
from fsdpctl.remote_data.location import RemoteDataError
from tests.unit.remote_data.conftest import make

FETCH = """
import os, sys
from fsdpctl.remote_data.fetch import fetch_dataset
print(fetch_dataset(sys.argv[1], os.environ, lambda n: None), flush=True)
sys.stdin.read()
"""


class Run:
    """A process that fetches a data set and uses it until it is ended."""

    def __init__(self, source: Path) -> None:
        command = [sys.executable, "-c", FETCH, source.as_uri()]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert self.process.stdout is not None
        self.directory = Path(self.process.stdout.readline().strip())

    def end(self) -> str:
        return self.process.communicate(timeout=60)[1]


def allow(monkeypatch: pytest.MonkeyPatch, num_bytes: int) -> None:
    monkeypatch.setenv("FSDPCTL_DATA_CACHE_GIB", repr(num_bytes / GIB))


@pytest.mark.slow
def test_unused_data_makes_room_the_oldest_first(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [make(tmp_path / f"source-{seed}", seed=seed) for seed in range(1, 5)]
    size = sum(file.num_bytes for file in needed_files(read_index(sources[0])))
    allow(monkeypatch, 3 * size)
    oldest, used = Run(sources[0]), Run(sources[1])
    oldest.end()
    Run(sources[2]).end()
    assert all(path.exists() for path in (oldest.directory, used.directory))

    last = Run(sources[3])
    last.end()
    left = {path.name for path in cache.iterdir() if path.is_dir()}
    assert oldest.directory.name not in left and len(left) == 3
    assert {used.directory.name, last.directory.name} < left

    allow(monkeypatch, size * 3 // 2)
    error = Run(sources[2]).end()
    assert "GiB are allowed, 0.00 GiB of them are used by other runs" in error
    assert "set FSDPCTL_DATA_CACHE to a larger disk, or FSDPCTL_DATA_CACHE_GIB higher" in error
    assert used.directory.exists()
    used.end()


def test_other_data_in_the_directory_of_the_cache_is_never_removed(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(0o700)
    own = [make(cache / name, seed=9) for name in ("corpus", "0123456789abcdef0123456789abcdef")]
    source = make(tmp_path / "source", seed=1)
    size = sum(file.num_bytes for file in needed_files(read_index(source)))
    allow(monkeypatch, size)
    run = Run(source)
    assert run.end() == "" and run.directory.exists()
    assert all((path / "index.json").exists() for path in own)


def test_data_that_is_larger_than_the_cache_is_refused_before_it_is_fetched(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, 1000)
    assert "a part of it is no use" in Run(source).end()
    assert not list(cache.glob("*/*.bin"))


def test_room_is_made_while_other_ranks_rename_their_files(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, index = open_cache(os.environ), (source / "index.json").read_bytes()
    directory = opened.directory_of(index)
    use(opened, directory, index)
    fetched = directory / ".train-0.bin.fetched"
    fetched.touch()
    lstat = Path.lstat

    def rename_before(path: Path) -> os.stat_result:
        if path == fetched and fetched.exists():
            fetched.rename(directory / "train-0.bin")
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", rename_before)
    make_room(opened, directory)
    assert (directory / "train-0.bin").exists()


@pytest.mark.parametrize("size", ["many", "0", "-1", "nan", "inf"])
def test_a_wrong_size_is_refused(size: str, cache: Path) -> None:
    with pytest.raises(RemoteDataError, match=f"must be a number of GiB greater than 0, got '{size}'"):
        open_cache({"FSDPCTL_DATA_CACHE": str(cache), "FSDPCTL_DATA_CACHE_GIB": size})


def test_a_directory_that_others_can_change_is_refused(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o770)
    with pytest.raises(RemoteDataError, match="can be changed by other users; set FSDPCTL_DATA_CACHE under `env`"):
        open_cache(os.environ)
    with pytest.raises(RemoteDataError, match="must be an absolute path, got 'here'"):
        open_cache({"FSDPCTL_DATA_CACHE": "here"})
    with pytest.raises(RemoteDataError, match="Not a directory"):
        open_cache({"FSDPCTL_DATA_CACHE": f"{__file__}/cache"})


def test_a_new_directory_is_private(cache: Path) -> None:
    assert open_cache(os.environ).root.stat().st_mode & 0o777 == 0o700
