"""Which reader a file has, by its suffix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Protocol

from fsdpctl.data import jsonlines, parquet, text
from fsdpctl.data.compression import import_zstd, is_compressed
from fsdpctl.data.recipe import InputFile, Recipe
from fsdpctl.data.spans import Document, Span


class Format(Protocol):
    """A module that knows a kind of file."""

    def spans(self, file: InputFile, recipe: Recipe, target: int) -> list[Span]:
        """Cut a file into parts of about `target` bytes, where it can be cut."""

    def read(self, span: Span, recipe: Recipe) -> Iterator[Document]:
        """The documents that begin in the span. Raises UsageError naming the file and the line or row."""


_FORMATS: dict[str, Format] = {
    ".jsonl": jsonlines,
    ".ndjson": jsonlines,
    ".json": jsonlines,  # public corpora call their JSON lines so
    ".parquet": parquet,
}


def format_of(path: str) -> Format:
    """The reader of a file; one of unknown suffix is text."""
    inner = PurePath(path).stem if is_compressed(path) else path
    return _FORMATS.get(PurePath(inner).suffix, text)


def spans_of(file: InputFile, recipe: Recipe, target: int) -> list[Span]:
    if file.path.endswith(".zst"):
        import_zstd()  # a missing library is found before the work begins
    return format_of(file.path).spans(file, recipe, target)


def read_span(span: Span, recipe: Recipe) -> Iterator[Document]:
    return format_of(span.path).read(span, recipe)
