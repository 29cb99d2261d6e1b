"""A rank with much to save writes several files at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from train import storage
from train.staging import Staging
from train.storage import read_tensors, share_out, write_tensors, written_by
from train.threads import at_once


def test_shares_are_of_about_the_same_size() -> None:
    assert share_out([1, 9, 2, 8, 3], 2) == [[0, 1, 2], [3, 4]]
    assert share_out([5, 5], 8) == [[0], [1]]
    assert share_out([], 1) == []


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch says that this is no distributed run
def test_several_files_hold_what_one_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: Any = None
    tensors = {f"t{n}": torch.randn(100 + n) for n in range(20)}
    for part_bytes, files in ((2**20, 1), (1000, storage.MAX_PARTS)):
        monkeypatch.setattr(storage, "PART_BYTES", part_bytes)
        directory = tmp_path / str(part_bytes)
        pieces = Staging(tensors, 0, range(1), torch.device("cpu")).copy(tensors)
        write_tensors(directory, pieces, alone)
        assert len(written_by(directory, 0)) == files + 1  # and the table
        loaded = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
        read_tensors(directory, loaded, alone)
        assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_what_fails_beside_others_is_told() -> None:
    def fail(word: str) -> None:
        raise OSError(word)

    assert at_once([partial(pow, n, 2) for n in range(5)]) == [0, 1, 4, 9, 16]
    with pytest.raises(OSError, match="second"):
        at_once([partial(print, "first"), partial(fail, "second"), partial(fail, "third")])
