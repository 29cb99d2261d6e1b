"""Data sets in the cache of a node: fetched once, and never read unless they are what the index lists."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdpctl.contract.byte_progress import Report
from fsdpctl.contract.formats.dataset import read_index
from fsdpctl.remote_data.cache import needed_files
from fsdpctl.remote_data.fetch import TRIES, fetch_dataset
from fsdpctl.remote_data.location import Location, RemoteDataError
from tests.backends.harness import wait_for

ENDS = ["train-00001.ends", "train-00002.ends", "val-00000.ends"]
FILES = ["train-00001.bin", "train-00002.bin", *ENDS, "train-00001.mask", "val-00000.bin"]


def ignore(num_bytes: int) -> None:
    pass


def fetch(source: Path, report: Report = ignore) -> Path:
    return fetch_dataset(source.as_uri(), os.environ, report)


def is_same(directory: Path, source: Path) -> bool:
    return all((directory / name).read_bytes() == (source / name).read_bytes() for name in [*FILES, "index.json"])


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are downloaded from now on."""
    names: list[str] = []
    blocks = Location.blocks

    def counted(location: Location, name: str, size: int) -> Iterator[bytes]:
        names.append(name)
        return blocks(location, name, size)

    monkeypatch.setattr(Location, "blocks", counted)
    return names


def test_what_ranks_read_is_fetched_once(source: Path, cache: Path, downloads: list[str]) -> None:
    reported: list[int] = []
    directory = fetch(source, reported.append)
    assert is_same(directory, source) and directory.parent == cache
    assert sorted(downloads) == sorted(FILES)
    assert sum(reported) == sum(file.num_bytes for file in needed_files(read_index(source)))
    downloads.clear()
    assert fetch(source) == directory
    assert downloads == []


def test_what_differs_from_the_index_is_fetched_again(source: Path, cache: Path, downloads: list[str]) -> None:
    directory = fetch(source)
    flipped, cut, gone, index = (directory / name for name in ("train-00002.bin", FILES[5], FILES[4], "index.json"))
    before = flipped.stat()
    flipped.write_bytes(b"\0" + flipped.read_bytes()[1:])
    os.utime(flipped, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.truncate(cut, 100)
    gone.unlink()
    index.write_text("{")
    downloads.clear()
    fetch(source)
    assert sorted(downloads) == sorted([flipped.name, cut.name, gone.name])
    assert is_same(directory, source)


def test_a_file_without_a_stamp_is_compared_and_kept(source: Path, cache: Path, downloads: list[str]) -> None:
    directory = fetch(source)
    for stamp in directory.glob(".*.verified"):
        stamp.unlink()
    (directory / ".train-00001.bin.verified").write_text("[")
    downloads.clear()
    fetch(source)
    assert downloads == [] and len(list(directory.glob(".*.verified"))) == len(FILES)


def test_damage_at_the_source_is_refused(source: Path, cache: Path, downloads: list[str]) -> None:
    (source / "train-00002.bin").write_bytes(b"x" * 8192)
    with pytest.raises(RemoteDataError, match=r"train-00002\.bin is damaged: its sha256 is not the index's"):
        fetch(source)
    assert downloads.count("train-00002.bin") == TRIES
    assert not list(cache.glob("*/train-00002.bin")) and not list(cache.glob("*/.*.fetched"))


def test_a_file_that_is_longer_than_listed_does_not_fill_the_disk(source: Path, cache: Path) -> None:
    with (source / "val-00000.bin").open("ab") as file:
        file.truncate(2**36)
    with pytest.raises(RemoteDataError, match=r"val-00000\.bin is damaged"):
        fetch(source)


def test_a_failure_of_the_network_is_tried_again(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, failures = Location.blocks, iter([OSError("connection reset"), TimeoutError(), None])

    def shaky(location: Location, name: str, size: int) -> Iterator[bytes]:
        for block in blocks(location, name, size):
            yield block[:100]
            if name == FILES[0] and (error := next(failures, None)) is not None:
                with location._named(name):
                    raise error
            yield block[100:]

    monkeypatch.setattr(Location, "blocks", shaky)
    assert is_same(fetch(source), source)


FETCH = """
import os, sys, time
from fsdpctl.remote_data import fetch
from fsdpctl.remote_data.location import Location
blocks = Location.blocks
def slow(location, name, size):
    with open(sys.argv[2], "a") as log:
        log.write(name + "\\n")
    for block in blocks(location, name, size):
        yield block[:100]
        while not os.path.exists(sys.argv[3]):
            time.sleep(0.01)
        yield block[100:]
Location.blocks = slow
print(fetch.fetch_dataset(sys.argv[1], os.environ, lambda n: None))
"""


def start(source: Path, log: Path, gate: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", FETCH, source.as_uri(), str(log), str(gate)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_processes_of_a_node_divide_the_files(source: Path, cache: Path, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    processes = [start(source, log, gate) for _ in range(2)]
    try:
        wait_for(lambda: len(lines(log)) == len(FILES), 60, "both at work: one alone takes four files at a time")
        gate.touch()
        outputs = [process.communicate(timeout=60)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert len({*outputs}) == 1 and is_same(Path(outputs[0].strip()), source)
    assert sorted(lines(log)) == sorted(FILES)


def test_the_files_of_a_killed_process_are_fetched_by_another(source: Path, cache: Path, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    process = start(source, log, gate)
    try:
        wait_for(lambda: len(lines(log)) == len(list(cache.glob("*/.*.fetched"))) == 4, 60, "four files at work")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    assert not list(cache.glob("*/*.bin"))
    assert is_same(fetch(source), source)
    assert not list(cache.glob("*/.*.fetched"))
