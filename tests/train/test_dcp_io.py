"""A rank with much to save writes several files at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from fsdpctl.contract.formats.manifest import InvalidCheckpointError, digest_file, verify_files
from train.checkpoint import dcp_io, verified_checkpoints
from train.checkpoint.dcp_io import read_tensors, share_out, write_tensors, written_by
from train.checkpoint.staging import Staging
from train.checkpoint.threads import run_in_threads
from train.checkpoint.verified_checkpoints import verify_share


def test_shares_are_of_about_the_same_size() -> None:
    assert share_out([1, 9, 2, 8, 3], 2) == [[0, 1, 2], [3, 4]]
    assert share_out([5, 5], 8) == [[0], [1]]
    assert share_out([], 1) == []


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns that this is no distributed run
def test_several_files_hold_what_one_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: Any = None
    tensors = {f"t{n}": torch.randn(100 + n) for n in range(20)}
    for part_bytes, files in ((2**20, 1), (1000, dcp_io.MAX_PARTS)):
        monkeypatch.setattr(dcp_io, "PART_BYTES", part_bytes)
        directory = tmp_path / str(part_bytes)
        saved: list[int] = []
        staged = Staging(tensors, 0, range(1), torch.device("cpu")).copy(tensors)
        write_tensors(directory, staged, alone, saved.append)
        assert len(written_by(directory, 0)) == files + 1  # and the table
        assert sorted(saved) == [tensor.nbytes for tensor in tensors.values()]  # each once
        loaded = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
        signs: list[int] = []
        read_tensors(directory, loaded, alone, partial(signs.append, 1))
        assert len(signs) == len(tensors)
        assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_one_rank_reads_the_files_of_many_in_a_few_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def verify(directory: Path, files: Any) -> None:
        calls.append([name for name, _ in files])
        verify_files(directory, files)

    monkeypatch.setattr(verified_checkpoints, "verify_files", verify)
    names = [f"__{rank}_{part}.distcp" for rank in range(64) for part in range(8)]
    for size, name in enumerate(names):
        (tmp_path / name).write_bytes(bytes(size))
    files = [(name, digest_file(tmp_path / name)) for name in names]
    verify_share(tmp_path, files)
    assert len(calls) == dcp_io.MAX_PARTS  # a thread each, but the first
    assert sorted(name for call in calls for name in call) == sorted(names)
    (tmp_path / names[300]).write_bytes(b"x" * 300)
    with pytest.raises(InvalidCheckpointError, match=f"{names[300]} does not have the digest"):
        verify_share(tmp_path, files)


def test_an_error_in_one_of_several_threads_is_raised() -> None:
    def fail(text: str) -> None:
        raise OSError(text)

    assert run_in_threads([partial(pow, n, 2) for n in range(5)]) == [0, 1, 4, 9, 16]
    with pytest.raises(OSError, match="second"):
        run_in_threads([partial(print, "first"), partial(fail, "second"), partial(fail, "third")])
