"""The reader of an input file, by its suffix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Protocol

from fsdpctl.data import arrow, jsonlines, parquet, text
from fsdpctl.data.compression import import_zstd, is_compressed
from fsdpctl.data.conversation import LAYOUTS
from fsdpctl.data.recipe import InputFile, Recipe
from fsdpctl.data.spans import Document, Span
from fsdpctl.errors import UsageError


class InputFormat(Protocol):
    """A module that reads one kind of file."""

    def spans(self, file: InputFile, recipe: Recipe, target: int) -> list[Span]:
        """Cut a file into spans of about `target` bytes, or return one span if it cannot be cut."""

    def read(self, span: Span, recipe: Recipe) -> Iterator[Document]:
        """Yield the documents that begin in the span. Raise UsageError with the file and the line or row."""


_FORMATS: dict[str, InputFormat] = {
    ".jsonl": jsonlines,
    ".ndjson": jsonlines,
    ".json": jsonlines,  # the suffix of JSON lines in public corpora
    ".parquet": parquet,
    ".arrow": arrow,
}


def format_of(path: str) -> InputFormat:
    """Return the reader of a file; the text reader for an unknown suffix."""
    inner = PurePath(path).stem if is_compressed(path) else path
    return _FORMATS.get(PurePath(inner).suffix, text)


def spans_of(file: InputFile, recipe: Recipe, target: int) -> list[Span]:
    if file.path.endswith(".zst"):
        import_zstd()  # report a missing library before the work begins
    found = format_of(file.path)
    if recipe.chat is not None and found is text:
        raise UsageError(
            f"{file.path}: conversations are read from JSON lines, Parquet and Arrow", hint=f"keys: {LAYOUTS}"
        )
    return found.spans(file, recipe, target)


def read_span(span: Span, recipe: Recipe) -> Iterator[Document]:
    return format_of(span.path).read(span, recipe)
