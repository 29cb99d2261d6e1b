"""The files to read, and their division into pieces of work. It depends on the files alone, never on the workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.data.formats import spans_of
from fsdpctl.data.recipe import InputFile, Recipe
from fsdpctl.data.spans import Span
from fsdpctl.errors import UsageError

PIECE_BYTES = 64 * 2**20
MAX_PIECES = 128
"""Each piece is a shard of each split, and each shard is a mapped file in every rank."""


@dataclass(frozen=True)
class Piece:
    """The work of one process, and one shard of each split."""

    number: int
    spans: tuple[Span, ...]

    @property
    def num_bytes(self) -> int:
        return sum(span.num_bytes for span in self.spans)


def find_inputs(words: Sequence[Path], but: Sequence[Path] = ()) -> tuple[InputFile, ...]:
    """The files that are named, and all files below the directories that are named; hidden ones aside.

    `but`: directories that are left out, for the output may lie below the input.
    """
    paths = dict.fromkeys(path.absolute() for word in words for path in _files_of(word))
    files = tuple(_stat(path) for path in paths if not any(folder in path.parents for folder in but))
    if not any(file.size for file in files):
        raise UsageError(f"no text in {', '.join(map(str, words))}: {len(files)} files, all of them empty")
    return files


def look_again(files: Sequence[InputFile]) -> tuple[InputFile, ...]:
    """The same files as they are now."""
    return tuple(_stat(Path(file.path)) for file in files)


def _files_of(word: Path) -> Iterator[Path]:
    if not word.is_dir():
        yield word
        return
    for folder, subfolders, names in os.walk(word):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        yield from (
            path for name in sorted(names) if not name.startswith(".") and (path := Path(folder, name)).is_file()
        )


def _stat(path: Path) -> InputFile:
    try:
        if not path.is_file():
            path.stat()
            raise UsageError(f"{path} is no regular file; an input is a file or a directory of files")
        found = path.stat()
    except OSError as error:
        raise UsageError(f"input {path}: {error.strerror}") from None
    return InputFile(str(path), found.st_size, found.st_mtime_ns)


def cut(recipe: Recipe) -> list[Piece]:
    """Divide the inputs, in order, into pieces of at least PIECE_BYTES, the last one aside."""
    target = max(PIECE_BYTES, recipe.num_bytes // MAX_PIECES + 1)
    pieces: list[Piece] = []
    spans: list[Span] = []
    num_bytes = 0
    for span in (span for file in recipe.inputs if file.size for span in spans_of(file, recipe, target)):
        spans.append(span)
        num_bytes += span.num_bytes
        if num_bytes >= target:
            pieces.append(Piece(len(pieces), tuple(spans)))
            spans, num_bytes = [], 0
    return [*pieces, Piece(len(pieces), tuple(spans))] if spans else pieces
