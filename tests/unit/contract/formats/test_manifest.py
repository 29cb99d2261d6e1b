"""What an error of the disk means for a checkpoint: damage, or a file that may be read later."""

from __future__ import annotations

import copy
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract.formats import manifest
from fsdpctl.contract.formats.manifest import (
    FileDigest,
    InvalidCheckpointError,
    UnreadableCheckpointError,
    committed,
    read_manifest,
    verify_files,
)

FILES = [("tensors", FileDigest(3, "aa"))]


def failing_with(number: int) -> Any:
    def fail(*_words: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "kind", "passes"),
    [
        (errno.ENOENT, InvalidCheckpointError, None),
        (errno.EACCES, InvalidCheckpointError, None),
        (errno.EIO, UnreadableCheckpointError, False),
        (errno.EUCLEAN, UnreadableCheckpointError, False),
        (errno.ESTALE, UnreadableCheckpointError, True),
        (errno.ETIMEDOUT, UnreadableCheckpointError, True),
        (errno.EMFILE, UnreadableCheckpointError, True),
    ],
)
@pytest.mark.parametrize("what", ["digest", "manifest"])
def test_errors_of_a_file_server_are_not_damage(
    number: int, kind: type, passes: bool | None, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensors").write_bytes(b"abc")
    monkeypatch.setattr(manifest, "digest_file", failing_with(number))
    monkeypatch.setattr(manifest, "read_bytes", failing_with(number))
    with pytest.raises(InvalidCheckpointError) as caught:
        verify_files(tmp_path, FILES) if what == "digest" else read_manifest(tmp_path)
    assert type(caught.value) is kind
    assert getattr(caught.value, "passes", None) is passes


def test_the_error_is_the_same_on_every_rank() -> None:
    """Ranks send it to each other, by pickle, which makes a copy in the same way."""
    error = UnreadableCheckpointError("tensors: Stale file handle", OSError(errno.ESTALE, "Stale file handle", "x"))
    received = copy.copy(error)
    assert (str(received), received.passes, received.error.filename) == (str(error), True, "x")


def test_a_directory_that_cannot_be_listed_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run would begin again at step 0."""
    assert committed(tmp_path / "gone") == []
    (tmp_path / "file").touch()
    assert committed(tmp_path / "file") == []
    with monkeypatch.context() as patched, pytest.raises(OSError, match="Stale"):
        patched.setattr(os, "listdir", failing_with(errno.ESTALE))
        committed(tmp_path)
