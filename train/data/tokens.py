"""Prepared data, mapped into memory. `fsdpctl.contract.formats.dataset` describes the format on disk."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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

    def positions(self, ids: NDArray[np.int64]) -> Tensor:
        """Return where in its document each token of these sequences is: (len(ids), T + 1), counted from 0.

        The first document of a sequence may have begun before it: it is counted from the sequence's first token.
        """
        length = self.seq_len + 1
        begins = np.zeros((len(ids), length), dtype=np.int64)
        for row, start in zip(begins, (ids * self.seq_len).tolist(), strict=True):
            for part in self._parts(start, length):
                begun = part.shard.begun_documents(part.offset, part.length) + part.at
                row[begun] = begun
        return torch.from_numpy(np.arange(length) - np.maximum.accumulate(begins, axis=1))

    def _read(self, row: NDArray[np.int64], start: int) -> None:
        """Fill `row` with the tokens from `start` onwards, over the ends of shards."""
        for part in self._parts(start, len(row)):
            chosen, own = slice(part.offset, part.offset + part.length), row[part.at : part.at + part.length]
            own[:] = part.shard.tokens[chosen]
            if part.shard.mask is not None:
                np.invert(own, out=own, where=part.shard.mask[chosen] == 0)

    def _parts(self, start: int, length: int) -> Iterator[_Part]:
        """Yield the parts of shards that hold `length` tokens from `start` onwards."""
        number = bisect_right(self.starts, start) - 1
        at = 0
        while at < length:
            shard, offset = self.shards[number], start + at - self.starts[number]
            part = _Part(shard, offset, min(len(shard.tokens) - offset, length - at), at)
            yield part
            at += part.length
            number += 1


class _MappedShard(NamedTuple):
    tokens: TokenArray
    ends: NDArray[np.int64]  # where each document ends
    mask: TokenArray | None  # 1 where a token is a target of the loss

    def begun_documents(self, offset: int, length: int) -> NDArray[np.int64]:
        """Return where documents begin among `length` tokens from `offset` onwards, counted from there."""
        first, last = np.searchsorted(self.ends, (offset, offset + length))
        begun: NDArray[np.int64] = self.ends[first:last] - offset
        return begun if offset else np.insert(begun, 0, 0)


class _Part(NamedTuple):
    """A part of a shard, and where in a sequence it belongs."""

    shard: _MappedShard
    offset: int  # in the shard
    length: int
    at: int  # in the sequence


def _map_shard(directory: Path, shard: Shard, dtype: Dtype) -> _MappedShard:
    mask = _map(directory / shard.mask_file, "uint8", shard.tokens) if shard.mask_file else None
    return _MappedShard(
        _map(directory / shard.tokens_file, dtype, shard.tokens), _map_ends(directory / shard.ends_file, shard), mask
    )


def _map_ends(path: Path, shard: Shard) -> NDArray[np.int64]:
    """Map signed numbers: to search unsigned ones for a signed one, numpy copies all of them."""
    ends = _map(path, "int64", shard.documents, what="documents")
    if ends[-1] != shard.tokens:
        raise ConfigError(f"{path} ends at token {ends[-1]}, its index has {shard.tokens}: prepare it again")
    return ends


def _map(path: Path, dtype: str, length: int, what: str = "tokens") -> NDArray[Any]:
    array: NDArray[Any] = np.memmap(path, dtype=np.dtype(dtype).newbyteorder("<"), mode="r")
    if len(array) != length:
        raise ConfigError(f"{path} holds {len(array)} {what}, its index has {length}: prepare it again")
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
