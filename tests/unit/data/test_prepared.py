"""Listing and verifying prepared data sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdpctl.contract.byte_progress import Meter
from fsdpctl.data.prepare import PrepareRequest, prepare
from fsdpctl.data.prepared import count_bytes, find_damage, list_datasets, open_index
from fsdpctl.data.recipe import Recipe
from fsdpctl.errors import UsageError


@pytest.fixture
def data(corpus: Path, tmp_path: Path) -> Path:
    prepare(PrepareRequest([corpus], tmp_path / "data", None, Recipe(train_bpe=300), 1), lambda what, done, total: None)
    return tmp_path / "data"


def damage(directory: Path) -> list[str]:
    return find_damage(directory, open_index(directory), lambda num_bytes: None)


def flip_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["train-00000.bin", "val-00000.bin", "val-00000.ends", "tokenizer.json"])
def test_a_flipped_bit_is_found(data: Path, name: str) -> None:
    assert damage(data) == []
    flip_byte(data / name, 8)
    assert damage(data) == [f"{data / name} has changed: its sha256 is not the index's"]


def test_missing_and_short_files_are_found(data: Path) -> None:
    size = (data / "train-00000.bin").stat().st_size
    os.truncate(data / "train-00000.bin", size - 2)
    (data / "val-00000.ends").unlink()
    assert damage(data) == [
        f"{data}/train-00000.bin has {size - 2:,} bytes, its index lists {size:,}",
        f"{data}/val-00000.ends: No such file or directory",
    ]


def test_ends_that_belong_to_other_tokens_are_found(data: Path) -> None:
    tokens = open_index(data).train[0].tokens
    index = (data / "index.json").read_text()
    (data / "index.json").write_text(index.replace(f'"tokens": {tokens}', f'"tokens": {tokens - 1}'))
    os.truncate(data / "train-00000.bin", 2 * tokens - 2)
    assert damage(data)[-1] == f"{data}/train-00000.ends ends at token {tokens:,}, its index lists {tokens - 1:,}"


def test_progress_counts_every_byte(data: Path) -> None:
    index = open_index(data)
    seen: list[tuple[int, int]] = []
    find_damage(
        data, index, Meter(lambda what, done, total: seen.append((done, total)), "checking", count_bytes(index))
    )
    assert seen[0][0] == 0 and seen[-1] == (count_bytes(index), count_bytes(index))


def test_the_list_shows_unfinished_and_broken_ones(data: Path, tmp_path: Path) -> None:
    (tmp_path / "next.partial").mkdir()
    (tmp_path / "next.partial/recipe.json").write_text("{}")
    for name, text in (("broken", "{"), ("newer", '{"format": 99}'), ("older", '{"format": 1}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.json").write_text(text)
    (tmp_path / "unrelated").mkdir()
    found = {item.path.name: item.broken for item in list_datasets(tmp_path)}
    assert list(found) == ["broken", "data", "newer", "next.partial", "older"]
    assert found["data"] is None
    assert "unfinished" in str(found["next.partial"])
    assert "data format 99 is newer than this fsdpctl's 3" in str(found["newer"])
    assert "data format 1 is older" in str(found["older"])
    assert [item.path for item in list_datasets(data)] == [data]


def test_a_directory_without_index_gives_the_command_to_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no prepared data: it has no index\.json") as caught:
        open_index(tmp_path)
    assert caught.value.hint == f"fsdpctl data prepare TEXT... --out {tmp_path}"
    with pytest.raises(UsageError, match="missing: No such file"):
        list_datasets(tmp_path / "missing")


def test_an_index_that_cannot_be_read_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "index.json").mkdir()
    with pytest.raises(UsageError, match=r"index\.json: not a regular file$"):
        open_index(tmp_path)
