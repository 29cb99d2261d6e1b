"""Prepared data: token ids on disk, ready to be mapped into memory. The one owner of the format.

A prepared directory holds

    train-00000.bin, val-00000.bin ...     token ids of whole documents, end to end: little-endian integers of `dtype`
    train-00000.ends, val-00000.ends ...   where each document of the shard ends, in tokens: little-endian uint64
    index.json                             Index, written last: without it there is no data

The shards of a split, in the index's order, are one long row of tokens, which the trainer cuts into sequences. Each
document ends with a separator token that the tokenizer chose; the trainer does not look for it. Whoever prepares data
chooses the split by document, so that no held-out text has a neighbour in the training data.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Literal

from fsdpctl.contract.codec import CodecError, decode

Split = Literal["train", "val"]
Dtype = Literal["uint16", "uint32"]

FORMAT = 2
INDEX_NAME = "index.json"
TOKEN_BYTES: dict[Dtype, int] = {"uint16": 2, "uint32": 4}
END_BYTES = 8


@dataclass(frozen=True)
class Shard:
    """Two files of whole documents."""

    name: str  # of the files, without their suffixes
    tokens: int
    documents: int
    sha256: str  # of the tokens' file
    ends_sha256: str

    @property
    def tokens_file(self) -> str:
        return f"{self.name}.bin"

    @property
    def ends_file(self) -> str:
        return f"{self.name}.ends"


@dataclass(frozen=True)
class Index:
    """`index.json`: what the shards hold."""

    format: int
    source: str  # where the text came from, in words
    tokenizer: str  # `bytes`, or the digest of the tokenizer.json that lies beside the index
    fingerprint: str  # sha256 over everything that decides the tokens and their split
    dtype: Dtype
    vocab_size: int  # every id is smaller
    train: tuple[Shard, ...]
    val: tuple[Shard, ...]
    unigram_entropy: float  # nats a token, of the training split: what a model without context can reach

    @property
    def train_tokens(self) -> int:
        return sum(shard.tokens for shard in self.train)

    @property
    def val_tokens(self) -> int:
        return sum(shard.tokens for shard in self.val)


def read_index(directory: Path) -> Index:
    """Raises FileNotFoundError where there is no prepared data, CodecError where it is of another format or broken."""
    path = directory / INDEX_NAME
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        found = tree.get("format") if isinstance(tree, dict) else None
        if type(found) is int and found != FORMAT:
            age = "newer" if found > FORMAT else "older"
            raise CodecError(f"data format {found} is {age} than this fsdpctl's {FORMAT}")
        return decode(Index, tree)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"{path}: {error}") from None


class ShardWriter:
    """Writes one shard. Digests and counts are kept on the way; `close` makes it durable."""

    def __init__(self, directory: Path, name: str, dtype: Dtype) -> None:
        self._directory, self._name, self._dtype = directory, name, dtype
        self._tokens = self._documents = 0
        self._digests = hashlib.sha256(), hashlib.sha256()
        self._paths = directory / f"{name}.bin", directory / f"{name}.ends"
        for path in self._paths:
            path.unlink(missing_ok=True)  # not truncated: a dying writer of the same shard keeps its own file
        self._files = self._paths[0].open("xb"), self._paths[1].open("xb")

    def add(self, tokens: bytes, lengths: Sequence[int]) -> None:
        """Append whole documents: their ids as the format wants them, and how many ids each has."""
        ends = list(accumulate(lengths, initial=self._tokens))[1:]
        self._documents += len(ends)
        self._tokens += sum(lengths)
        for file, digest, data in zip(
            self._files, self._digests, (tokens, struct.pack(f"<{len(ends)}Q", *ends)), strict=True
        ):
            file.write(data)
            digest.update(data)

    def close(self) -> Shard | None:
        """Flush to disk; None, and no files, where nothing was added."""
        for path, file in zip(self._paths, self._files, strict=True):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            if not self._tokens:
                path.unlink()
        if not self._tokens:
            return None
        sha256, ends_sha256 = (digest.hexdigest() for digest in self._digests)
        return Shard(self._name, self._tokens, self._documents, sha256, ends_sha256)
