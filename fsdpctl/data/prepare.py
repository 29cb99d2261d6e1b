"""`fsdpctl data prepare`: many files to one data set. After a kill at any point, the same call continues."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fsdpctl.contract.byte_progress import Meter, Progress, ignore
from fsdpctl.contract.codec import encode, write_text
from fsdpctl.contract.formats.dataset import (
    BYTES,
    FORMAT,
    MASKED_FORMAT,
    TOKENIZER_NAME,
    Index,
    Shard,
    draw_of,
    read_index,
)
from fsdpctl.data.chat import FILES, ChatTokenizer, open_for
from fsdpctl.data.inputs import cut, find_inputs, stat_again
from fsdpctl.data.partial import Partial, read_recipe
from fsdpctl.data.piece import (
    BPE_SAMPLE_BYTES,
    BpeTask,
    PieceResult,
    PieceTask,
    prepare_piece,
    read_piece,
    train_tokenizer,
)
from fsdpctl.data.recipe import Recipe, differences
from fsdpctl.data.tokenizer import dtype_of, import_tokenizers, open_tokenizer
from fsdpctl.data.workers import run_all
from fsdpctl.errors import FsdpctlError, UsageError

FEW_DOCUMENTS = 10_000
"""So many are read a second time, to advise how to divide them; a split of more is hardly ever empty."""


@dataclass(frozen=True)
class PrepareRequest:
    """What to prepare, and where."""

    inputs: Sequence[Path]
    target: Path
    tokenizer: Path | None  # a tokenizer.json; for conversations beside its other files
    recipe: Recipe  # without inputs and digests
    workers: int
    is_chat: bool = False  # documents are conversations


def prepare(request: PrepareRequest, progress: Progress) -> Index:
    """Prepare the data set, continue an unfinished one, or return a finished one.

    Raise UsageError for bad input or options, FsdpctlError if the output cannot be written.
    """
    partial = Partial(request.target.absolute())
    recipe = complete(request)
    if partial.target.exists():
        if not partial.target.is_dir():
            raise UsageError(f"--out {request.target} exists and is not a directory", hint="choose another --out")
        return _reuse(partial.target, recipe)
    try:
        with partial.begin(recipe):
            if not partial.is_complete:
                partial.complete(_make(request, recipe, partial, progress))
            partial.publish()
        return read_index(partial.target)
    except OSError as error:  # of the output: readers of input raise UsageError
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise FsdpctlError(
            f"--out {request.target}: cannot write {partial.root}: {error.strerror or error}",
            hint="free some space; the same command continues where this one stopped" if full else None,
        ) from None


def complete(request: PrepareRequest) -> Recipe:
    """Return the recipe with inputs and tokenizer. Raise UsageError for what is wrong before the work begins."""
    partial = Partial(request.target.absolute())
    inputs = find_inputs(request.inputs, exclude=(partial.target, partial.root))
    recipe = replace(request.recipe, inputs=inputs)
    if recipe.train_bpe is not None:
        import_tokenizers("--train-bpe")
        return replace(recipe, tokenizer="trained")
    if request.tokenizer is None:
        return recipe
    if request.is_chat:
        template = ChatTokenizer(request.tokenizer.parent, recipe.end_token).template
        recipe = replace(recipe, chat=hashlib.sha256(template.encode()).hexdigest())
    else:
        open_tokenizer(request.tokenizer, recipe.end_token)
    return replace(recipe, tokenizer=_digest(request.tokenizer))


def _reuse(target: Path, recipe: Recipe) -> Index:
    made = read_recipe(target)
    if made is None:
        raise UsageError(f"{target} exists and is not a data set of this command", hint="choose another --out")
    if changes := differences(made, recipe):
        raise UsageError(f"{target} was prepared with other options: {'; '.join(changes)}", hint="choose another --out")
    return read_index(target)


def _make(request: PrepareRequest, recipe: Recipe, partial: Partial, progress: Progress) -> Index:
    pieces = cut(recipe)
    without_inputs = replace(recipe, inputs=())
    if recipe.train_bpe is not None and not partial.tokenizer.exists():
        _train(partial, BpeTask(tuple(pieces), without_inputs, recipe.train_bpe, request.workers), progress)
    elif request.tokenizer is not None:
        for name in FILES if request.is_chat else (TOKENIZER_NAME,):
            if (path := request.tokenizer.with_name(name)).exists():
                write_text(partial.root / name, path.read_text(encoding="utf-8"))
    tokenizer = None if recipe.tokenizer == BYTES else partial.tokenizer
    tasks = [PieceTask(piece, without_inputs, partial.root, tokenizer) for piece in pieces]
    results = _run(partial, tasks, request.workers, progress)
    if changes := differences(recipe, replace(recipe, inputs=stat_again(recipe.inputs))):
        raise UsageError(
            f"the input has changed while it was read: {'; '.join(changes)}",
            hint=f"delete {partial.root} and start over",
        )
    return _index(partial, recipe, results, tokenizer)


def _train(partial: Partial, task: BpeTask, progress: Progress) -> None:
    total = min(BPE_SAMPLE_BYTES, sum(piece.num_bytes for piece in task.pieces))
    for tokenizer in run_all(train_tokenizer, [task], 1, Meter(progress, "training a tokenizer", total)):
        write_text(partial.tokenizer, tokenizer)


def _run(partial: Partial, tasks: Sequence[PieceTask], workers: int, progress: Progress) -> list[PieceResult]:
    results = {task.piece.number: partial.load(task.piece.number) for task in tasks}
    waiting = [task for task in tasks if results[task.piece.number] is None]
    total = sum(task.piece.num_bytes for task in tasks)
    done = total - sum(task.piece.num_bytes for task in waiting)
    for result in run_all(prepare_piece, waiting, workers, Meter(progress, "preparing", total, done)):
        partial.save(result)
        results[result.number] = result
    return [result for result in results.values() if result is not None]


def _index(partial: Partial, recipe: Recipe, results: Sequence[PieceResult], tokenizer_path: Path | None) -> Index:
    tokenizer = open_for(recipe, tokenizer_path)
    train = tuple(result.train for result in results if result.train)
    val = tuple(result.val for result in results if result.val)
    _refuse_empty(partial, recipe, train, val)
    if recipe.chat is not None and not sum(shard.targets or 0 for shard in train):
        partial.discard()
        raise UsageError(
            "nothing would be trained: the chat template marks no token of the assistant",
            hint="its {% generation %} blocks must contain the assistant's messages",
        )
    counts = np.sum([result.counts for result in results], axis=0)
    made = Index(
        format=FORMAT if recipe.chat is None else MASKED_FORMAT,
        source=_source(recipe),
        tokenizer=BYTES if tokenizer_path is None else _digest(tokenizer_path),
        separator=tokenizer.separator,
        fingerprint="",
        dtype=dtype_of(tokenizer.vocab_size),
        vocab_size=tokenizer.vocab_size,
        train=train,
        val=val,
        unigram_entropy=_entropy(counts),
    )
    return replace(made, fingerprint=_fingerprint(made))


def _refuse_empty(partial: Partial, recipe: Recipe, train: tuple[Shard, ...], val: tuple[Shard, ...]) -> None:
    """Raise UsageError and remove everything if a split has no document."""
    if train and val:
        return
    documents = sum(shard.documents for shard in train + val)
    texts = (text for piece in cut(recipe) for text in read_piece(piece, recipe, Meter(ignore, "reading again", 0)))
    draws = {draw_of(text) for text in texts} if documents <= FEW_DOCUMENTS else set()
    partial.discard()
    fraction = choose_fraction(draws)
    more = "--val-fraction holds out more" if fraction is None else f"--val-fraction {fraction} holds out one of them"
    raise UsageError(
        f"the {'training' if val else 'validation'} split is empty: {documents} document{'s' * (documents != 1)},"
        f" of which {recipe.val_fraction:g} by hash are for validation",
        hint=f"{more}; --split-on '' makes each paragraph of a text file a document",
    )


def choose_fraction(draws: Collection[float]) -> float | None:
    """Return the shortest fraction that holds out one document; None if there are no two that differ."""
    if len(draws) < 2:
        return None
    lowest, second = sorted(draws)[:2]
    shortest = (math.floor(lowest * 10**digits + 1) / 10**digits for digits in range(1, 17))
    return next((fraction for fraction in shortest if lowest < fraction <= second), second)


def _fingerprint(index: Index) -> str:
    """Return a digest of the tokens and their split, from the shards' digests and the format of their bytes."""
    splits = [[{k: v for k, v in encode(shard).items() if v} for shard in split] for split in (index.train, index.val)]
    parts = [index.format, index.dtype, index.vocab_size, index.separator, *splits]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())


def _source(recipe: Recipe) -> str:
    paths = [file.path for file in recipe.inputs]
    if len(paths) == 1:
        return f"{paths[0]}, {recipe.num_bytes:,} bytes"
    return f"{len(paths):,} files below {os.path.commonpath(paths)}, {recipe.num_bytes:,} bytes"


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"tokenizer {path}: {error.strerror}") from None
