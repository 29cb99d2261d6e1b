"""Prepared data: token ids on disk, ready to be mapped into memory. The one owner of the format.

A prepared directory holds

    train-00000.bin, val-00000.bin ...     token ids of whole documents, end to end: little-endian integers of `dtype`
    train-00000.ends, val-00000.ends ...   where each document of the shard ends, in tokens: little-endian uint64
    train-00000.mask ...                   of conversations only: a byte for each token, 1 if it is a target of the loss
    index.json                             Index, written last: without it there is no data

The shards of a split, in the index's order, are one long row of tokens, which the trainer cuts into sequences. Each
document ends with a separator token that the tokenizer chose; the trainer does not look for it, and takes the ends of
documents from their file. The split is chosen by document, so that no held-out text has a neighbour in the training
data.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

from fsdpctl.contract.codec import CodecError, decode
from fsdpctl.contract.files import read_bytes

Split = Literal["train", "val"]
Dtype = Literal["uint16", "uint32"]

FORMAT = 2
MASKED_FORMAT = 3
"""Of data with masks, which an older fsdpctl would ignore."""
INDEX_NAME = "index.json"
TOKEN_BYTES: dict[Dtype, int] = {"uint16": 2, "uint32": 4}
END_BYTES = 8
TOKENIZER_NAME = "tokenizer.json"
BYTES = "bytes"
"""The tokenizer whose ids are the bytes of the text in UTF-8."""


class ShardFile(NamedTuple):
    """A file of a shard, as it has to be."""

    name: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class Shard:
    """Two files of whole documents, and a third one where not every token is a target of the loss."""

    name: str  # of the files, without their suffixes
    tokens: int
    documents: int
    sha256: str  # of the tokens' file
    ends_sha256: str
    targets: int | None = None  # number of tokens that are targets of the loss; None: all of them, and no mask
    mask_sha256: str = ""

    @property
    def tokens_file(self) -> str:
        return f"{self.name}.bin"

    @property
    def ends_file(self) -> str:
        return f"{self.name}.ends"

    @property
    def mask_file(self) -> str | None:
        return f"{self.name}.mask" if self.targets is not None else None

    def files(self, dtype: Dtype) -> list[ShardFile]:
        tokens = ShardFile(self.tokens_file, self.tokens * TOKEN_BYTES[dtype], self.sha256)
        ends = ShardFile(self.ends_file, self.documents * END_BYTES, self.ends_sha256)
        masks = [ShardFile(name, self.tokens, self.mask_sha256)] if (name := self.mask_file) is not None else []
        return [tokens, ends, *masks]


@dataclass(frozen=True)
class Index:
    """`index.json`: what the shards hold."""

    format: int
    source: str  # where the text came from, as text
    tokenizer: str  # `bytes`, or the sha256 of the tokenizer.json beside the index
    separator: int  # the token id that ends each document
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

    @property
    def has_documents(self) -> bool:
        """Return whether attention within documents differs from that within sequences: one document has no limits."""
        return sum(shard.documents for shard in self.train) > 1

    @property
    def model_vocab_size(self) -> int:
        """The smallest vocabulary of a model for this data: a multiple of 128, which is faster on GPUs."""
        return -self.vocab_size // 128 * -128


def read_index(directory: Path) -> Index:
    """Read the index. Raises FileNotFoundError where there is none, CodecError for another format or a broken file."""
    path = directory / INDEX_NAME
    return parse_index(read_bytes(path), str(path))


def parse_index(text: bytes, name: str) -> Index:
    """Return the index in `text`. Raises CodecError, with the name of the file."""
    try:
        tree = json.loads(text.decode())
        found = tree.get("format") if isinstance(tree, dict) else None
        if type(found) is int and not FORMAT <= found <= MASKED_FORMAT:
            age = "newer" if found > FORMAT else "older"
            raise CodecError(f"data format {found} is {age} than this fsdpctl's {MASKED_FORMAT}")
        return decode(Index, tree)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"{name}: {error}") from None


def split_of(key: bytes, val_fraction: float) -> Split:
    """Choose a document's split by its name or text alone, so that adding a document moves no other."""
    return "val" if draw_of(key) < val_fraction else "train"


def draw_of(key: bytes) -> float:
    """Return the fraction from which on a document is held out, in [0, 1)."""
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") / 2**64


class ShardWriter:
    """Writes one shard, durable once closed. Removes what a killed writer left of it."""

    def __init__(self, directory: Path, name: str, *, is_masked: bool = False) -> None:
        self._name = name
        self._tokens, self._ends = _DigestedFile(directory / f"{name}.bin"), _DigestedFile(directory / f"{name}.ends")
        self._mask = _DigestedFile(directory / f"{name}.mask") if is_masked else None
        self._num_tokens = self._num_documents = self._num_targets = 0

    def add(self, tokens: bytes | memoryview, lengths: Sequence[int], mask: bytes | None = None) -> None:
        """Append whole documents: their ids in the index's `dtype`, the number of ids in each document, and in a shard
        with a mask a byte for each id."""
        ends = list(accumulate(lengths, initial=self._num_tokens))[1:]
        self._tokens.write(tokens)
        self._ends.write(struct.pack(f"<{len(ends)}Q", *ends))
        self._num_tokens = ends[-1]
        self._num_documents += len(ends)
        if self._mask is not None and mask is not None:
            self._mask.write(mask)
            self._num_targets += mask.count(1)

    def close(self) -> Shard | None:
        """Flush to disk; None, and no files, where nothing was added."""
        files = [file for file in (self._tokens, self._ends, self._mask) if file is not None]
        sha256, ends_sha256, *mask_sha256 = [file.close() for file in files]
        if not self._num_documents:
            for file in files:
                file.path.unlink()
            return None
        shard = Shard(self._name, self._num_tokens, self._num_documents, sha256, ends_sha256)
        return replace(shard, targets=self._num_targets, mask_sha256=mask_sha256[0]) if mask_sha256 else shard


class _DigestedFile:
    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)  # not truncated: a writer that is just being killed keeps a file of its own
        self.path = path
        self._file = path.open("xb")
        self._digest = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)

    def close(self) -> str:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._digest.hexdigest()
