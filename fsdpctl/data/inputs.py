"""The input files, and their division into pieces of work, which depends on the files only, not on the workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fsdpctl.data.formats import spans_of
from fsdpctl.data.recipe import InputFile, Recipe
from fsdpctl.data.spans import Span
from fsdpctl.errors import UsageError

PIECE_BYTES = 64 * 2**20
MAX_PIECES = 128
"""Each piece makes one shard of each split, and each shard is a memory-mapped file in every rank."""
HF_DATASET = {"dataset_info.json", "state.json"}
HF_SPLITS = {"dataset_dict.json"}
"""What `datasets` writes beside Arrow files, and above the directories of splits: no documents."""


@dataclass(frozen=True)
class InputPiece:
    """The work of one process, and one shard of each split."""

    number: int
    spans: tuple[Span, ...]

    @property
    def num_bytes(self) -> int:
        return sum(span.num_bytes for span in self.spans)


def find_inputs(given: Sequence[Path], exclude: Sequence[Path] = ()) -> tuple[InputFile, ...]:
    """Return the given files and all files below the given directories, except hidden ones.

    `exclude` are directories to leave out, because the output may be below the input. Raise UsageError if a file or
    a directory cannot be read, a linked directory is outside of the given ones, or all files are empty.
    """
    known = [_real(folder) for folder in (*given, *exclude)]
    paths = dict.fromkeys(path.absolute() for start in given for path in _files_of(start, known))
    files = tuple(_stat(path) for path in paths if not any(folder in path.parents for folder in exclude))
    if not any(file.size for file in files):
        raise UsageError(f"no text in {', '.join(map(str, given))}: {len(files)} files, all empty")
    return files


def stat_again(files: Sequence[InputFile]) -> tuple[InputFile, ...]:
    """Return the same files with their current size and time."""
    return tuple(_stat(Path(file.path)) for file in files)


def _files_of(start: Path, known: Sequence[Path]) -> Iterator[Path]:
    """Yield the file, or what is below the directory. Linked directories are not followed, but have to be `known`: they
    could be loops, or bring files twice."""
    if not start.is_dir():
        yield start
        return
    for folder, subfolders, names in os.walk(start, onerror=_refuse):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for path in (Path(folder, name) for name in subfolders):
            if path.is_symlink() and not any(_has(one, _real(path)) for one in known):
                raise UsageError(
                    f"input {path} is a link to {_real(path)}, which is not below an input",
                    hint="name this directory as an input, too, or remove the link",
                )
        described = {name for group in (HF_DATASET, HF_SPLITS) if group <= set(names) for name in group}
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith(".") and name not in described)


def _refuse(error: OSError) -> NoReturn:
    raise UsageError(f"input {error.filename}: {error.strerror}") from None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve raises for a link to itself


def _has(folder: Path, path: Path) -> bool:
    """Return whether the path is the folder, or below it and not hidden."""
    return path.is_relative_to(folder) and not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _stat(path: Path) -> InputFile:
    try:
        if not path.is_file():
            path.stat()
            raise UsageError(f"{path} is not a regular file; an input is a file or a directory of files")
        found = path.stat()
    except OSError as error:
        raise UsageError(f"input {path}: {error.strerror}") from None
    return InputFile(str(path), found.st_size, found.st_mtime_ns)


def cut(recipe: Recipe) -> list[InputPiece]:
    """Divide the inputs, in order, into pieces of at least PIECE_BYTES, except the last one."""
    target = max(PIECE_BYTES, recipe.num_bytes // MAX_PIECES + 1)
    pieces: list[InputPiece] = []
    spans: list[Span] = []
    num_bytes = 0
    for span in (span for file in recipe.inputs if file.size for span in spans_of(file, recipe, target)):
        spans.append(span)
        num_bytes += span.num_bytes
        if num_bytes >= target:
            pieces.append(InputPiece(len(pieces), tuple(spans)))
            spans, num_bytes = [], 0
    return [*pieces, InputPiece(len(pieces), tuple(spans))] if spans else pieces
