"""The work of one process: write one shard of each split from a piece of the input, or train a tokenizer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fsdpctl.contract.byte_progress import Report
from fsdpctl.contract.formats.dataset import Shard, ShardWriter, Split, split_of
from fsdpctl.data.chat import Masked, encode, open_for
from fsdpctl.data.formats import read_span
from fsdpctl.data.inputs import InputPiece
from fsdpctl.data.recipe import Recipe
from fsdpctl.data.tokenizer import Ids, dtype_of, train_bpe

BATCH_BYTES = 2**20
REPORT_BYTES = 2**20
COUNT_BLOCK = 2**22
SPLITS: tuple[Split, ...] = ("train", "val")

BPE_SAMPLE_BYTES = 128 * 2**20
"""A tokenizer is trained on this much text, sampled evenly from the input: more changes little and costs memory."""


@dataclass(frozen=True)
class PieceTask:
    """A piece and everything that its worker needs."""

    piece: InputPiece
    recipe: Recipe  # without its inputs: the piece has its own
    directory: Path
    tokenizer: Path | None


@dataclass(frozen=True)
class PieceResult:
    """The shards of a finished piece."""

    number: int
    train: Shard | None
    val: Shard | None
    counts: NDArray[np.int64]  # of each id in the training shard


def prepare_piece(task: PieceTask, report: Report) -> PieceResult:
    """Write the shards of a piece. Raise UsageError for bad input, OSError for a full disk."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    recipe, number = task.recipe, task.piece.number
    tokenizer = open_for(recipe, task.tokenizer)
    dtype = np.dtype(dtype_of(tokenizer.vocab_size)).newbyteorder("<")
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    is_masked = recipe.chat is not None
    writers = {split: ShardWriter(task.directory, f"{split}-{number:05d}", is_masked=is_masked) for split in SPLITS}
    for texts in _batches(read_piece(task.piece, recipe, report)):
        encoded: dict[Split, list[Masked]] = {split: [] for split in SPLITS}
        for text, document in zip(texts, encode(tokenizer, texts), strict=True):
            encoded[split_of(text, recipe.val_fraction)].append(document)
        for split, documents in encoded.items():
            if documents:
                targets = _write(writers[split], documents, dtype)
                if split == "train":
                    _count(targets, counts)
    train, val = (writers[split].close() for split in SPLITS)
    return PieceResult(number, train, val, counts)


def _write(writer: ShardWriter, documents: Sequence[Masked], dtype: np.dtype[Any]) -> Ids:
    """Append documents to a shard; return those of their ids that are targets of the loss."""
    tokens: Ids = np.concatenate([document.ids for document in documents], dtype=dtype, casting="unsafe")
    lengths = [len(document.ids) for document in documents]
    masks = [document.mask for document in documents if document.mask is not None]
    if not masks:
        writer.add(tokens.data.cast("B"), lengths)
        return tokens
    mask = np.concatenate(masks)
    writer.add(tokens.data.cast("B"), lengths, mask.tobytes())
    targets: Ids = tokens[mask == 1]
    return targets


def _count(tokens: Ids, counts: NDArray[np.int64]) -> None:
    for start in range(0, len(tokens), COUNT_BLOCK):  # numpy needs eight bytes per token to count
        counts += np.bincount(tokens[start : start + COUNT_BLOCK], minlength=len(counts))


def read_piece(piece: InputPiece, recipe: Recipe, report: Report) -> Iterator[bytes]:
    """Yield the documents of a piece, in order, and report progress about every REPORT_BYTES."""
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
    """The training of a tokenizer on the beginning of each piece."""

    pieces: tuple[InputPiece, ...]
    recipe: Recipe
    vocab_size: int
    threads: int


def train_tokenizer(task: BpeTask, report: Report) -> str:
    """Return a tokenizer.json, trained on the training split only."""
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
