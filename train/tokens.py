"""Prepared data: token ids on disk, ready to be mapped into memory.

A prepared directory holds

    train.bin, val.bin   the token ids of all documents of a split, end to end: little-endian integers of `dtype`
    index.json           Index, written last: without it there is no data

Documents are divided by a separator token that the tokenizer chose; the trainer does not look for it. Whoever prepares
data chooses the split by document, so that no held-out text has a neighbour in the training data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fsdpctl.contract.codec import CodecError, read_json, write_json

from .errors import ConfigError

Split = Literal["train", "val"]
TokenArray = NDArray[np.unsignedinteger]

FORMAT = 1


@dataclass(frozen=True)
class Index:
    """`index.json`: what the two token files hold."""

    format: int
    source: str  # where the text came from, in words
    fingerprint: str  # sha256 over everything that decides the tokens and their split
    dtype: Literal["uint16", "uint32"]
    vocab_size: int  # every id is smaller
    train_tokens: int
    val_tokens: int
    unigram_entropy: float  # nats a token, of the training split: what a model without context can reach


class Tokens:
    """One split, cut into sequences of T + 1 tokens that overlap by one: inputs and targets."""

    def __init__(self, path: Path, dtype: str, num_tokens: int, seq_len: int) -> None:
        self.array: TokenArray = np.memmap(path, dtype=np.dtype(dtype).newbyteorder("<"), mode="r")
        if len(self.array) != num_tokens:
            raise ConfigError(f"{path} holds {len(self.array)} tokens, its index says {num_tokens}: prepare it again")
        self.seq_len = seq_len
        self.num_sequences = (num_tokens - 1) // seq_len
        if self.num_sequences < 1:
            raise ConfigError(f"{path} holds {num_tokens} tokens, fewer than one sequence of {seq_len} + 1")

    def sequences(self, ids: NDArray[np.int64]) -> Tensor:
        """Return sequences by number: (len(ids), T + 1) token ids."""
        offsets = ids[:, None] * self.seq_len + np.arange(self.seq_len + 1)
        return torch.from_numpy(self.array[offsets].astype(np.int64))


@dataclass(frozen=True)
class Dataset:
    index: Index
    train: Tokens
    val: Tokens


def open_dataset(directory: Path, seq_len: int, vocab_size: int) -> Dataset:
    """Map a prepared directory into memory; refuses data that the model cannot take."""
    try:
        index = read_json(Index, directory / "index.json")
        if index.format > FORMAT:
            raise ConfigError(f"{directory}: data format {index.format} is newer than this trainer's {FORMAT}")
        if index.vocab_size > vocab_size:
            raise ConfigError(
                f"{directory}: token ids reach {index.vocab_size - 1}, but the model's vocab_size is {vocab_size}"
            )
        train = Tokens(directory / "train.bin", index.dtype, index.train_tokens, seq_len)
        val = Tokens(directory / "val.bin", index.dtype, index.val_tokens, seq_len)
    except OSError as error:
        raise ConfigError(f"data source {directory}: {error.filename}: {error.strerror}") from None
    except (CodecError, ValueError) as error:
        raise ConfigError(f"data source {directory}: {error}") from None
    return Dataset(index, train, val)


def write_dataset(
    directory: Path,
    documents: Iterable[tuple[Split, TokenArray]],
    *,
    source: str,
    fingerprint: str,
    dtype: Literal["uint16", "uint32"],
    vocab_size: int,
) -> None:
    """Write a prepared directory that exists and is empty; `index.json` comes last."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    num_tokens = {"train": 0, "val": 0}
    with (directory / "train.bin").open("wb") as train, (directory / "val.bin").open("wb") as val:
        for split, tokens in documents:
            (train if split == "train" else val).write(tokens.astype(np.dtype(dtype).newbyteorder("<")).tobytes())
            num_tokens[split] += len(tokens)
            if split == "train":
                counts += np.bincount(tokens, minlength=vocab_size)
    index = Index(
        format=FORMAT,
        source=source,
        fingerprint=fingerprint,
        dtype=dtype,
        vocab_size=vocab_size,
        train_tokens=num_tokens["train"],
        val_tokens=num_tokens["val"],
        unigram_entropy=entropy(counts),
    )
    write_json(directory / "index.json", index)


def entropy(counts: NDArray[np.int64]) -> float:
    """Entropy in nats of the distribution that `counts` describes."""
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
