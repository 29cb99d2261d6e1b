"""The format of prepared data."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from fsdpctl.contract.codec import CodecError, write_json
from fsdpctl.contract.formats.dataset import BYTES, FORMAT, Index, Shard, ShardWriter, read_index, split_of

INDEX = Index(FORMAT, "a test", BYTES, 0, "f00", "uint16", 256, (Shard("train-00000", 5, 2, "a", "b"),) * 2, (), 1.5)


def test_a_shard_is_its_tokens_and_where_documents_end(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, "train-00007")
    writer.add(b"aabbcc", [1, 2])
    writer.add(b"dd", [1])
    shard = writer.close()
    ends = struct.pack("<3Q", 1, 3, 4)
    assert (tmp_path / "train-00007.bin").read_bytes() == b"aabbccdd"
    assert (tmp_path / "train-00007.ends").read_bytes() == ends
    digests = [hashlib.sha256(data).hexdigest() for data in (b"aabbccdd", ends)]
    assert shard == Shard("train-00007", 4, 3, *digests)


def test_an_empty_shard_leaves_nothing_not_even_of_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "val-00000.bin").write_bytes(b"left by a killed writer")
    assert ShardWriter(tmp_path, "val-00000").close() is None
    assert list(tmp_path.iterdir()) == []


def test_a_replaced_writer_does_not_disturb_the_new_one(tmp_path: Path) -> None:
    old, new = ShardWriter(tmp_path, "val-00000"), ShardWriter(tmp_path, "val-00000")
    new.add(b"new", [3])
    old.add(b"old old", [7])
    new.close()
    assert (tmp_path / "val-00000.bin").read_bytes() == b"new"


def test_the_index_comes_back_and_adds_up(tmp_path: Path) -> None:
    write_json(tmp_path / "index.json", INDEX)
    assert read_index(tmp_path) == INDEX
    assert (INDEX.train_tokens, INDEX.val_tokens) == (10, 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"format": 4, "new": 1}', "data format 4 is newer than this fsdpctl's 3"),
        ('{"format": 1}', "data format 1 is older than this fsdpctl's 3"),
        ('{"format": 2}', "source: missing"),
        ("[]", "expected a mapping"),
        ("{", "Expecting property name"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_an_index_of_another_kind_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(CodecError, match=problem) as caught:
        read_index(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/index.json: ")


def test_splits_are_chosen_by_the_key_alone() -> None:
    keys = [f"document {number}".encode() for number in range(2000)]
    few = {key for key in keys if split_of(key, 0.05) == "val"}
    more = {key for key in keys if split_of(key, 0.2) == "val"}
    assert few < more
    assert 60 < len(few) < 140 and 330 < len(more) < 470
