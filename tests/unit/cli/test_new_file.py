"""Files of the user: whole or not there, and the one that cannot be written is named."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fsdpctl.cli.new_file import create_files, replace_file
from fsdpctl.cli.spec_files import copy_spec
from fsdpctl.errors import UsageError


@contextmanager
def full_disk() -> Iterator[None]:
    """Let every write to a file fail, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_no_part_of_a_job(tmp_path: Path) -> None:
    source, target = tmp_path / "tiny.yaml", tmp_path / "jobs" / "mine.yaml"
    source.write_text("name: tiny\n")
    with full_disk(), pytest.raises(UsageError, match=f"cannot write {target}: File too large"):
        copy_spec(source, target, as_json=False)
    assert list(target.parent.iterdir()) == []


def test_a_full_disk_leaves_the_older_result(tmp_path: Path) -> None:
    path = tmp_path / "chart.svg"
    path.write_text("older")
    with full_disk(), pytest.raises(UsageError, match=f"cannot write {path}: File too large") as raised:
        replace_file(path, lambda new: new.write_text("newer"), "--plot")
    assert raised.value.hint == "--plot names a file"
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("chart.svg", "older")]


def test_the_file_that_cannot_be_written_is_named_and_the_others_are_removed(tmp_path: Path) -> None:
    wrong = tmp_path / "missing" / "folder" / "profile.yaml"
    with pytest.raises(UsageError, match=f"cannot write {wrong}: No such file"):
        create_files({tmp_path / "job.yaml": "a", wrong: "b"})
    assert list(tmp_path.iterdir()) == []
