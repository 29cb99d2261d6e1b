"""What passes between the readers of files and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fsdpctl.data.recipe import InputFile

MAX_DOCUMENT = 32 * 2**20
"""Bytes. A document is held in memory, so it has a limit."""


@dataclass(frozen=True)
class Span:
    """A part of a file: the documents that begin in it."""

    path: str
    start: int  # bytes of a file of lines, row groups of Parquet
    stop: int | None  # None: to the end
    num_bytes: int  # of the file, for balance and progress


class Document(NamedTuple):
    text: bytes  # UTF-8, not empty
    position: int  # bytes of the span that lie behind


def byte_spans(file: InputFile, target: int) -> list[Span]:
    """Cut a file of lines at any byte: readers find the next line, or the next document, by themselves."""
    starts = range(0, file.size, target)
    return [Span(file.path, start, start + target, min(target, file.size - start)) for start in starts]


def whole(file: InputFile) -> list[Span]:
    return [Span(file.path, 0, None, file.size)]
