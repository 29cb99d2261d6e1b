"""A data set with shards and masks behind a URL of a directory, and the cache of this node."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.formats.dataset import BYTES, FORMAT, INDEX_NAME, MASKED_FORMAT, Index, ShardWriter
from fsdpctl.remote_data import fetch

SHARDS = 3


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "FIRST_WAIT_S", 0.0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make(tmp_path / "source", seed=1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FSDPCTL_DATA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make(directory: Path, *, seed: int, tokens: int = 4096) -> Path:
    """Write a data set whose content depends on `seed`: 3 shards of 8 KiB, of which one has a mask of 4 KiB."""
    directory.mkdir()
    shards = []
    for number in range(SHARDS):
        split = "val" if number == 0 else "train"
        writer = ShardWriter(directory, f"{split}-{number:05d}", is_masked=number == 1)
        writer.add(bytes([seed, number] * tokens), [tokens], b"\1" * tokens)
        if (shard := writer.close()) is not None:
            shards.append(shard)
    index = Index(
        format=MASKED_FORMAT if seed else FORMAT,
        source="a test",
        tokenizer=BYTES,
        separator=0,
        fingerprint=f"seed-{seed}",
        dtype="uint16",
        vocab_size=65536,
        train=tuple(shards[1:]),
        val=tuple(shards[:1]),
        unigram_entropy=0.0,
    )
    write_json(directory / INDEX_NAME, index)
    return directory
