"""Readers and writers refuse everything but regular files at once: a FIFO, a device, a directory, a socket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fsdpctl.backends.ssh.sync.append_sync import append_sync
from fsdpctl.contract.files import open_file, open_log
from fsdpctl.contract.formats.manifest import FileDigest, InvalidCheckpointError, verify_files
from fsdpctl.contract.paths import NodePaths
from fsdpctl.node.agent import stacks
from tests.testbed.no_files import NO_FILES


@pytest.fixture(params=NO_FILES.values(), ids=NO_FILES)
def no_file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    request.param(Path("stacks-0.txt"))
    return tmp_path / "stacks-0.txt"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "opens", [open_file, open_log, lambda path: append_sync(path, 5, lambda offset, size: b"12345")]
)
def test_it_is_never_opened(opens: Callable[[Path], object], no_file: Path) -> None:
    with pytest.raises(OSError) as caught:
        opens(no_file)
    assert caught.value.filename == str(no_file)


def test_a_log_is_created_private_and_appended_to(tmp_path: Path) -> None:
    for text in (b"one ", b"two"):
        with open(open_log(tmp_path / "log"), "wb") as file:
            file.write(text)
    assert (tmp_path / "log").read_bytes() == b"one two"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


@pytest.mark.timeout(60)
def test_it_has_no_stacks(no_file: Path) -> None:
    paths = NodePaths(no_file.parent)
    assert paths.rank_stacks(0) == no_file
    stacks.request_stacks(paths, {0: 2**22 + 1})  # no process has that number
    assert stacks.read_stacks(paths, 0) == ""


@pytest.mark.timeout(60)
def test_it_is_not_part_of_a_checkpoint(no_file: Path) -> None:
    empty = FileDigest(no_file.stat().st_size, "")
    with pytest.raises(InvalidCheckpointError):
        verify_files(no_file.parent, [(no_file.name, empty)])
