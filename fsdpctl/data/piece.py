"""The work of one process: a piece of the input to one shard of each split, or to a tokenizer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fsdpctl.contract.byte_progress import Report
from fsdpctl.contract.formats.dataset import Shard, ShardWriter, Split, split_of
from fsdpctl.data.formats import read_span
from fsdpctl.data.inputs import Piece
from fsdpctl.data.recipe import Recipe
from fsdpctl.data.tokenizer import Ids, dtype_of, open_tokenizer, train_bpe

BATCH_BYTES = 2**20
REPORT_BYTES = 2**20
COUNT_BLOCK = 2**22
SPLITS: tuple[Split, ...] = ("train", "val")

BPE_SAMPLE_BYTES = 128 * 2**20
"""A tokenizer learns from this much text, taken evenly from the whole input: more changes little, and costs memory."""


@dataclass(frozen=True)
class PieceTask:
    """A piece and all that its worker needs to know."""

    piece: Piece
    recipe: Recipe  # without its inputs: a piece has its own
    directory: Path
    tokenizer: Path | None


@dataclass(frozen=True)
class PieceResult:
    """What a finished piece consists of."""

    number: int
    train: Shard | None
    val: Shard | None
    counts: NDArray[np.int64]  # how often each id stands in the training shard


def prepare_piece(task: PieceTask, report: Report) -> PieceResult:
    """Write the shards of a piece. Raises UsageError for bad input, OSError for a disk that takes no more."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    tokenizer = open_tokenizer(task.tokenizer, task.recipe.end_token)
    dtype = np.dtype(dtype_of(tokenizer)).newbyteorder("<")
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    writers = {split: ShardWriter(task.directory, f"{split}-{task.piece.number:05d}") for split in SPLITS}
    for texts in _batches(read_piece(task.piece, task.recipe, report)):
        encoded: dict[Split, list[Ids]] = {split: [] for split in SPLITS}
        for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
            encoded[split_of(text, task.recipe.val_fraction)].append(ids)
        for split, documents in encoded.items():
            if documents:
                tokens = np.concatenate(documents, dtype=dtype, casting="unsafe")
                writers[split].add(tokens.data.cast("B"), list(map(len, documents)))
                if split == "train":
                    _count(tokens, counts)
    train, val = (writers[split].close() for split in SPLITS)
    return PieceResult(task.piece.number, train, val, counts)


def _count(tokens: Ids, counts: NDArray[np.int64]) -> None:
    for start in range(0, len(tokens), COUNT_BLOCK):  # numpy counts with eight bytes a token
        counts += np.bincount(tokens[start : start + COUNT_BLOCK], minlength=len(counts))


def read_piece(piece: Piece, recipe: Recipe, report: Report) -> Iterator[bytes]:
    """The documents of a piece, in order; reports now and then how far it is."""
    done = reported = 0
    for span in piece.spans:
        for document in read_span(span, recipe):
            yield document.text
            if done + document.position - reported >= REPORT_BYTES:
                report(done + document.position - reported)
                reported = done + document.position
        done += span.num_bytes
    report(done - reported)


def _batches(texts: Iterator[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    num_bytes = 0
    for text in texts:
        batch.append(text)
        num_bytes += len(text)
        if num_bytes >= BATCH_BYTES:
            yield batch
            batch, num_bytes = [], 0
    if batch:
        yield batch


@dataclass(frozen=True)
class BpeTask:
    """Learn a tokenizer from the beginning of each piece."""

    pieces: tuple[Piece, ...]
    recipe: Recipe
    vocab_size: int
    threads: int


def train_tokenizer(task: BpeTask, report: Report) -> str:
    """Return a tokenizer.json, learned from the training split alone."""
    os.environ |= {"TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": str(task.threads)}
    return train_bpe(_sample(task, report), task.vocab_size)


def _sample(task: BpeTask, report: Report) -> Iterator[bytes]:
    share = BPE_SAMPLE_BYTES // len(task.pieces)
    for piece in task.pieces:
        taken = 0
        for text in read_piece(piece, task.recipe, report):
            if split_of(text, task.recipe.val_fraction) == "train":
                yield text
                taken += len(text)
            if taken >= share:
                break
