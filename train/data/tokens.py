"""Prepared data, mapped into memory. `fsdpctl.contract.formats.dataset` describes the format on disk."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fsdpctl.contract.codec import CodecError, write_json
from fsdpctl.contract.formats.dataset import (
    BYTES,
    FORMAT,
    INDEX_NAME,
    Dtype,
    Index,
    Shard,
    ShardWriter,
    Split,
    read_index,
)
from train.errors import ConfigError, unreadable

TokenArray = NDArray[np.unsignedinteger]


class Tokens:
    """One split as one long row, cut into sequences of T + 1 tokens that overlap by one: inputs and targets."""

    def __init__(self, directory: Path, shards: Sequence[Shard], dtype: Dtype, seq_len: int) -> None:
        self.shards = [_map_shard(directory, shard, dtype) for shard in shards]
        self.starts = [0, *np.cumsum([shard.tokens for shard in shards]).tolist()]
        self.seq_len = seq_len
        self.num_sequences = (self.starts[-1] - 1) // seq_len
        if self.num_sequences < 1:
            names = ", ".join(shard.tokens_file for shard in shards) or "a split without documents"
            raise ConfigError(
                f"{directory}: {names} hold {self.starts[-1]} tokens, fewer than one sequence of {seq_len} + 1"
            )

    def sequences(self, ids: NDArray[np.int64]) -> Tensor:
        """Return sequences by number: (len(ids), T + 1) token ids; one that is no target of the loss is inverted (~id),
        and so negative."""
        rows = np.empty((len(ids), self.seq_len + 1), dtype=np.int64)
        for row, start in zip(rows, (ids * self.seq_len).tolist(), strict=True):
            self._read(row, start)
        return torch.from_numpy(rows)

    def _read(self, row: NDArray[np.int64], start: int) -> None:
        """Fill `row` with the tokens from `start` onwards, over the ends of shards."""
        number = bisect_right(self.starts, start) - 1
        filled = 0
        while filled < len(row):
            shard, offset = self.shards[number], start + filled - self.starts[number]
            part = shard.tokens[offset : offset + len(row) - filled]
            own = row[filled : filled + len(part)]
            own[:] = part
            if shard.mask is not None:
                np.invert(own, out=own, where=shard.mask[offset : offset + len(part)] == 0)
            filled += len(part)
            number += 1


class _MappedShard(NamedTuple):
    tokens: TokenArray
    mask: TokenArray | None  # 1 where a token is a target of the loss


def _map_shard(directory: Path, shard: Shard, dtype: Dtype) -> _MappedShard:
    tokens = _map(directory / shard.tokens_file, dtype, shard.tokens)
    return _MappedShard(tokens, _map(directory / shard.mask_file, "uint8", shard.tokens) if shard.mask_file else None)


def _map(path: Path, dtype: str, num_tokens: int) -> TokenArray:
    array: TokenArray = np.memmap(path, dtype=np.dtype(dtype).newbyteorder("<"), mode="r")
    if len(array) != num_tokens:
        raise ConfigError(f"{path} holds {len(array)} tokens, its index has {num_tokens}: prepare it again")
    return array


@dataclass(frozen=True)
class Dataset:
    index: Index
    train: Tokens
    val: Tokens


def open_dataset(directory: Path, seq_len: int, vocab_size: int) -> Dataset:
    """Map a prepared directory into memory. Raises ConfigError for data that does not fit the model."""
    try:
        index = read_index(directory)
        if index.vocab_size > vocab_size:
            raise ConfigError(
                f"{directory}: token ids reach {index.vocab_size - 1}, but the model's vocab_size is {vocab_size}"
            )
        train = Tokens(directory, index.train, index.dtype, seq_len)
        val = Tokens(directory, index.val, index.dtype, seq_len)
    except OSError as error:
        raise unreadable(f"data source {directory}: {error.filename}: {error.strerror}", error) from None
    except (CodecError, ValueError) as error:
        raise ConfigError(f"data source {directory}: {error}") from None
    return Dataset(index, train, val)


def write_dataset(
    directory: Path,
    documents: Iterable[tuple[Split, TokenArray]],
    *,
    source: str,
    fingerprint: str,
    dtype: Dtype,
    vocab_size: int,
) -> None:
    """Write a prepared directory that exists and is empty, one shard a split; `index.json` comes last."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    train, val = ShardWriter(directory, "train-00000"), ShardWriter(directory, "val-00000")
    for split, tokens in documents:
        writer = train if split == "train" else val
        writer.add(tokens.astype(np.dtype(dtype).newbyteorder("<")).tobytes(), [len(tokens)])
        if split == "train":
            counts += np.bincount(tokens, minlength=vocab_size)
    index = Index(
        format=FORMAT,
        source=source,
        tokenizer=BYTES,
        separator=0,
        fingerprint=fingerprint,
        dtype=dtype,
        vocab_size=vocab_size,
        train=tuple(filter(None, [train.close()])),
        val=tuple(filter(None, [val.close()])),
        unigram_entropy=entropy(counts),
    )
    write_json(directory / INDEX_NAME, index)


def entropy(counts: NDArray[np.int64]) -> float:
    """Return the entropy, in nats, of the distribution that `counts` describes."""
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
