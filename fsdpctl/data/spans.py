"""The values that the readers of input files exchange with the other modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fsdpctl.data.recipe import InputFile

MAX_DOCUMENT = 32 * 2**20
"""Maximum size of a document in bytes: it is held in memory."""


@dataclass(frozen=True)
class Span:
    """A part of a file: all documents that begin in it."""

    path: str
    start: int  # in bytes of a file of lines, in row groups of Parquet
    stop: int | None  # None: to the end
    num_bytes: int  # of the file, for balance and progress


class Document(NamedTuple):
    text: bytes  # UTF-8, not empty
    position: int  # bytes of the span up to the end of this document


def byte_spans(file: InputFile, target: int) -> list[Span]:
    """Cut a file of lines at any byte: readers skip to the next line or document."""
    starts = range(0, file.size, target)
    return [Span(file.path, start, start + target, min(target, file.size - start)) for start in starts]


def whole(file: InputFile) -> list[Span]:
    return [Span(file.path, 0, None, file.size)]
