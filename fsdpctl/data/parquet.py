"""Parquet: a column of text. Read with pyarrow, by row groups and batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fsdpctl.data.recipe import InputFile, Recipe
from fsdpctl.data.spans import MAX_DOCUMENT, Document, Span
from fsdpctl.errors import UsageError, install_hint

BATCH_ROWS = 256


def spans(file: InputFile, recipe: Recipe, target: int) -> list[Span]:
    """Cut a file into spans of whole row groups of about `target` bytes."""
    with _open(file.path) as parquet:
        sizes = [parquet.metadata.row_group(i).total_byte_size for i in range(parquet.num_row_groups)]
    share = file.size / max(sum(sizes), 1)
    found: list[Span] = []
    start, num_bytes = 0, 0.0
    for stop, size in enumerate(sizes, start=1):
        num_bytes += size * share
        if num_bytes >= target or stop == len(sizes):
            found.append(Span(file.path, start, stop, round(num_bytes)))
            start, num_bytes = stop, 0.0
    return found


def read(span: Span, recipe: Recipe) -> Iterator[Document]:
    key, done = recipe.text_key, 0
    with _open(span.path) as parquet:
        _check_column(span.path, parquet, key)
        groups = range(span.start, span.stop if span.stop is not None else parquet.num_row_groups)
        first = sum(parquet.metadata.row_group(i).num_rows for i in range(span.start))
        total = sum(parquet.metadata.row_group(i).num_rows for i in groups)
        for batch in parquet.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=[key], use_threads=False):
            for text in batch.column(0).to_pylist():
                done += 1
                if text is None:
                    raise UsageError(f"{span.path}: row {first + done}: {key!r} is null, expected text")
                if len(data := text.encode()) > MAX_DOCUMENT:
                    raise UsageError(f"{span.path}: row {first + done}: longer than {MAX_DOCUMENT >> 20} MiB")
                if data:
                    yield Document(data, span.num_bytes * done // total)


@contextmanager
def _open(path: str) -> Iterator[Any]:
    pyarrow = _import_pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(path, buffer_size=2**20) as file:
            yield file
    except (OSError, pyarrow.ArrowException) as error:
        raise UsageError(f"input {path}: {str(error).splitlines()[0]}") from None


def _import_pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise UsageError("Parquet input needs the extra parquet", hint=install_hint("parquet")) from None
    return pyarrow


def _check_column(path: str, parquet: Any, key: str) -> None:
    schema = parquet.schema_arrow
    if key not in schema.names:
        raise UsageError(
            f"{path}: no column {key!r}; its columns are {', '.join(schema.names)}; choose one with --text-key"
        )
    if str(schema.field(key).type) not in ("string", "large_string", "string_view"):
        raise UsageError(f"{path}: column {key!r} has the type {schema.field(key).type}, expected string")
